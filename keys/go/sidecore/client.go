// Package sidecore signs with private keys of the sidecore service. It asks the user's agent (sidecore agent), so the
// program has no key. Only Go's standard library is used.
package sidecore

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// Longest message, bytes: that of the agent.
	maxMessage = 256 << 10
	listKeys   = "sidecore-keys@sidecore"
	signTLS    = "sidecore-sign@sidecore"
)

// Types of the agent's messages.
const (
	failure           = 5
	extension         = 27
	extensionFailure  = 28
	extensionResponse = 29
)

// Options of a Client. A zero value stands for the default.
type Options struct {
	// Socket of the agent. Default: SSH_AUTH_SOCK.
	Socket string
	// Timeout of a request, with the wait for a connection. Default: 5 s.
	Timeout time.Duration
	// RestartWait is the time that requests wait for an agent which is away. Those of one outage share it. Default:
	// 2 s. Negative: none.
	RestartWait time.Duration
	// Connections is the number of connections at most. Default: 8. An agent has 48 for one user.
	Connections int
	// Log is called with each failed signature, and once for each changed file of certificates that is not used. Default:
	// neither is logged. TLS servers often keep such errors to themselves.
	Log func(error)
}

// Client asks one agent. All its methods may run in several goroutines at the same time.
type Client struct {
	options Options
	slots   chan struct{}

	mu     sync.Mutex
	idle   []net.Conn
	outage outage
}

// An outage that no request met for this time is over: an agent may have come and gone in between.
const unseen = time.Minute

// outage is the time without an agent, one for all requests of a client.
type outage struct {
	// Zero: the agent answered last.
	since time.Time
	met   time.Time
}

// left is the rest of the wait for an agent, for a request that meets none.
func (o *outage) left(now time.Time, wait time.Duration) time.Duration {
	if o.since.IsZero() || now.Sub(o.met) > unseen {
		o.since = now
	}
	o.met = now
	return wait - now.Sub(o.since)
}

// Key is a key that the agent offers.
type Key struct {
	Name string
	// Public is nil for a kind of key that this version of Go does not know.
	Public crypto.PublicKey
	spki   []byte
}

// New makes a client. It connects with the first request.
func New(options Options) *Client {
	if options.Socket == "" {
		options.Socket = os.Getenv("SSH_AUTH_SOCK")
	}
	if options.Timeout <= 0 {
		options.Timeout = 5 * time.Second
	}
	if options.RestartWait == 0 {
		options.RestartWait = 2 * time.Second
	}
	if options.Connections <= 0 {
		options.Connections = 8
	}
	if options.Log == nil {
		options.Log = func(error) {}
	}
	return &Client{options: options, slots: make(chan struct{}, options.Connections)}
}

// Keys lists the signing keys of the agent's user.
func (c *Client) Keys() ([]Key, error) { return c.KeysContext(context.Background()) }

// KeysContext is Keys, until the context ends.
func (c *Client) KeysContext(ctx context.Context) ([]Key, error) {
	return c.keys(ctx, c.options.RestartWait)
}

func (c *Client) keys(ctx context.Context, wait time.Duration) ([]Key, error) {
	rest, err := c.ask(ctx, wait, listKeys)
	if err != nil {
		return nil, err
	}
	var keys []Key
	for len(rest) > 0 {
		name, ok := next(&rest)
		spki, more := next(&rest)
		if !ok || !more {
			return nil, c.failed(Protocol, nil)
		}
		// Nil for kinds that Go does not know.
		public, _ := x509.ParsePKIXPublicKey(spki)
		keys = append(keys, Key{string(name), public, spki})
	}
	return keys, nil
}

// Close ends the idle connections. The client can be used further.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.idle {
		conn.Close()
	}
	c.idle = nil
}

func (c *Client) failed(kind Kind, cause error) error {
	return &Error{kind, c.options.Socket, cause}
}

// ended is the error of a context that ended.
func (c *Client) ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return c.failed(Timeout, ctx.Err())
	}
	return c.failed(Canceled, ctx.Err())
}

// ask sends an extension and returns what follows its name in the reply. Without an agent it waits for one.
func (c *Client) ask(ctx context.Context, wait time.Duration, name string, parts ...[]byte) ([]byte, error) {
	request := appendString([]byte{0, 0, 0, 0, extension}, []byte(name))
	for _, part := range parts {
		request = append(request, part...)
	}
	if len(request)-4 > maxMessage {
		return nil, c.failed(Unsupported, errors.New("the message is longer than 256 KiB"))
	}
	binary.BigEndian.PutUint32(request, uint32(len(request)-4))

	deadline := time.Now().Add(c.options.Timeout)
	timer := time.NewTimer(c.options.Timeout)
	defer timer.Stop()
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-timer.C:
		return nil, c.failed(Timeout, errors.New("all connections are busy"))
	case <-ctx.Done():
		return nil, c.ended(ctx)
	}
	reply, err := c.exchange(ctx, request, deadline, wait)
	if err != nil {
		return nil, err
	}
	switch kind, rest := reply[0], reply[1:]; kind {
	case extensionFailure:
		return nil, c.failed(kindOf(rest), nil)
	case extensionResponse:
		if same, ok := next(&rest); ok && string(same) == name {
			return rest, nil
		}
	}
	return nil, c.failed(Protocol, nil)
}

// exchange repeats a request on another connection if one breaks. A repeated signature does no harm.
func (c *Client) exchange(ctx context.Context, request []byte, deadline time.Time, wait time.Duration) ([]byte, error) {
	for {
		conn, used, err := c.connection(ctx, deadline)
		if err == nil {
			var reply []byte
			if reply, err = roundTrip(ctx, conn, request, deadline); err == nil {
				c.keep(conn)
				return reply, nil
			}
			conn.Close()
		}
		switch {
		case ctx.Err() != nil:
			return nil, c.ended(ctx)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, c.failed(Timeout, nil)
		case errors.Is(err, Protocol):
			return nil, c.failed(Protocol, nil)
		case used:
			// The agent ended an idle connection, or has restarted: the others are of no use either.
			c.Close()
		case c.left(time.Now(), wait) <= 0 || time.Until(deadline) <= 0:
			return nil, c.failed(NoAgent, err)
		default:
			again := time.NewTimer(20 * time.Millisecond)
			select {
			case <-again.C:
			case <-ctx.Done():
			}
			again.Stop()
		}
	}
}

// connection says also whether the connection had a request before.
func (c *Client) connection(ctx context.Context, deadline time.Time) (net.Conn, bool, error) {
	c.mu.Lock()
	if last := len(c.idle) - 1; last >= 0 {
		conn := c.idle[last]
		c.idle = c.idle[:last]
		c.mu.Unlock()
		return conn, true, nil
	}
	c.mu.Unlock()
	dialer := net.Dialer{Deadline: deadline}
	conn, err := dialer.DialContext(ctx, "unix", c.options.Socket)
	return conn, false, err
}

func (c *Client) keep(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outage.since = time.Time{}
	c.idle = append(c.idle, conn)
}

func (c *Client) left(now time.Time, wait time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.outage.left(now, wait)
}

// interrupt ends what waits on the connection when the context ends, until the returned function is called.
func interrupt(ctx context.Context, conn net.Conn) func() {
	if ctx.Done() == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-ctx.Done():
			conn.SetDeadline(time.Unix(1, 0))
		case <-done:
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

func roundTrip(ctx context.Context, conn net.Conn, request []byte, deadline time.Time) ([]byte, error) {
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	// A connection goes back to the others only after this, and the next request sets its own deadline.
	defer interrupt(ctx, conn)()
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	var header [4]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(header[:])
	if size == 0 || size > maxMessage {
		return nil, Protocol
	}
	// Memory grows by the bytes that arrive, not by the size.
	var reply bytes.Buffer
	if _, err := io.CopyN(&reply, conn, int64(size)); err != nil {
		return nil, err
	}
	return reply.Bytes(), nil
}

func appendString(to, bytes []byte) []byte {
	return append(appendUint32(to, uint32(len(bytes))), bytes...)
}

func appendUint32(to []byte, number uint32) []byte {
	return append(to, byte(number>>24), byte(number>>16), byte(number>>8), byte(number))
}

// next takes a string off the front.
func next(rest *[]byte) ([]byte, bool) {
	if len(*rest) < 4 {
		return nil, false
	}
	size, after := binary.BigEndian.Uint32(*rest), (*rest)[4:]
	if uint64(size) > uint64(len(after)) {
		return nil, false
	}
	*rest = after[size:]
	return after[:size:size], true
}
