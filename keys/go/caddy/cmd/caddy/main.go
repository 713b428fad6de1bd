// Command caddy is Caddy with its own modules and that of sidecore.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "sidecore.example/go/caddy"
)

func main() { caddycmd.Main() }
