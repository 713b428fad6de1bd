//! Errors of the laboratory. A text is complete: it contains its cause and, where there is one, a remedy.

use crate::net::error::{LoadError, PeerError, SettingError};
use sidecore_measure::export::ExportError;
use sidecore_measure::interrupt::{STOPPED, SignalError};
use sidecore_sim::fit::FreeError;
use sidecore_sim::plan::PlanError;
use std::borrow::Cow;
use std::error::Error;
use std::io;

pub(crate) type Source = Box<dyn Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum LabError {
    /// Arguments, settings or files that the user can correct.
    #[error("{0}")]
    Usage(String),
    #[error("{what}: {source}; {remedy}")]
    Missing { what: String, source: Source, remedy: Cow<'static, str> },
    #[error("{task}: {source}")]
    Failed { task: String, source: Source },
    /// A part of the run ended early or gave nothing usable: another run may succeed.
    #[error("{0}")]
    Broken(Cow<'static, str>),
    #[error("{}", STOPPED)]
    Stopped,
    #[error("{cause}; {then}")]
    Then { cause: Box<Self>, then: String },
    /// Reported by the process of the other end.
    #[error("{0}")]
    End(String),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Signals(#[from] SignalError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Peer(#[from] PeerError),
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Free(#[from] FreeError),
    #[error(transparent)]
    Export(#[from] ExportError),
}

impl LabError {
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    pub(crate) fn missing(
        what: impl Into<String>,
        source: impl Into<Source>,
        remedy: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Missing { what: what.into(), source: source.into(), remedy: remedy.into() }
    }

    pub(crate) fn failed(task: impl Into<String>, source: impl Into<Source>) -> Self {
        Self::Failed { task: task.into(), source: source.into() }
    }

    pub(crate) fn broken(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Broken(text.into())
    }

    pub(crate) fn then(self, then: impl Into<String>) -> Self {
        Self::Then { cause: Box::new(self), then: then.into() }
    }
}
