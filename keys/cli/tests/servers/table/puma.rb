# Without it Puma's stop waits for open connections without a limit.
force_shutdown_after 10
ssl_bind "127.0.0.1", "@port@", {
  verify_mode: "none",
  @lines@
}
app { |_| [200, {}, []] }
