ssl_bind "127.0.0.1", "@port@", {
  verify_mode: "none",
  @lines@
}
app { |_| [200, {}, []] }
