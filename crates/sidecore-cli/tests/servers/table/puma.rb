# Puma waits without a limit for connections of handshakes that failed.
force_shutdown_after 10
ssl_bind "127.0.0.1", "@port@", {
  verify_mode: "none",
  @lines@
}
app { |_| [200, {}, []] }
