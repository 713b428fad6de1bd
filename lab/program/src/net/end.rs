//! The peer's process on this machine, in a network namespace of its own. It ends with its parent.

pub(super) mod serve;

use crate::error::LabError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Orders to the process, one JSON line each. Each is answered by a [`Done`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// The given interface receives that address in a network with `bits` of prefix, and is brought up.
    Take {
        name: String,
        address: Ipv4Addr,
        bits: u8,
    },
    Listen {
        at: SocketAddr,
    },
    Read {
        interface: String,
        setting: String,
    },
    Write {
        interface: String,
        setting: String,
        value: String,
    },
}

/// Result of an order; null if it has no value. `Err`: an error message.
type Done = Result<Value, String>;

#[derive(Debug)]
pub(super) struct End {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl End {
    /// Starts the process in a namespace without interfaces.
    pub(super) fn start() -> Result<Self, LabError> {
        let own = std::env::current_exe().map_err(|error| LabError::failed("cannot find this program", error))?;
        let mut command = Command::new(own);
        // Its own process group: an interrupt from the keyboard reaches only the parent. This process ends when the
        // parent closes its input.
        command.args(["net-end"]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut process = command.spawn().map_err(|error| LabError::failed("cannot start the other end", error))?;
        let (Some(orders), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(LabError::broken("the other end has no pipes"));
        };
        let mut end = Self { process, orders, answers: BufReader::new(answers) };
        end.answer::<()>()?;
        Ok(end)
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn order(&mut self, order: &Order) -> Result<(), LabError> {
        self.ask(order)
    }

    pub(super) fn ask<T: DeserializeOwned>(&mut self, order: &Order) -> Result<T, LabError> {
        send(&mut self.orders, order).map_err(|error| LabError::failed("the other end is gone", error))?;
        self.answer()
    }

    fn answer<T: DeserializeOwned>(&mut self) -> Result<T, LabError> {
        let mut line = String::new();
        let silent = "the other end does not answer";
        self.answers.read_line(&mut line).map_err(|error| LabError::failed(silent, error))?;
        let done = serde_json::from_str::<Result<T, String>>(&line).map_err(|error| LabError::failed(silent, error))?;
        done.map_err(LabError::End)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // The child is not reaped yet, so its number is valid.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn send(to: &mut impl Write, what: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *to, what)?;
    to.write_all(b"\n")?;
    to.flush()
}
