//! `sidecore net link`: such a link for other programs, until an interrupt or the end of a command.

use super::super::pair::{FAR, NEAR};
use super::{Counters, ENDS, Link, Settings};
use crate::args::NetLink;
use crate::error::LabError;
use crate::report::{Grid, count};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use procfs::process::Process;
use serde::Serialize;
use sidecore_measure::export::{ExportError, print};
use sidecore_terminal::output::tell;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal, stdin};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

const FAR_PROCESS: &str = "SIDECORE_FAR_PID";
/// In the order of the counters.
const DIRECTIONS: [&str; 2] = ["near to far", "far to near"];

/// Makes the link and runs the command. Returns the command's exit code, or 128 plus the number of the signal that
/// ended it.
pub(in crate::net) fn run(args: &NetLink) -> Result<u8, LabError> {
    let settings = Settings::of(&args.properties)?;
    let users = || fs::read_link("/proc/self/ns/user").ok();
    let before = users();
    // Before anything is started, so that no signal is lost.
    let mut signals = Signals::new([SIGCHLD, SIGHUP, SIGINT, SIGTERM])?;
    let (pair, mut link) = Link::start(&settings)?;
    let (own, far) = (std::process::id(), pair.far.id());
    let code = if args.command.is_empty() {
        let user = if users() == before { "" } else { " -U --preserve-credentials" };
        let enter = |end, address, process| format!("{end:<4}  {address}  nsenter -t {process}{user} -n\n");
        let ends = [enter(ENDS[0], NEAR, own), enter(ENDS[1], FAR, far)].concat();
        print(&format!("{ends}It is there until Ctrl-C.\n"))?;
        signals.forever().find(|signal| *signal != SIGCHLD);
        Ok(0)
    } else {
        start(&args.command, far).and_then(|child| attend(child, &mut signals)).map(code)
    };
    // Read while the interfaces exist.
    let overrun = [overrun(ENDS[0], own), overrun(ENDS[1], far)];
    let ended = link.stop();
    show(args, &link.counters(), overrun)?;
    ended.and(code)
}

fn start(command: &[OsString], far: u32) -> Result<Child, LabError> {
    let (program, rest) = command.split_first().ok_or(LabError::broken("no command"))?;
    let child = Command::new(program).args(rest).env(FAR_PROCESS, far.to_string()).spawn();
    child.map_err(|error| LabError::failed(format!("{}", Path::new(program).display()), error))
}

/// Waits for the command and forwards termination signals. A terminal sends its signal to the command itself.
fn attend(mut child: Child, signals: &mut Signals) -> Result<ExitStatus, LabError> {
    let pid = Pid::from_raw(child.id().cast_signed());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        for number in signals.wait() {
            let told = number == SIGINT && stdin().is_terminal();
            if let Ok(signal) = Signal::try_from(number)
                && number != SIGCHLD
                && !told
            {
                // The child may have ended, but is not reaped yet, so its number is valid.
                let _ = kill(pid, signal);
            }
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// Frames dropped in the sender's interface before the link could take them, in the namespace of that process. `None`:
/// the interface or process is gone.
fn overrun(interface: &str, process: u32) -> Option<u64> {
    let interfaces = Process::new(process.cast_signed()).and_then(|process| process.dev_status());
    interfaces.ok()?.get(interface).map(|interface| interface.sent_drop)
}

fn show(args: &NetLink, counted: &[Counters; 2], overrun: [Option<u64>; 2]) -> Result<(), LabError> {
    let text = grid(counted, overrun).to_text();
    if let Some(file) = &args.json {
        let line = |((variant, counters), overrun)| {
            serde_json::to_string(&Line { scenario: "net-link", variant, overrun, counters }).map(|line| line + "\n")
        };
        let lines: Result<String, _> = DIRECTIONS.into_iter().zip(counted).zip(overrun).map(line).collect();
        let written = lines.map_err(io::Error::from).and_then(|lines| fs::write(file, lines));
        written.map_err(|error| ExportError::Write { path: file.clone(), error })?;
    }
    if args.command.is_empty() {
        return Ok(print(&format!("\n{text}"))?);
    }
    tell(format_args!("the link has counted\n{text}"));
    Ok(())
}

#[derive(Serialize)]
struct Line<'a> {
    scenario: &'a str,
    variant: &'a str,
    overrun: Option<u64>,
    #[serde(flatten)]
    counters: &'a Counters,
}

fn grid(counted: &[Counters; 2], overrun: [Option<u64>; 2]) -> Grid {
    let mut grid = Grid::new("", &["", DIRECTIONS[0], DIRECTIONS[1]]);
    let lost = overrun.map(|overrun| overrun.map_or_else(|| "?".to_owned(), count));
    grid.push(["no room in the sender's interface".to_owned()].into_iter().chain(lost));
    let mut row = |name: &str, value: fn(&Counters) -> String| {
        grid.push([name.to_owned(), value(&counted[0]), value(&counted[1])]);
    };
    row("frames", |of| count(of.frames));
    row("bytes", |of| count(of.bytes));
    row("lost", |of| count(of.lost));
    row("dropped by the queue", |of| count(of.dropped));
    row("delivered", |of| count(of.delivered));
    row("bytes delivered", |of| count(of.delivered_bytes));
    row("refused by the receiver", |of| count(of.refused));
    row("doorbells", |of| count(of.doorbells));
    row("interrupts", |of| count(of.interrupts));
    row("frames an interrupt", |of| part((of.delivered + of.refused) as f64, of.interrupts));
    row("held by moderation, mean us", |of| part(of.held_ns as f64 / 1e3, of.delivered + of.refused));
    row("accesses to registers", |of| count(of.accesses));
    grid
}

fn part(sum: f64, count: u64) -> String {
    if count == 0 { "-".to_owned() } else { format!("{:.2}", sum / count as f64) }
}
