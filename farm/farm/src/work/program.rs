//! A running program: its pipes, its end, and its messages.

use super::stderr::StderrLog;
use crate::sys;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid};
use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::runtime::Handle;

const PIECE: usize = 64 * 1024;
const WORDS: usize = 4 * 1024;
/// Most bytes of messages that are read after the program's end.
const LAST_WORDS: usize = 256 * 1024;

/// Leads a process group of its own, which is killed when this is dropped.
pub(super) struct Program {
    leader: Leader,
    input: Input,
    output: Output,
    errors: Receiver,
    log: StderrLog,
}

struct Input {
    pipe: Option<Sender>,
    is_handed: bool,
}

struct Output {
    pipe: Receiver,
    bytes: Vec<u8>,
}

/// The first process. Its process id is also the group's, and stays reserved until it is reaped.
struct Leader {
    group: Pid,
    /// The child, and a descriptor that is readable once it has ended. `None`: it is reaped, or a task waits for that.
    process: Option<(Child, AsyncFd<OwnedFd>)>,
    status: Option<ExitStatus>,
}

impl Program {
    pub(super) fn new(mut child: Child, log: StderrLog) -> io::Result<Self> {
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let leader = Leader::new(child)?;
        let (Some(input), Some(output), Some(errors)) = pipes else { return Err(io::ErrorKind::BrokenPipe.into()) };
        Ok(Self {
            leader,
            input: Input { pipe: Some(Sender::from_owned_fd(input.into())?), is_handed: true },
            output: Output { pipe: Receiver::from_owned_fd(output.into())?, bytes: Vec::new() },
            errors: Receiver::from_owned_fd(errors.into())?,
            log,
        })
    }

    /// Writes these bytes and, with `close`, closes the input. Meanwhile reads the output until `enough` returns a
    /// value, which shows that the output is complete or too long. `None`: the program ended before.
    ///
    /// The program need not read its input, and may close its output and go on.
    pub(super) async fn exchange<T>(
        &mut self,
        pieces: [&[u8]; 2],
        close: bool,
        enough: impl Fn(&[u8]) -> Option<T>,
    ) -> io::Result<Option<T>> {
        let Self { leader, input, output, log, errors } = self;
        tokio::select! {
            biased;
            found = output.until(&enough) => return Ok(Some(found)),
            never = input.hand(pieces, close) => match never {},
            never = listen(errors, log) => match never {},
            ended = leader.ended() => ended?,
        }
        // Child processes end with the group. The rest of the output is read without waiting, because a process that
        // has left the group may hold the pipe open forever.
        leader.end_group();
        output.rest(&enough)?;
        Ok(enough(&self.output.bytes))
    }

    pub(super) fn is_handed(&self) -> bool {
        self.input.is_handed
    }

    pub(super) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output.bytes)
    }

    pub(super) fn is_quiet(&mut self) -> bool {
        let quiet = self.output.rest(&|bytes: &[u8]| (!bytes.is_empty()).then_some(())).is_ok();
        quiet && self.output.bytes.is_empty() && !self.leader.has_ended()
    }

    pub(super) async fn finish(&mut self) {
        self.input.pipe = None;
        let Self { leader, errors, log, output, .. } = self;
        tokio::select! {
            // It is reaped later, or with the node.
            _ = leader.ended() => {}
            never = listen(errors, log) => match never {},
            never = output.forget() => match never {},
        }
    }

    /// The reason, with its last message. `None`: it ended with success.
    pub(super) fn failure(&mut self) -> Option<String> {
        self.last_words();
        match self.leader.reap() {
            Ok(Some(status)) if status.success() => None,
            Ok(Some(status)) => Some(self.log.after(&in_words(status))),
            Ok(None) => Some(self.log.after("it goes on")),
            Err(error) => Some(format!("nobody knows how the program ended: {error}")),
        }
    }

    pub(super) fn complaint(&mut self, what: &str) -> String {
        self.last_words();
        self.log.after(what)
    }

    fn last_words(&mut self) {
        let (mut piece, mut left) = ([0; WORDS], LAST_WORDS);
        while left > 0 {
            match rustix::io::read(&self.errors, &mut piece[..]) {
                Ok(0) | Err(_) => break,
                Ok(len) => self.log.hear(&piece[..len]),
            }
            left = left.saturating_sub(WORDS);
        }
        self.log.end();
    }
}

impl Input {
    /// A program that closes its input needs no more of it.
    async fn hand(&mut self, pieces: [&[u8]; 2], close: bool) -> Infallible {
        self.is_handed = false;
        let written = match &mut self.pipe {
            Some(pipe) => write(pipe, pieces).await,
            None => Ok(()),
        };
        self.is_handed = written.is_ok();
        if close || written.is_err() {
            self.pipe = None;
        }
        pending().await
    }
}

impl Output {
    /// Reads until it is enough. Waits forever if the program has closed its output.
    async fn until<T>(&mut self, enough: &impl Fn(&[u8]) -> Option<T>) -> T {
        loop {
            if let Some(found) = enough(&self.bytes) {
                return found;
            }
            self.bytes.reserve(PIECE);
            if !matches!(self.pipe.read_buf(&mut self.bytes).await, Ok(1..)) {
                return pending().await;
            }
        }
    }

    /// Reads available bytes until it is enough. Asks the kernel directly, because the runtime may not know of them
    /// yet.
    fn rest<T>(&mut self, enough: &impl Fn(&[u8]) -> Option<T>) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        while enough(&self.bytes).is_none() {
            match rustix::io::read(&self.pipe, &mut piece[..]) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(len) => self.bytes.extend_from_slice(&piece[..len]),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn forget(&mut self) -> Infallible {
        let mut piece = vec![0; PIECE];
        while matches!(self.pipe.read(&mut piece).await, Ok(1..)) {}
        pending().await
    }
}

impl Leader {
    fn new(child: Child) -> io::Result<Self> {
        let group = Pid::from_child(&child);
        match pidfd_open(group, PidfdFlags::empty()).map_err(io::Error::from).and_then(sys::watch) {
            Ok(exit) => Ok(Self { group, process: Some((child, exit)), status: None }),
            Err(error) => {
                end(child);
                Err(error)
            }
        }
    }

    /// Waits for its end without reaping it.
    async fn ended(&self) -> io::Result<()> {
        match &self.process {
            Some((_, exit)) => exit.readable().await.map(|_| ()),
            None => Ok(()),
        }
    }

    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.process.is_none() || !matches!(waitid(WaitId::Pid(self.group), options), Ok(None))
    }

    fn end_group(&self) {
        if self.process.is_some() {
            end_group(self.group);
        }
    }

    /// Its exit status, if it has ended. The group is killed first, because reaping releases its number.
    fn reap(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.has_ended() {
            self.end_group();
            if let Some((mut child, _)) = self.process.take() {
                self.status = Some(child.wait()?);
            }
        }
        Ok(self.status)
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.end_group();
        let Some((mut child, exit)) = self.process.take() else { return };
        // The process may need time to die, and the node must not wait. If the node itself ends, the system reaps it.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                if exit.readable().await.is_ok() {
                    let _ = child.wait();
                }
            });
        }
    }
}

pub(super) fn end(mut child: Child) {
    end_group(Pid::from_child(&child));
    // It is dead, even if this fails.
    let _ = child.wait();
}

/// Kills all processes of the group. The number must still be reserved.
pub(super) fn end_group(group: Pid) {
    // An empty group is no fault.
    let _ = kill_process_group(group, Signal::KILL);
}

async fn write(pipe: &mut Sender, pieces: [&[u8]; 2]) -> io::Result<()> {
    pipe.write_all(pieces[0]).await?;
    pipe.write_all(pieces[1]).await
}

async fn listen(errors: &mut Receiver, log: &mut StderrLog) -> Infallible {
    let mut piece = [0; WORDS];
    while let Ok(len @ 1..) = errors.read(&mut piece).await {
        log.hear(&piece[..len]);
    }
    pending().await
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => match nix::sys::signal::Signal::try_from(signal) {
            Ok(name) => format!("ended by {name}"),
            Err(_) => format!("ended by signal {signal}"),
        },
        (None, None) => status.to_string(),
    }
}
