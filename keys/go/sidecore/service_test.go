package sidecore

import (
	"bufio"
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Keys of the service that the Rust test makes.
var kinds = []string{"rsa", "p256", "p384", "ed25519"}

// real connects to the agent of a Rust test, keys/agent/tests/agent/go.rs, which also starts these tests.
func real(t *testing.T) *Client {
	t.Helper()
	if os.Getenv("SIDECORE_TEST_CONTROL") == "" {
		t.Skip("needs a service and an agent: cargo test -p sidecore-agent --test agent go")
	}
	client := New(Options{Timeout: time.Minute, RestartWait: time.Minute})
	t.Cleanup(client.Close)
	return client
}

// control has the Rust test do something.
func control(t *testing.T, command ...string) {
	t.Helper()
	conn, err := net.Dial("unix", os.Getenv("SIDECORE_TEST_CONTROL"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintln(conn, strings.Join(command, " "))
	if answer, err := bufio.NewReader(conn).ReadString('\n'); err != nil || answer != "done\n" {
		t.Fatalf("%s: %q, %v", command, answer, err)
	}
}

func signer(t *testing.T, client *Client, name string) *Signer {
	t.Helper()
	signer, err := client.Signer(name)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// chain is a certificate in PEM that the key signs itself.
func chain(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func certificate(t *testing.T, client *Client, name string) tls.Certificate {
	t.Helper()
	certificate, err := client.Certificate(name, chain(t, signer(t, client, name)))
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// handshake returns the errors of client and server. Both ends verify the peer's certificate.
func handshake(certificate tls.Certificate, version uint16) (error, error) {
	roots := x509.NewCertPool()
	roots.AddCert(certificate.Leaf)
	return handshakeOf(&tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientCAs: roots, ClientAuth: tls.RequireAnyClientCert,
		MinVersion: version, MaxVersion: version,
	}, &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: roots, ServerName: "localhost"})
}

func handshakeOf(server, client *tls.Config) (error, error) {
	here, there := net.Pipe()
	defer here.Close()
	serving := make(chan error, 1)
	go func() {
		defer there.Close()
		conn := tls.Server(there, server)
		_, err := conn.Write([]byte("it works"))
		serving <- err
	}()
	conn := tls.Client(here, client)
	said, err := io.ReadAll(io.LimitReader(conn, 8))
	if err == nil && string(said) != "it works" {
		err = fmt.Errorf("it said %q", said)
	}
	here.Close()
	return err, <-serving
}

func good(t *testing.T, certificate tls.Certificate, version uint16) {
	t.Helper()
	if client, server := handshake(certificate, version); client != nil || server != nil {
		t.Fatalf("client: %v, server: %v", client, server)
	}
}

// bad expects that the server cannot sign. Errors of crypto/tls have only the text of their cause.
func bad(t *testing.T, certificate tls.Certificate, kind Kind) {
	t.Helper()
	_, err := handshake(certificate, tls.VersionTLS13)
	if err == nil || !strings.Contains(err.Error(), texts[kind][0]) {
		t.Fatalf("not %q: %v", kind, err)
	}
}

func TestHandshakes(t *testing.T) {
	client := real(t)
	for _, name := range kinds {
		certificate := certificate(t, client, name)
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			good(t, certificate, version)
		}
	}
	// TLS 1.2 by PKCS#1 v1.5, which both ends use only if there is nothing else.
	old := certificate(t, client, "rsa")
	for _, scheme := range []tls.SignatureScheme{tls.PKCS1WithSHA256, tls.PKCS1WithSHA384, tls.PKCS1WithSHA512} {
		old.SupportedSignatureAlgorithms = []tls.SignatureScheme{scheme}
		good(t, old, tls.VersionTLS12)
	}
	for _, scheme := range []tls.SignatureScheme{tls.PSSWithSHA256, tls.PSSWithSHA384, tls.PSSWithSHA512} {
		old.SupportedSignatureAlgorithms = []tls.SignatureScheme{scheme}
		good(t, old, tls.VersionTLS13)
	}
}

func TestManyGoroutines(t *testing.T) {
	certificate := certificate(t, real(t), "p256")
	var group sync.WaitGroup
	for range make([]struct{}, 32) {
		group.Add(1)
		go func() {
			defer group.Done()
			for range make([]struct{}, 8) {
				if client, server := handshake(certificate, tls.VersionTLS13); client != nil || server != nil {
					t.Errorf("client: %v, server: %v", client, server)
				}
			}
		}()
	}
	group.Wait()
}

func TestAWrongName(t *testing.T) {
	client := real(t)
	_, err := client.Signer("no-such-key")
	expect(t, err, NoKey)
	wrong, err := client.Certificate("no-such-key", chain(t, signer(t, client, "p256")))
	if err != nil {
		t.Fatal(err)
	}
	bad(t, wrong, NoKey)
	other, err := client.Certificate("p384", chain(t, signer(t, client, "p256")))
	if err != nil {
		t.Fatal(err)
	}
	bad(t, other, Replaced)
}

func TestTheAgentRestarts(t *testing.T) {
	client := real(t)
	certificate := certificate(t, client, "ed25519")
	good(t, certificate, tls.VersionTLS13)
	for range make([]struct{}, 3) {
		control(t, "agent", "restart")
		good(t, certificate, tls.VersionTLS12)
	}
	control(t, "agent", "stop")
	impatient := New(Options{RestartWait: -1})
	_, err := impatient.Signer("ed25519")
	expect(t, err, NoAgent)
	// This one begins without an agent.
	done := make(chan error)
	go func() {
		_, err := certificate.PrivateKey.(*Signer).Sign(nil, []byte("message"), crypto.Hash(0))
		done <- err
	}()
	control(t, "agent", "start")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := impatient.Signer("ed25519"); err != nil {
		t.Fatal(err)
	}
}

func TestTheServiceRestarts(t *testing.T) {
	client := real(t)
	old := certificate(t, client, "p256")
	control(t, "service", "stop")
	bad(t, old, Refused)
	// It has other keys of the same names.
	control(t, "service", "start")
	bad(t, old, Replaced)
	good(t, certificate(t, client, "p256"), tls.VersionTLS13)
}

func TestRightsAreWithdrawn(t *testing.T) {
	client := real(t)
	control(t, "make", "mine")
	mine := certificate(t, client, "mine")
	good(t, mine, tls.VersionTLS13)
	control(t, "withdraw", "mine")
	bad(t, mine, NoKey)
	control(t, "delete", "mine")
	control(t, "make", "mine")
	bad(t, mine, Replaced)
	good(t, certificate(t, client, "mine"), tls.VersionTLS13)
}

func TestAFileIsReadAgain(t *testing.T) {
	client := real(t)
	path := filepath.Join(t.TempDir(), "chain.pem")
	write := func(chain []byte) {
		if err := os.WriteFile(path+".new", chain, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	var warned []error
	client.options.Log = func(err error) { warned = append(warned, err) }
	file := client.File("p256", path)
	certificate := func() []byte {
		certificate, err := file.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AddCert(certificate.Leaf)
		server := &tls.Config{GetCertificate: file.GetCertificate}
		client, serving := handshakeOf(server, &tls.Config{RootCAs: roots, ServerName: "localhost"})
		if client != nil || serving != nil {
			t.Fatalf("client: %v, server: %v", client, serving)
		}
		return certificate.Certificate[0]
	}
	key := signer(t, client, "p256")
	write(chain(t, key))
	first := certificate()
	if !bytes.Equal(first, certificate()) || len(warned) > 0 {
		t.Fatal(warned)
	}
	write([]byte("half a file"))
	if !bytes.Equal(first, certificate()) || len(warned) == 0 || !errors.Is(warned[0], Certificate) {
		t.Fatal(warned)
	}
	write(chain(t, key))
	if bytes.Equal(first, certificate()) {
		t.Fatal("the former certificate is used")
	}
}

// A library may give one certificate to several handshakes; the first one's end is not that of the others.
func TestACertificateOutlivesTheHandshakeThatAskedForIt(t *testing.T) {
	client := real(t)
	path := filepath.Join(t.TempDir(), "chain.pem")
	if err := os.WriteFile(path, chain(t, signer(t, client, "p256")), 0o600); err != nil {
		t.Fatal(err)
	}
	file := client.File("p256", path)
	var shared *tls.Certificate
	config := &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		certificate, err := file.GetCertificate(hello)
		shared = certificate
		return certificate, err
	}}
	if server, client := handshakeOf(config, &tls.Config{InsecureSkipVerify: true}); server != nil || client != nil {
		t.Fatal(server, client)
	}
	good(t, *shared, tls.VersionTLS13)
}

func BenchmarkSign(b *testing.B) {
	if os.Getenv("SIDECORE_TEST_CONTROL") == "" {
		b.Skip("needs a service and an agent")
	}
	client := New(Options{})
	defer client.Close()
	digest := sha256.Sum256([]byte("message"))
	signer, err := client.Signer("p256")
	if err != nil {
		b.Fatal(err)
	}
	for range make([]struct{}, b.N) {
		if _, err := signer.Sign(nil, digest[:], crypto.SHA256); err != nil {
			b.Fatal(err)
		}
	}
}
