# Keys of the openssl gem, a server of WEBrick's, and Net::HTTP with a client's certificate. DIRECTORY
require "net/http"
require "openssl"
require "webrick"
require "webrick/https"

directory, = ARGV
keys = %w[rsa2048 p256].to_h { |name| [name, OpenSSL::PKey.read(File.read("#{directory}/#{name}.pem"))] }
keys.each do |name, key|
  puts "#{name} private #{key.private?}"
  puts "#{name} #{key.verify("SHA256", key.sign("SHA256", "data"), "data")}"
  begin
    OpenSSL::PKey.read(key.to_pem).sign("SHA256", "data")
    puts "#{name} a copy signed"
  rescue OpenSSL::OpenSSLError
    puts "#{name} no copy signs"
  end
end
keys.each do |name, key|
  certificate = OpenSSL::X509::Certificate.new(File.read("#{directory}/#{name}.crt"))
  server = WEBrick::HTTPServer.new(
    BindAddress: "127.0.0.1", Port: 0, Logger: WEBrick::Log.new(File::NULL), AccessLog: [], SSLEnable: true,
    SSLCertificate: certificate, SSLPrivateKey: key, SSLVerifyClient: OpenSSL::SSL::VERIFY_PEER | OpenSSL::SSL::VERIFY_FAIL_IF_NO_PEER_CERT,
    SSLCACertificateFile: "#{directory}/#{name}.crt"
  )
  server.mount_proc("/") { |_, response| response.body = "it works" }
  serving = Thread.new { server.start }
  http = Net::HTTP.new("localhost", server.config[:Port])
  http.use_ssl, http.ca_file, http.cert, http.key = true, "#{directory}/#{name}.crt", certificate, key
  puts "#{name} #{http.get("/").body}"
  server.shutdown
  serving.join
end
