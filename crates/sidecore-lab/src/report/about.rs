//! The command, program, time and machine of a run: needed to judge rows and to repeat them.

use procfs::{CpuInfo, Current};
use serde::Serialize;
use sidecore::sys::cpu;
use sidecore_report::machine;
use std::env::{self, consts::ARCH};
use std::fs;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct About {
    /// The command line in a shell's syntax.
    pub(crate) command: String,
    pub(crate) version: String,
    /// Time of completion, UTC.
    pub(crate) date: String,
    /// Cores that the program was allowed to use.
    pub(crate) cores: usize,
    pub(crate) cpu: String,
    pub(crate) kernel: String,
    /// Not serialized: each row has it.
    #[serde(skip)]
    pub(crate) machine: String,
    /// Not serialized: each row has it.
    #[serde(skip)]
    pub(crate) commit: String,
}

impl About {
    /// The current run of this program.
    pub(crate) fn here() -> Self {
        let words: Vec<String> = env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        Self {
            command: command(&words),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            date: date(OffsetDateTime::now_utc()),
            cores: cpu::allowed().len(),
            cpu: model().unwrap_or_else(|| ARCH.to_owned()),
            kernel: kernel(),
            machine: machine::describe(),
            commit: machine::commit(),
        }
    }

    pub(crate) fn lines(&self) -> [String; 3] {
        let Self { command, version, date, cores, machine, commit, .. } = self;
        [
            format!("Command: {command}"),
            format!("sidecore {version}, commit {commit}, {date}"),
            format!("{machine}; {cores} to use"),
        ]
    }
}

/// The user's command `sidecore`, also if another program carries it out.
fn command(words: &[String]) -> String {
    let words = ["sidecore"].into_iter().chain(words.iter().map(String::as_str));
    // A word that no shell can pass was not typed in one.
    shlex::try_join(words).unwrap_or_default()
}

/// `None`: the kernel does not name it.
fn model() -> Option<String> {
    CpuInfo::current().ok()?.model_name(0).map(str::to_owned)
}

fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(|_| String::new(), |release| release.trim().to_owned())
}

/// With a resolution of seconds.
fn date(now: OffsetDateTime) -> String {
    now.replace_nanosecond(0).ok().and_then(|now| now.format(&Rfc3339).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_typed_again() {
        let words = ["bench", "--json", "my rows.json"].map(str::to_owned);
        assert_eq!(command(&words), "sidecore bench --json 'my rows.json'");
    }

    #[test]
    fn a_date_is_utc_to_the_second() {
        let known = OffsetDateTime::from_unix_timestamp(1_700_000_000).unwrap();
        assert_eq!(date(known.replace_nanosecond(5).unwrap()), "2023-11-14T22:13:20Z");
    }

    #[test]
    fn this_run_is_known() {
        let here = About::here();
        assert!(here.cores > 0 && !here.version.is_empty() && here.date.ends_with('Z'), "{here:?}");
        assert!(here.machine.contains(&here.cpu), "{here:?}");
    }
}
