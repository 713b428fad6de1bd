//! The command that a node was given, found before the first event.

use crate::sys;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A program and its arguments.
#[derive(Clone, Debug)]
pub(super) struct Line {
    path: PathBuf,
    name: OsString,
    arguments: Vec<OsString>,
}

impl Line {
    /// Finds the program as a shell would.
    ///
    /// # Errors
    /// It cannot be run here: says why, and what to do.
    pub(super) fn find(words: &[OsString]) -> Result<Self, String> {
        let [name, arguments @ ..] = words else { return Err("no program: name one after --".to_owned()) };
        let path = which::which(name).map_err(|_| {
            let name = name.display();
            format!("no program {name} that can be run here: install it on this node, or name the file with its path")
        })?;
        Ok(Self { path, name: name.clone(), arguments: arguments.to_vec() })
    }

    /// It is to be started with pipes for all three streams, and these variables beside those of the node.
    pub(super) fn command(&self, variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(&self.path);
        command.arg0(&self.name).args(&self.arguments).envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        sys::alone(&mut command);
        command
    }

    /// What people call it.
    pub(super) fn name(&self) -> String {
        self.name.display().to_string()
    }
}
