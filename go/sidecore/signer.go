package sidecore

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"io"
)

// Signer is a crypto.Signer with a key of the service. Several goroutines may use it at the same time.
type Signer struct {
	client *Client
	name   string
	public crypto.PublicKey
	spki   []byte
}

// Signer returns the key of this name. The agent must answer.
func (c *Client) Signer(name string) (*Signer, error) {
	key, err := c.find(name)
	if err != nil {
		return nil, err
	}
	if key.Public == nil {
		return nil, &Error{Unsupported, name, errors.New("this version of Go does not know keys of this kind")}
	}
	return c.SignerOf(name, key.Public)
}

// SignerOf returns a key whose public part is known, e.g. from its certificate. The agent may be away.
func (c *Client) SignerOf(name string, public crypto.PublicKey) (*Signer, error) {
	switch public.(type) {
	case *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return nil, &Error{Unsupported, name, errors.New("only RSA, ECDSA and Ed25519 keys sign here")}
	}
	spki, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, &Error{Unsupported, name, err}
	}
	return &Signer{c, name, public, spki}, nil
}

func (c *Client) find(name string) (Key, error) {
	keys, err := c.Keys()
	if err != nil {
		return Key{}, err
	}
	for _, key := range keys {
		if key.Name == name {
			return key, nil
		}
	}
	return Key{}, &Error{NoKey, name, nil}
}

// Public returns the public key.
func (s *Signer) Public() crypto.PublicKey { return s.public }

// Sign signs a digest, or with Ed25519 a message. The service has its own random numbers. A signature that does not
// verify is not returned.
func (s *Signer) Sign(_ io.Reader, input []byte, options crypto.SignerOpts) ([]byte, error) {
	signature, err := s.sign(input, options)
	if err != nil {
		s.client.options.Log(err)
	}
	return signature, err
}

func (s *Signer) sign(input []byte, options crypto.SignerOpts) ([]byte, error) {
	scheme, err := s.scheme(input, options)
	if err != nil {
		return nil, &Error{Unsupported, s.name, err}
	}
	name, spki := appendString(nil, []byte(s.name)), appendString(nil, s.spki)
	rest, err := s.client.ask(signTLS, name, spki, appendUint32(nil, scheme), appendString(nil, input))
	if errors.Is(err, Refused) {
		return nil, s.refused()
	}
	if err != nil {
		return nil, err
	}
	signature, ok := next(&rest)
	if !ok || len(rest) > 0 {
		return nil, s.client.failed(Protocol, nil)
	}
	if !s.verifies(input, signature, options) {
		return nil, &Error{Invalid, s.name, nil}
	}
	return signature, nil
}

// refused looks for a reason that the list of keys shows.
func (s *Signer) refused() error {
	key, err := s.client.find(s.name)
	switch {
	case errors.Is(err, NoKey):
		return err
	case err == nil && !bytes.Equal(key.spki, s.spki):
		return &Error{Replaced, s.name, nil}
	default:
		return &Error{Refused, s.name, err}
	}
}

// scheme is a SignatureScheme of TLS 1.3.
func (s *Signer) scheme(input []byte, options crypto.SignerOpts) (uint32, error) {
	if options == nil {
		return 0, errors.New("SignerOpts is nil")
	}
	hash := options.HashFunc()
	if _, is := s.public.(ed25519.PublicKey); is {
		// Options of another type ask for Ed25519ctx or Ed25519ph.
		if plain, is := options.(crypto.Hash); !is || plain != 0 {
			return 0, errors.New("Ed25519 signs messages without a context: use crypto.Hash(0)")
		}
		return 0x0807, nil
	}
	var level uint32
	switch hash {
	case crypto.SHA256:
		level = 0x0400
	case crypto.SHA384:
		level = 0x0500
	case crypto.SHA512:
		level = 0x0600
	default:
		return 0, errors.New("this hash is not supported")
	}
	if len(input) != hash.Size() {
		return 0, errors.New("the digest has not the length of its hash")
	}
	if _, is := s.public.(*ecdsa.PublicKey); is {
		return level | 0x03, nil
	}
	pss, is := options.(*rsa.PSSOptions)
	if !is {
		return level | 0x01, nil
	}
	if pss.SaltLength != rsa.PSSSaltLengthEqualsHash && pss.SaltLength != hash.Size() {
		return 0, errors.New("the salt has not the length of the hash")
	}
	// 0x0804 to 0x0806.
	return 0x0800 | level>>8, nil
}

func (s *Signer) verifies(input, signature []byte, options crypto.SignerOpts) bool {
	switch public := s.public.(type) {
	case *rsa.PublicKey:
		if pss, is := options.(*rsa.PSSOptions); is {
			return rsa.VerifyPSS(public, pss.HashFunc(), input, signature, pss) == nil
		}
		return rsa.VerifyPKCS1v15(public, options.HashFunc(), input, signature) == nil
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(public, input, signature)
	case ed25519.PublicKey:
		return ed25519.Verify(public, input, signature)
	}
	return false
}
