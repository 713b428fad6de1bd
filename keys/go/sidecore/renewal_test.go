package sidecore

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// put replaces a file in one step, as certbot does.
func put(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// site is a server whose certificate is a File, and the warnings about it.
type site struct {
	file     *File
	listener net.Listener

	mu       sync.Mutex
	warnings []error
}

func serve(t *testing.T, options Options, name, path string) *site {
	t.Helper()
	site := new(site)
	options.Log = func(err error) {
		site.mu.Lock()
		defer site.mu.Unlock()
		site.warnings = append(site.warnings, err)
	}
	client := New(options)
	t.Cleanup(client.Close)
	site.file = client.File(name, path)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: site.file.GetCertificate})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	site.listener = listener
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				conn.(*tls.Conn).Handshake()
				conn.Close()
			}()
		}
	}()
	return site
}

// shake makes a handshake and returns the server's certificate.
func (s *site) shake() ([]byte, error) {
	config := tls.Config{InsecureSkipVerify: true, ClientSessionCache: nil}
	conn, err := tls.Dial("tcp", s.listener.Addr().String(), &config)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Raw, nil
}

func (s *site) warned() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]error(nil), s.warnings...)
}

// shows expects this chain's certificate of the next handshake.
func (s *site) shows(t *testing.T, chain []byte) {
	t.Helper()
	block, _ := pem.Decode(chain)
	if shown, err := s.shake(); err != nil || !bytes.Equal(shown, block.Bytes) {
		t.Fatalf("another certificate, or none: %v", err)
	}
}

// load makes handshakes without a pause, until the returned function is called, which gives the numbers of good and failed
// ones.
func (s *site) load(clients int) func() (good, failed int64) {
	var good, failed int64
	var group sync.WaitGroup
	end := make(chan struct{})
	for range make([]struct{}, clients) {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				select {
				case <-end:
					return
				default:
				}
				if _, err := s.shake(); err != nil {
					atomic.AddInt64(&failed, 1)
				} else {
					atomic.AddInt64(&good, 1)
				}
			}
		}()
	}
	return func() (int64, int64) {
		close(end)
		group.Wait()
		return good, failed
	}
}

func TestARenewalOfKeyAndChainCostsNoHandshake(t *testing.T) {
	client := real(t)
	path := filepath.Join(t.TempDir(), "chain.pem")
	control(t, "make", "site")
	control(t, "make", "site.1700000000")
	old, renewed := chain(t, signer(t, client, "site")), chain(t, signer(t, client, "site.1700000000"))
	// certbot has put the new chain in its place, and the service does not have its key yet.
	control(t, "withdraw", "site.1700000000")
	put(t, path, old)
	site := serve(t, Options{Timeout: time.Minute, RestartWait: time.Minute}, "site", path)
	end := site.load(8)
	site.shows(t, old)
	put(t, path, renewed)
	for range make([]struct{}, 50) {
		site.shows(t, old)
	}
	control(t, "permit", "site.1700000000")
	// A question that another handshake asked before this may be open still, and this one goes on with the former chain.
	for {
		shown, err := site.shake()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(shown, decode(t, renewed)) {
			break
		}
	}
	for range make([]struct{}, 50) {
		site.shows(t, renewed)
	}
	// The key of the former name goes, and the server starts again.
	control(t, "delete", "site")
	site.shows(t, renewed)
	serve(t, Options{}, "site", path).shows(t, renewed)
	good, failed := end()
	if t.Logf("%d handshakes during the renewal, %d failed", good+failed, failed); good == 0 || failed > 0 {
		t.Fatal(site.warned())
	}
	if warned := site.warned(); len(warned) != 1 || !errors.Is(warned[0], Certificate) {
		t.Fatalf("not one warning: %v", warned)
	}
}

func TestAKeyThatIsReplacedUnderItsNameBringsItsChain(t *testing.T) {
	client := real(t)
	directory := t.TempDir()
	path := filepath.Join(directory, "chain.pem")
	control(t, "make", "replaced")
	old := chain(t, signer(t, client, "replaced"))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(directory, "key"), pkcs8)
	put(t, path, old)
	site := serve(t, Options{}, "replaced", path)
	site.shows(t, old)
	renewed := chain(t, key)
	put(t, path, renewed)
	site.shows(t, old)
	control(t, "replace", "replaced", filepath.Join(directory, "key"))
	site.shows(t, renewed)
}

func TestAFileThatStaysAwayOrUnusableIsLoggedOnce(t *testing.T) {
	client := real(t)
	path := filepath.Join(t.TempDir(), "chain.pem")
	control(t, "make", "away")
	key := signer(t, client, "away")
	first := chain(t, key)
	put(t, path, first)
	site := serve(t, Options{}, "away", path)
	site.shows(t, first)
	expired := func() []byte {
		template, _ := x509.ParseCertificate(decode(t, first))
		template.NotBefore, template.NotAfter = time.Unix(1577836800, 0), time.Unix(1609459200, 0)
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}()
	for warnings, change := range []func(){
		func() {},
		func() { os.Remove(path) },
		func() { put(t, path, []byte("half a file")) },
		func() { put(t, path, expired) },
	} {
		change()
		for range make([]struct{}, 5) {
			site.shows(t, first)
		}
		if warned := site.warned(); len(warned) != warnings {
			t.Fatalf("not %d warnings: %v", warnings, warned)
		}
	}
	warned := site.warned()
	if !errors.Is(warned[0], fs.ErrNotExist) || !strings.Contains(warned[2].Error(), "2020-01-01T00:00:00Z to 2021-01-01") {
		t.Fatal(warned)
	}
	again := chain(t, key)
	put(t, path, again)
	site.shows(t, again)
}

func decode(t *testing.T, chain []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(chain)
	if block == nil {
		t.Fatal("no PEM")
	}
	return block.Bytes
}

func TestOnlyARenewalsNameStandsForTheName(t *testing.T) {
	for key, is := range map[string]bool{
		"www": true, "www.1795621440": true, "www.": false, "www.179562144": false, "www.17956214400": false,
		"www.17956x1440": false, "wwww": false, "www.example": false, "1795621440": false, "ww": false, "": false,
	} {
		if isOf("www", key) != is {
			t.Error(key)
		}
	}
}

func TestAnOutageThatNobodyMetForAMinuteIsOver(t *testing.T) {
	const wait = 2 * time.Second
	var known outage
	begin := time.Unix(1_800_000_000, 0)
	for _, step := range []struct{ at, left time.Duration }{
		{0, wait},
		{time.Second, time.Second},
		{3 * time.Second, -time.Second},
		// One minute after the last request that met it, it goes on.
		{63 * time.Second, -61 * time.Second},
		// An agent may have come and gone since: this is another outage, with a wait of its own.
		{124 * time.Second, wait},
		{125 * time.Second, time.Second},
	} {
		if left := known.left(begin.Add(step.at), wait); left != step.left {
			t.Errorf("%s: %s left, not %s", step.at, left, step.left)
		}
	}
}

func TestAContextEndsWhatWaits(t *testing.T) {
	public, _ := ed25519Key(t)
	done := make(chan struct{})
	defer close(done)
	silent := agentOf(t, func(conn net.Conn) {
		request(conn)
		<-done
	})
	patient := Options{Timeout: time.Hour, RestartWait: time.Hour, Connections: 1}
	for _, socket := range []string{silent, "/no/such/agent"} {
		patient.Socket = socket
		client := New(patient)
		signer, err := client.SignerOf("www", public)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		asks := []func() error{
			func() error { _, err := client.KeysContext(ctx); return err },
			func() error { _, err := client.SignerContext(ctx, "www"); return err },
			func() error {
				_, err := signer.WithContext(ctx).Sign(nil, []byte("message"), crypto.Hash(0))
				return err
			},
		}
		// One of them has the connection, and the others wait for it.
		for _, ask := range asks {
			ask := ask
			go func() { ended <- ask() }()
		}
		cancel()
		for range asks {
			err := <-ended
			expect(t, err, Canceled)
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		ctx, cancel = context.WithTimeout(context.Background(), time.Millisecond)
		_, err = client.KeysContext(ctx)
		cancel()
		expect(t, err, Timeout)
	}
}

func TestAnErrorHasItsRemedyOnce(t *testing.T) {
	public, _ := ed25519Key(t)
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	refusing := agentOf(t, func(conn net.Conn) {
		request(conn)
		reply(conn, []byte{extensionFailure})
		// The list of keys is refused, too.
		request(conn)
		reply(conn, []byte{extensionFailure})
	})
	var said []error
	for _, socket := range []string{refusing, "/no/such/agent"} {
		client := New(Options{Socket: socket, RestartWait: -1})
		signer, err := client.SignerOf("www", public)
		if err != nil {
			t.Fatal(err)
		}
		_, signing := signer.Sign(nil, []byte("message"), crypto.Hash(0))
		_, long := signer.Sign(nil, make([]byte, maxMessage), crypto.Hash(0))
		_, listing := client.Keys()
		_, public := client.SignerOf("www", "no key")
		_, chain := client.Certificate("www", []byte("no PEM"))
		_, file := client.File("www", "/no/such/file").GetCertificate(nil)
		other, err := client.SignerOf("www", p256.Public())
		if err != nil {
			t.Fatal(err)
		}
		_, pss := other.Sign(nil, make([]byte, 31), &rsa.PSSOptions{Hash: crypto.SHA256})
		said = append(said, signing, long, listing, public, chain, file, pss)
	}
	for _, err := range said {
		var known *Error
		if !errors.As(err, &known) || errors.As(known.Cause, new(*Error)) {
			t.Fatalf("no Error, or one within another: %#v", err)
		}
		text, words := err.Error(), texts[known.Kind]
		if strings.Count(text, "sidecore: ") != 1 || strings.Count(text, words[0]) != 1 || strings.Count(text, words[1]) != 1 {
			t.Errorf("said twice: %s", text)
		}
	}
}
