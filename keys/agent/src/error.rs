//! Errors that end the agent. Each message is one line with a remedy.

use crate::wire::Malformed;
use sidecore_client::keys::NameError;
use sidecore_terminal::error::{Failure, TerminalError};
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    #[error(
        "no socket: name it, e.g. --socket \"$XDG_RUNTIME_DIR/sidecore-agent.sock\", or start sidecore-agent.socket"
    )]
    NoSocket,
    #[error(
        "--socket with a socket of the service manager: leave it out, and change ListenStream= of the socket's unit"
    )]
    TwoSockets,
    #[error("LISTEN_FDS and LISTEN_PID: {0}: a service manager sets them, and nobody else should")]
    Handed(#[source] io::Error),
    #[error(
        "the service manager gave no socket that listens for streams, or more than one: use one ListenStream= with a path"
    )]
    HandedOther,
    #[error("{}: an agent runs there: use it, or name another path with --socket", .0.display())]
    Running(PathBuf),
    #[error("{}: a file is there that is no socket: name another path with --socket", .0.display())]
    NoSocketThere(PathBuf),
    #[error("{}: another program has its directory locked: end it, or name another path with --socket", .0.display())]
    Locked(PathBuf),
    #[error("{path}: {1}; name a path in a directory of this user with --socket", path = .0.display())]
    Path(PathBuf, #[source] io::Error),
    #[error("{path}: {1}; name a certificate that ssh-keygen -s wrote, e.g. id-cert.pub", path = .0.display())]
    Certificate(PathBuf, #[source] CertificateError),
    #[error("--allow-uid {0}: there is no such user: write its number or name")]
    NoUser(String),
    #[error("--keys: {0}")]
    Name(#[source] NameError),
    #[error(transparent)]
    System(#[from] io::Error),
    #[error(transparent)]
    Terminal(#[from] TerminalError),
}

impl Failure for AgentError {}

#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    #[error(transparent)]
    Read(#[from] io::Error),
    #[error("it has more than {0} bytes")]
    TooLarge(u64),
    #[error("it has no line of TYPE and base64")]
    NoLine,
    #[error("it is no certificate for a key of RSA, ECDSA or Ed25519")]
    Other(#[from] Malformed),
}
