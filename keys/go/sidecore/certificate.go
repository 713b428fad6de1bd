package sidecore

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Longest file of certificates, bytes.
const maxChain = 1 << 20

// Signatures of the service with RSA keys. It makes none with SHA-1 or MD5.
var rsaSchemes = []tls.SignatureScheme{
	tls.PSSWithSHA256, tls.PSSWithSHA384, tls.PSSWithSHA512, tls.PKCS1WithSHA256, tls.PKCS1WithSHA384, tls.PKCS1WithSHA512,
}

// Certificate joins a chain in PEM, the key's own certificate first, with the key of this name as for SignerOf. The agent
// may be away.
func (c *Client) Certificate(name string, chain []byte) (tls.Certificate, error) {
	var certificate tls.Certificate
	for block, rest := pem.Decode(chain); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			certificate.Certificate = append(certificate.Certificate, block.Bytes)
		}
	}
	if len(certificate.Certificate) == 0 {
		return tls.Certificate{}, &Error{Certificate, name, errors.New("no certificate in PEM")}
	}
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		return tls.Certificate{}, &Error{Certificate, name, err}
	}
	signer, err := c.SignerOf(name, leaf.PublicKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	certificate.Leaf, certificate.PrivateKey = leaf, signer
	if _, is := leaf.PublicKey.(*rsa.PublicKey); is {
		certificate.SupportedSignatureAlgorithms = rsaSchemes
	}
	return certificate, nil
}

// File is a certificate of a file that is read again whenever it changes. The changed one is used as soon as the agent
// offers its key under the name, or under the one that sidecore keys renew gave it; until then, and while the file cannot be
// used or has a certificate outside of its dates, the former certificate and its key stay. Several goroutines may use it.
type File struct {
	client     *Client
	name, path string

	mu sync.Mutex
	// What was found at the path last. Nil: nothing.
	read os.FileInfo
	used *tls.Certificate
	// The changed one, which is not used yet.
	next *tls.Certificate
	// The last failure that was logged. A failure goes on for many handshakes.
	said string
	// A handshake asks the agent for the key of the next one.
	asking bool
}

// A question for the key of a changed chain does not hold up a handshake for longer: the former chain is there.
const patience = 250 * time.Millisecond

// File names the file of a chain and the key of its first certificate. The file is read with the first handshake.
func (c *Client) File(name, path string) *File {
	return &File{client: c, name: name, path: path}
}

// GetCertificate is for tls.Config. Signatures do not end with the handshake that asked: CertMagic gives one certificate to
// all handshakes that wait for it, and the end of the first would fail the others.
func (f *File) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.look(); err != nil {
		if f.used == nil {
			return nil, err
		}
		f.tell(err)
	}
	if f.next != nil && !f.asking {
		f.follow()
	}
	return f.used, nil
}

// look reads the file if it has changed.
func (f *File) look() error {
	info, err := os.Stat(f.path)
	if err == nil && f.read != nil && same(info, f.read) && f.used != nil {
		return nil
	}
	f.read = nil
	var certificate tls.Certificate
	if err == nil {
		certificate, err = f.load()
		f.read = info
	}
	if err == nil {
		f.next = &certificate
		if f.used == nil {
			f.used = f.next
		}
		return nil
	}
	// What was read before this is gone.
	f.next = nil
	var known *Error
	if !errors.As(err, &known) {
		err = &Error{Certificate, f.path, err}
	}
	return err
}

// follow uses the changed certificate if its key is there. The agent is asked without the lock: other handshakes go on with
// the former one. The question is for all of them, so the end of the one that asks does not end it.
func (f *File) follow() {
	next, used := f.next, f.used
	f.asking = true
	f.mu.Unlock()
	ctx, done := context.WithTimeout(context.Background(), patience)
	keys, err := f.client.keys(ctx, 0)
	done()
	f.mu.Lock()
	f.asking = false
	if f.next != next {
		return
	}
	why := err
	if err == nil {
		why = reason(f.path, next, used, keys, time.Now())
	}
	switch {
	case why == nil:
		f.used, f.next, f.said = next, nil, ""
	case next != used:
		f.tell(why)
	}
}

// reason tells why the next certificate is not used in the place of the present one. Nil: it is used.
func reason(path string, next, used *tls.Certificate, keys []Key, now time.Time) error {
	is, _ := next.PrivateKey.(*Signer).among(keys)
	if !is {
		return &Error{Certificate, path, errors.New("the agent does not offer the key of the changed chain, and the former chain " +
			"stays in use: run sidecore keys renew")}
	}
	was, _ := used.PrivateKey.(*Signer).among(keys)
	if was && inDate(used.Leaf, now) && !inDate(next.Leaf, now) {
		return &Error{Certificate, path, fmt.Errorf("the changed chain is for %s to %s, and the former one stays in use",
			next.Leaf.NotBefore.UTC().Format(time.RFC3339), next.Leaf.NotAfter.UTC().Format(time.RFC3339))}
	}
	return nil
}

func inDate(certificate *x509.Certificate, now time.Time) bool {
	return !now.Before(certificate.NotBefore) && !now.After(certificate.NotAfter)
}

// tell logs a failure once, until another follows or the file is used again.
func (f *File) tell(err error) {
	if text := err.Error(); text != f.said {
		f.said = text
		f.client.options.Log(err)
	}
}

func same(one, other os.FileInfo) bool {
	return os.SameFile(one, other) && one.ModTime().Equal(other.ModTime()) && one.Size() == other.Size()
}

func (f *File) load() (tls.Certificate, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return tls.Certificate{}, err
	}
	defer file.Close()
	chain, err := io.ReadAll(io.LimitReader(file, maxChain+1))
	if err != nil {
		return tls.Certificate{}, err
	}
	if len(chain) > maxChain {
		return tls.Certificate{}, errors.New("the file is longer than 1 MiB")
	}
	return f.client.Certificate(f.name, chain)
}
