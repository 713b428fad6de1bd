package sidecore

import "fmt"

// Kind is the reason of a failure. errors.Is(err, sidecore.NoKey) asks for one.
type Kind int

const (
	// NoAgent: no agent takes connections at the socket, or it ends them.
	NoAgent Kind = iota + 1
	// Timeout: no answer within Options.Timeout.
	Timeout
	// NoKey: the agent offers no key of this name.
	NoKey
	// Replaced: the key of this name has another public part.
	Replaced
	// Refused: the agent refuses for another reason, which its log has.
	Refused
	// Protocol: the answer has no form that a sidecore agent sends.
	Protocol
	// Unsupported: the key has no such signature.
	Unsupported
	// Invalid: the signature does not verify. It is discarded.
	Invalid
	// Certificate: the chain of certificates cannot be used.
	Certificate
	// Canceled: the program's context ended the request.
	Canceled
)

// A fault and its remedy.
var texts = map[Kind][2]string{
	NoAgent:     {"no sidecore agent answers", "start it by sidecore agent --socket, or name its socket"},
	Timeout:     {"no answer in time", "sidecore top shows the load; raise Options.Timeout or the context's deadline"},
	NoKey:       {"the agent offers no such key", "see sidecore keys list and sidecore keys acl NAME --add"},
	Replaced:    {"the key has another public part", "put its certificate first in the chain, or load it again"},
	Refused:     {"the agent refused the signature", "its log has the reason"},
	Protocol:    {"the answer is none of a sidecore agent", "name its socket, and use one version of agent and package"},
	Unsupported: {"the key has no such signature", "use SHA-256, SHA-384 or SHA-512; PSS with a salt of the hash's length"},
	Invalid:     {"the signature does not verify", "name the socket of the right agent, and report this"},
	Certificate: {"no usable certificate", "name a file in PEM, the key's own certificate first"},
	Canceled:    {"the program's context ended the request", "ask again with another context"},
}

// agentKinds are the failures by their numbers in the agent's answers.
var agentKinds = map[byte]Kind{
	3:  Unsupported,
	8:  NoKey,
	10: Replaced,
}

// kindOf reads what follows the type of a failed extension: nothing from an agent of an earlier version. A number that has
// no kind of its own here, or is of a later version, is Refused.
func kindOf(code []byte) Kind {
	if len(code) == 1 {
		if kind, is := agentKinds[code[0]]; is {
			return kind
		}
	}
	return Refused
}

func (k Kind) Error() string { return texts[k][0] + ": " + texts[k][1] }

// Error is a failure. Its text has the fault, its cause and the remedy, each once: no cause is itself an Error.
type Error struct {
	Kind Kind
	// Name of the key or file, or the agent's socket.
	Name string
	// Cause is nil where the reason says all.
	Cause error
}

func (e *Error) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("sidecore: %s: %s", e.Name, e.Kind)
	}
	return fmt.Sprintf("sidecore: %s: %s (%s): %s", e.Name, texts[e.Kind][0], e.Cause, texts[e.Kind][1])
}

// Is tells whether target is the error's Kind.
func (e *Error) Is(target error) bool { return target == e.Kind }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }
