package sidecore

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// agentOf answers each connection by a function. The agent ends with the test.
func agentOf(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "agent")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				answer(conn)
			}()
		}
	}()
	return socket
}

// request reads a request. It returns nil at the end of the connection.
func request(conn net.Conn) []byte {
	var header [4]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return nil
	}
	message := make([]byte, binary.BigEndian.Uint32(header[:]))
	if _, err := io.ReadFull(conn, message); err != nil {
		return nil
	}
	return message
}

func response(name string, rest ...[]byte) []byte {
	message := appendString([]byte{extensionResponse}, []byte(name))
	for _, part := range rest {
		message = append(message, part...)
	}
	return message
}

func reply(conn net.Conn, message []byte) { conn.Write(appendString(nil, message)) }

func ed25519Key(t *testing.T) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

func expect(t *testing.T, err error, kind Kind) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("not %q: %v", kind, err)
	}
	var known *Error
	if !errors.As(err, &known) || known.Name == "" {
		t.Fatalf("without a name: %#v", err)
	}
}

func TestHostileAgents(t *testing.T) {
	public, _ := ed25519Key(t)
	signature := appendString(nil, make([]byte, ed25519.SignatureSize))
	number := func(n uint32) []byte { return appendUint32(nil, n) }
	for name, test := range map[string]struct {
		bytes []byte
		kind  Kind
	}{
		"a frame of 4 GiB":          {append(number(math.MaxUint32), 29), Protocol},
		"a frame over the limit":    {append(number(maxMessage+1), 29), Protocol},
		"an empty frame":            {number(0), Protocol},
		"half a length":             {[]byte{0, 0}, NoAgent},
		"a truncated answer":        {append(number(100), 29, 0), NoAgent},
		"nothing":                   {nil, NoAgent},
		"another type":              {appendString(nil, []byte{14, 1, 2}), Protocol},
		"no sidecore agent":         {appendString(nil, []byte{failure}), Protocol},
		"another extension":         {appendString(nil, response(listKeys, signature)), Protocol},
		"no name":                   {appendString(nil, []byte{extensionResponse}), Protocol},
		"a string beyond the frame": {appendString(nil, response(signTLS, number(math.MaxUint32), []byte{1})), Protocol},
		"no signature":              {appendString(nil, response(signTLS)), Protocol},
		"more than a signature":     {appendString(nil, response(signTLS, signature, []byte{0})), Protocol},
		"an empty signature":        {appendString(nil, response(signTLS, number(0))), Invalid},
		"a wrong signature":         {appendString(nil, response(signTLS, signature)), Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			client := New(Options{RestartWait: -1, Socket: agentOf(t, func(conn net.Conn) {
				if request(conn) != nil {
					conn.Write(test.bytes)
				}
			})})
			signer, err := client.SignerOf("www", public)
			if err != nil {
				t.Fatal(err)
			}
			signed, err := signer.Sign(nil, []byte("message"), crypto.Hash(0))
			if signed != nil {
				t.Fatal("a signature was returned")
			}
			expect(t, err, test.kind)
		})
	}
}

func TestSignaturesOfAnotherKeyOrMessageAreDiscarded(t *testing.T) {
	digest := sha256.Sum256([]byte("message"))
	other := sha256.Sum256([]byte("another"))
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []crypto.Signer{p256, rsaKey} {
		var input []byte
		client := New(Options{Socket: agentOf(t, func(conn net.Conn) {
			for request(conn) != nil {
				signature, err := key.Sign(rand.Reader, input, crypto.SHA256)
				if err != nil {
					t.Error(err)
				}
				reply(conn, response(signTLS, appendString(nil, signature)))
			}
		})})
		signer, err := client.SignerOf("www", key.Public())
		if err != nil {
			t.Fatal(err)
		}
		input = digest[:]
		if _, err := signer.Sign(nil, digest[:], crypto.SHA256); err != nil {
			t.Fatal(err)
		}
		input = other[:]
		_, err = signer.Sign(nil, digest[:], crypto.SHA256)
		expect(t, err, Invalid)
		input = digest[:]
		if _, is := key.(*rsa.PrivateKey); is {
			pss := &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}
			_, err = signer.Sign(nil, digest[:], pss)
			expect(t, err, Invalid)
		}
	}
}

func TestTheAgentsCodeNamesTheKindOfAFailure(t *testing.T) {
	public, _ := ed25519Key(t)
	for _, test := range []struct {
		// Of the signature and of the list after it.
		code, list []byte
		kind       Kind
	}{
		{[]byte{3}, nil, Unsupported},
		{[]byte{8}, response(listKeys), NoKey},
		{[]byte{10}, response(listKeys, appendString(nil, []byte("www")), appendString(nil, []byte("other"))), Replaced},
		// A limit is no kind here, 200 is of a later version, and agents of earlier ones have no code.
		{[]byte{11}, []byte{extensionFailure, 11}, Refused},
		{[]byte{200}, []byte{extensionFailure, 200}, Refused},
		{nil, []byte{extensionFailure}, Refused},
	} {
		client := New(Options{RestartWait: -1, Socket: agentOf(t, func(conn net.Conn) {
			request(conn)
			reply(conn, append([]byte{extensionFailure}, test.code...))
			if request(conn) != nil {
				reply(conn, test.list)
			}
		})})
		signer, err := client.SignerOf("www", public)
		if err != nil {
			t.Fatal(err)
		}
		_, err = signer.Sign(nil, []byte("message"), crypto.Hash(0))
		expect(t, err, test.kind)
		client.Close()
	}
}

func TestAListWithRestIsRefused(t *testing.T) {
	part := appendString(nil, []byte("www"))
	for _, rest := range [][]byte{part, append(part, 0, 0), append(part, 0, 0, 1, 0, 7), {1}} {
		rest := rest
		client := New(Options{Socket: agentOf(t, func(conn net.Conn) {
			for request(conn) != nil {
				reply(conn, response(listKeys, rest))
			}
		})})
		_, err := client.Keys()
		expect(t, err, Protocol)
	}
}

func TestAnAgentThatStaysSilentOrSendsSingleBytesHasADeadline(t *testing.T) {
	done := make(chan struct{})
	defer close(done)
	for _, drips := range []bool{false, true} {
		drips := drips
		client := New(Options{Timeout: 100 * time.Millisecond, Connections: 1, Socket: agentOf(t, func(conn net.Conn) {
			request(conn)
			conn.Write([]byte{0, 0, 255, 255})
			for drips {
				if _, err := conn.Write([]byte{29}); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
			<-done
		})})
		_, err := client.Keys()
		expect(t, err, Timeout)
	}
}

func TestARequestWithoutAConnectionHasADeadlineToo(t *testing.T) {
	begun, done := make(chan struct{}), make(chan struct{})
	client := New(Options{Timeout: time.Hour, Connections: 1, Socket: agentOf(t, func(conn net.Conn) {
		request(conn)
		close(begun)
		<-done
		reply(conn, response(listKeys))
	})})
	var group sync.WaitGroup
	group.Add(1)
	go func() {
		defer group.Done()
		if _, err := client.Keys(); err != nil {
			t.Error(err)
		}
	}()
	<-begun
	second := &Client{options: client.options, slots: client.slots}
	second.options.Timeout = 10 * time.Millisecond
	_, err := second.Keys()
	expect(t, err, Timeout)
	close(done)
	group.Wait()
}

func TestNoMoreConnectionsThanAllowed(t *testing.T) {
	var open, most, total int32
	client := New(Options{Timeout: time.Hour, Connections: 3, Socket: agentOf(t, func(conn net.Conn) {
		atomic.AddInt32(&total, 1)
		defer atomic.AddInt32(&open, -1)
		for now := atomic.AddInt32(&open, 1); ; {
			if before := atomic.LoadInt32(&most); now <= before || atomic.CompareAndSwapInt32(&most, before, now) {
				break
			}
		}
		for request(conn) != nil {
			reply(conn, response(listKeys))
		}
	})})
	var group sync.WaitGroup
	for range make([]struct{}, 64) {
		group.Add(1)
		go func() {
			defer group.Done()
			for range make([]struct{}, 20) {
				if _, err := client.Keys(); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	group.Wait()
	if most > 3 || total > 3 {
		t.Fatalf("%d connections of %d at the same time", total, most)
	}
}

func TestAnIdleConnectionThatTheAgentEndedCostsNoRequest(t *testing.T) {
	var connections int32
	client := New(Options{RestartWait: -1, Socket: agentOf(t, func(conn net.Conn) {
		atomic.AddInt32(&connections, 1)
		request(conn)
		reply(conn, response(listKeys))
	})})
	for range make([]struct{}, 5) {
		if _, err := client.Keys(); err != nil {
			t.Fatal(err)
		}
	}
	if connections != 5 {
		t.Fatalf("%d connections", connections)
	}
}

func TestOptionsThatNoKeyHas(t *testing.T) {
	// No agent: all fails before a request.
	client := New(Options{Socket: "/no/such/agent", RestartWait: -1})
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	edwards, _ := ed25519Key(t)
	digest := make([]byte, 32)
	for _, test := range []struct {
		public  crypto.PublicKey
		input   []byte
		options crypto.SignerOpts
		kind    Kind
	}{
		{&rsaKey.PublicKey, digest, nil, Unsupported},
		{&rsaKey.PublicKey, digest[:31], crypto.SHA256, Unsupported},
		{&rsaKey.PublicKey, digest, crypto.SHA384, Unsupported},
		{&rsaKey.PublicKey, digest[:20], crypto.SHA1, Unsupported},
		{&rsaKey.PublicKey, append(digest, 0, 0, 0, 0), crypto.MD5SHA1, Unsupported},
		{&rsaKey.PublicKey, digest, crypto.Hash(0), Unsupported},
		{&rsaKey.PublicKey, digest, &rsa.PSSOptions{Hash: crypto.SHA256}, Unsupported},
		{&rsaKey.PublicKey, digest, &rsa.PSSOptions{SaltLength: 20, Hash: crypto.SHA256}, Unsupported},
		{&p256.PublicKey, digest, crypto.Hash(0), Unsupported},
		{&p256.PublicKey, digest[:20], crypto.SHA256, Unsupported},
		{edwards, digest, crypto.SHA512, Unsupported},
		{edwards, digest, otherOptions{}, Unsupported},
		{edwards, make([]byte, maxMessage), crypto.Hash(0), Unsupported},
		{edwards, digest, crypto.Hash(0), NoAgent},
		{&rsaKey.PublicKey, digest, &rsa.PSSOptions{SaltLength: 32, Hash: crypto.SHA256}, NoAgent},
	} {
		signer, err := client.SignerOf("www", test.public)
		if err != nil {
			t.Fatal(err)
		}
		_, err = signer.Sign(nil, test.input, test.options)
		expect(t, err, test.kind)
	}
	_, err = client.SignerOf("www", "no key")
	expect(t, err, Unsupported)
}

// otherOptions stands for options of Ed25519 with a context, which Go 1.19 does not have.
type otherOptions struct{}

func (otherOptions) HashFunc() crypto.Hash { return 0 }

func TestWhatIsNoCertificate(t *testing.T) {
	client := New(Options{})
	for _, chain := range []string{"", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		_, err := client.Certificate("www", []byte(chain))
		expect(t, err, Certificate)
	}
	_, err := client.File("www", "/no/such/file").GetCertificate(nil)
	expect(t, err, Certificate)
}
