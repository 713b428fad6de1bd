//! The command of a node, found before the first event.

use crate::sys;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Variables of the node that each program gets: its place and user. The node's other ones may hold passwords, as
/// `NATS_URL` does.
const PASSED: [&str; 9] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"];
const LOCALE: &str = "LC_";

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    #[error("no program: name one after --")]
    Unnamed,
    #[error("no program {} that can be run here: install it on this node, or name the file with its path", .0.display())]
    NotFound(OsString),
}

#[derive(Clone, Debug)]
pub(super) struct Line {
    path: PathBuf,
    name: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
}

impl Line {
    pub(super) fn find(words: &[OsString]) -> Result<Self, ProgramError> {
        let [name, arguments @ ..] = words else { return Err(ProgramError::Unnamed) };
        let path = which::which(name).map_err(|_| ProgramError::NotFound(name.clone()))?;
        Ok(Self { path, name: name.clone(), arguments: arguments.to_vec(), environment: Vec::new() })
    }

    pub(super) fn with_environment(
        self,
        of_node: impl Iterator<Item = (OsString, OsString)>,
        further: &[OsString],
    ) -> Self {
        let is_passed = |name: &OsString| {
            let plain = name.to_str().is_some_and(|name| PASSED.contains(&name) || name.starts_with(LOCALE));
            plain || further.contains(name)
        };
        Self { environment: of_node.filter(|(name, _)| is_passed(name)).collect(), ..self }
    }

    pub(super) fn command(&self, variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(&self.path);
        command.arg0(&self.name).args(&self.arguments);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        sys::alone(&mut command);
        command
    }

    pub(super) fn name(&self) -> String {
        self.name.display().to_string()
    }
}
