package sidecore

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"io"
	"strings"
	"sync/atomic"
)

// Signer is a crypto.Signer with a key of the service. Several goroutines may use it at the same time.
type Signer struct {
	client *Client
	ctx    context.Context
	name   string
	public crypto.PublicKey
	spki   []byte
	// Its name in the service, if that is known: sidecore keys renew stores each key of NAME as NAME.SECONDS.
	stored *atomic.Pointer[string]
}

// digits of the seconds in the name that a renewal gives a key.
const digits = 10

// isOf tells whether a key has this name, or is one that a renewal stored for it.
func isOf(name, key string) bool {
	seconds := strings.TrimPrefix(key, name+".")
	return key == name || len(seconds) == digits && len(key) == len(name)+1+digits && strings.Trim(seconds, "0123456789") == ""
}

// Signer returns the key of this name. The agent must answer.
func (c *Client) Signer(name string) (*Signer, error) {
	return c.SignerContext(context.Background(), name)
}

// SignerContext is Signer, until the context ends. The signer does not keep the context.
func (c *Client) SignerContext(ctx context.Context, name string) (*Signer, error) {
	keys, err := c.KeysContext(ctx)
	if err != nil {
		return nil, err
	}
	var key *Key
	for at := range keys {
		if keys[at].Name == name {
			key = &keys[at]
		}
	}
	if key == nil {
		return nil, &Error{NoKey, name, nil}
	}
	if key.Public == nil {
		return nil, &Error{Unsupported, name, errors.New("this version of Go does not know keys of this kind")}
	}
	return c.SignerOf(name, key.Public)
}

// SignerOf returns a key whose public part is known, e.g. from its certificate: the key of this name, or the one that
// sidecore keys renew stored for it as NAME.SECONDS. The agent may be away.
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
	return &Signer{c, context.Background(), name, public, spki, new(atomic.Pointer[string])}, nil
}

// WithContext returns the same key, whose signatures end with the context.
func (s *Signer) WithContext(ctx context.Context) *Signer {
	other := *s
	other.ctx = ctx
	return &other
}

// among looks for the key in a list, and keeps its name. It tells also whether another key has the signer's name.
func (s *Signer) among(keys []Key) (is, other bool) {
	for _, key := range keys {
		if isOf(s.name, key.Name) && bytes.Equal(key.spki, s.spki) {
			name := key.Name
			s.stored.Store(&name)
			return true, false
		}
		other = other || key.Name == s.name
	}
	return false, other
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
	rest, err := s.request(scheme, input)
	if mayBeRenamed(err) {
		rest, err = s.refused(scheme, input)
	}
	if errors.Is(err, Unsupported) {
		err = &Error{Unsupported, s.name, nil}
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

func (s *Signer) request(scheme uint32, input []byte) ([]byte, error) {
	stored := s.name
	if known := s.stored.Load(); known != nil {
		stored = *known
	}
	name, spki := appendString(nil, []byte(stored)), appendString(nil, s.spki)
	wait := s.client.options.RestartWait
	return s.client.ask(s.ctx, wait, signTLS, name, spki, appendUint32(nil, scheme), appendString(nil, input))
}

// mayBeRenamed tells whether a refusal may be that of a key which has another name by now.
func mayBeRenamed(err error) bool {
	return errors.Is(err, Refused) || errors.Is(err, NoKey) || errors.Is(err, Replaced)
}

// refused looks for the key under the name that a renewal gave it, or else for a reason that the list of keys shows.
func (s *Signer) refused(scheme uint32, input []byte) ([]byte, error) {
	before := s.stored.Load()
	keys, err := s.client.KeysContext(s.ctx)
	if err != nil {
		return nil, err
	}
	is, other := s.among(keys)
	switch after := s.stored.Load(); {
	case is && (before == nil && *after != s.name || before != nil && *before != *after):
		rest, err := s.request(scheme, input)
		if mayBeRenamed(err) {
			err = &Error{Refused, s.name, nil}
		}
		return rest, err
	case is:
		return nil, &Error{Refused, s.name, nil}
	case other:
		return nil, &Error{Replaced, s.name, nil}
	default:
		return nil, &Error{NoKey, s.name, nil}
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
