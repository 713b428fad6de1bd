//! The errors of the farm's commands. Each message has the reason and, where there is one, the remedy.

use crate::connect::ConnectError;
use crate::feed::error::InputError;
use crate::ids::NoRandom;
use crate::large::LargeError;
use crate::results::error::ResultError;
use crate::streams::error::StreamError;
use crate::work::line::ProgramError;
use sidecore_nats::{SignalError, SubscribeError};
use sidecore_terminal::error::Failure;
use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use tokio::task::JoinError;

pub(crate) type Cause = Box<dyn Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum FarmError {
    #[error(transparent)]
    Large(#[from] LargeError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Subscribe(#[from] SubscribeError),
    #[error(transparent)]
    Signals(#[from] SignalError),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error(transparent)]
    Input(#[from] InputError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Result(#[from] ResultError),
    #[error(transparent)]
    Task(#[from] JoinError),
    #[error(transparent)]
    Output(Cause),
    #[error("{what}: {source}")]
    System { what: Cow<'static, str>, source: io::Error },
    #[error("{what} {}: {source}", path.display())]
    File { what: Cow<'static, str>, path: PathBuf, source: io::Error },
    #[error("{what}: {source}")]
    Nats { what: Cow<'static, str>, source: Cause },
    #[error("this account may not {what}: {said}{remedy}")]
    Denied { what: Cow<'static, str>, said: String, remedy: &'static str },
    #[error("a dispatcher of the farm {0} is active, and would make its streams again: stop it and its standby first")]
    Dispatched(String),
    #[error("this would lose what the farm has: {0}; --yes does it")]
    NotConfirmed(String),
    #[error("cannot feed {id} again: {source}; nothing is lost: try again")]
    NotFedAgain { id: String, source: Cause },
    #[error("the connection to NATS {0}")]
    Closed(&'static str),
    #[error(transparent)]
    NoRandom(#[from] NoRandom),
}

impl Failure for FarmError {}

impl FarmError {
    pub(crate) fn output(source: impl Into<Cause>) -> Self {
        Self::Output(source.into())
    }

    pub(crate) fn system(what: impl Into<Cow<'static, str>>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }

    pub(crate) fn file(what: impl Into<Cow<'static, str>>, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::File { what, path: path.to_owned(), source }
    }

    pub(crate) fn denied(what: &'static str, said: String) -> Self {
        Self::Denied { what: what.into(), said, remedy: "; allow it, or give other credentials with --creds" }
    }

    pub(crate) fn nats<E: Into<Cause>>(what: impl Into<Cow<'static, str>>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::Nats { what, source: source.into() }
    }
}
