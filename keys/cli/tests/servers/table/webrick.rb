require "webrick/https"
settings = { BindAddress: "127.0.0.1", Port: @port@, SSLEnable: true, AccessLog: [] }
@lines@
WEBrick::HTTPServer.new(**settings).start
