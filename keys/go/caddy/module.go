// Package caddy lets Caddy serve with private keys of the sidecore service. Caddy has the chain of certificates only.
package caddy

import (
	"context"
	"crypto/tls"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"sidecore.example/go/sidecore"
)

func init() { caddy.RegisterModule(new(Certificate)) }

// Sites with the same agent share its connections, also over reloads of the configuration.
var clients sync.Map

// Certificate is the module tls.get_certificate.sidecore.
type Certificate struct {
	// Key is the name of a key in the service.
	Key string `json:"key"`
	// Chain is a file in PEM with the certificate of the key first. It is read again whenever it changes.
	Chain string `json:"chain"`
	// Agent is the socket of sidecore agent. Default: SSH_AUTH_SOCK.
	Agent string `json:"agent,omitempty"`

	file *sidecore.File
}

// CaddyModule names the module.
func (*Certificate) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "tls.get_certificate.sidecore", New: func() caddy.Module { return new(Certificate) }}
}

// Provision reads the chain. The agent may be away.
func (c *Certificate) Provision(caddy.Context) error {
	client, known := clients.Load(c.Agent)
	if !known {
		log := caddy.Log().Named("tls.sidecore")
		made := sidecore.New(sidecore.Options{Socket: c.Agent, Log: func(err error) { log.Error("key", zap.Error(err)) }})
		client, _ = clients.LoadOrStore(c.Agent, made)
	}
	c.file = client.(*sidecore.Client).File(c.Key, c.Chain)
	_, err := c.file.GetCertificate(nil)
	return err
}

// GetCertificate is called for each handshake.
func (c *Certificate) GetCertificate(_ context.Context, hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.file.GetCertificate(hello)
}

// UnmarshalCaddyfile reads
//
//	get_certificate sidecore KEY CHAIN [AGENT]
func (c *Certificate) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.Args(&c.Key, &c.Chain) {
		return d.ArgErr()
	}
	d.Args(&c.Agent)
	if d.NextArg() {
		return d.ArgErr()
	}
	return nil
}

var (
	_ certmagic.Manager     = (*Certificate)(nil)
	_ caddy.Provisioner     = (*Certificate)(nil)
	_ caddyfile.Unmarshaler = (*Certificate)(nil)
)
