package sidecore

import (
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"sync"
)

// Longest file of certificates, bytes.
const maxChain = 1 << 20

// Signatures of the service with RSA keys. It makes none with SHA-1 or MD5.
var rsaSchemes = []tls.SignatureScheme{
	tls.PSSWithSHA256, tls.PSSWithSHA384, tls.PSSWithSHA512, tls.PKCS1WithSHA256, tls.PKCS1WithSHA384, tls.PKCS1WithSHA512,
}

// Certificate joins a chain in PEM, the key's own certificate first, with the key of this name. The agent may be away.
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

// File is a certificate of a file that is read again whenever it changes. The former certificate stays if the changed
// file cannot be used. Several goroutines may use it.
type File struct {
	client     *Client
	name, path string

	mu          sync.Mutex
	read        os.FileInfo
	certificate *tls.Certificate
	// The changed file that could not be used; it is not read again before its next change.
	bad os.FileInfo
}

// File names the file of a chain and the key of its first certificate. The file is read with the first handshake.
func (c *Client) File(name, path string) *File {
	return &File{client: c, name: name, path: path}
}

// GetCertificate is for tls.Config.
func (f *File) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err == nil && f.certificate != nil && (same(info, f.read) || f.bad != nil && same(info, f.bad)) {
		return f.certificate, nil
	}
	var certificate tls.Certificate
	if err == nil {
		certificate, err = f.load()
	}
	if err == nil {
		f.certificate, f.read, f.bad = &certificate, info, nil
		return f.certificate, nil
	}
	var known *Error
	if !errors.As(err, &known) {
		err = &Error{Certificate, f.path, err}
	}
	if f.certificate == nil {
		return nil, err
	}
	f.bad = info
	f.client.options.Log(err)
	return f.certificate, nil
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
