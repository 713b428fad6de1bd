//! The command line of the agent.

use crate::error::AgentError;
use clap::{Args, Parser, Subcommand};
use rustix::process::geteuid;
use sidecore_client::client::{Options, number_of};
use sidecore_client::keys::check_name;
use sidecore_ipc::environment::socket_of_environment;
use sidecore_terminal::arguments::Manuals;
use std::path::PathBuf;

/// Keys of the service for OpenSSH.
#[derive(Debug, Parser)]
// Users type `sidecore`: help and mistakes show that name.
#[command(version, arg_required_else_help = true, name = "sidecore", bin_name = "sidecore")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Let OpenSSH, git and others sign with keys of the service, by ssh-agent's protocol
    Agent(Agent),
    /// Write the pages of the manual
    #[command(hide = true)]
    Manuals(Manuals),
}

#[derive(Debug, Args)]
pub(crate) struct Agent {
    /// The socket to make, for `SSH_AUTH_SOCK`; left out where a service manager made one
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Sockets of the services with the keys; default: `SIDECORE_SOCKET`, else /run/sidecore/sidecore.sock
    #[arg(long, value_name = "SOCKET", num_args = 1..)]
    service: Vec<PathBuf>,
    /// Further users who may use the agent, by number or name, in addition to root and the agent's own user
    #[arg(long, value_name = "UID", value_delimiter = ',')]
    allow_uid: Vec<String>,
    /// Only these keys, in this order; default: for SSH those with the usage ssh, or if there is none all that sign
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    keys: Vec<String>,
    /// A certificate of OpenSSH for one of the keys, as `ssh-keygen -s` writes it, read again when the file changes; may be
    /// given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: Vec<PathBuf>,
}

impl Agent {
    /// One for each service.
    pub(crate) fn options(&self) -> Vec<Options> {
        let name = || "sidecore-agent".to_owned();
        if self.service.is_empty() {
            return vec![Options { socket: socket_of_environment(), name: name(), ..Options::default() }];
        }
        let of_socket = |socket: &PathBuf| Options { socket: socket.clone(), name: name(), ..Options::default() };
        self.service.iter().map(of_socket).collect()
    }

    pub(crate) fn names(&self) -> Result<Vec<String>, AgentError> {
        self.keys.iter().map(|name| check_name(name).map(|()| name.clone()).map_err(AgentError::Name)).collect()
    }

    /// Numbers of the users who may connect.
    pub(crate) fn allowed(&self) -> Result<Vec<u32>, AgentError> {
        let named = self.allow_uid.iter().map(|user| number_of(user).ok_or_else(|| AgentError::NoUser(user.clone())));
        [Ok(0), Ok(geteuid().as_raw())].into_iter().chain(named).collect()
    }
}
