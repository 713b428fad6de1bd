//! What was run, by which program, when and on what: without it nobody can judge rows, or make them again.

use procfs::{CpuInfo, Current};
use serde::Serialize;
use sidecore::sys::cpu;
use sidecore_report::machine;
use std::env::{self, consts::ARCH};
use std::fs;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The command behind a report, its program, its date and its machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct About {
    /// What was typed, as a shell takes it.
    pub(crate) command: String,
    /// The program's version.
    pub(crate) version: String,
    /// When rows were complete, UTC.
    pub(crate) date: String,
    /// Cores that the program was allowed to use.
    pub(crate) cores: usize,
    /// The processor's model.
    pub(crate) cpu: String,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// The machine in words; rows have it themselves.
    #[serde(skip)]
    pub(crate) machine: String,
    /// The commit that the program was built from; rows have it themselves.
    #[serde(skip)]
    pub(crate) commit: String,
}

impl About {
    /// This run of this program.
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

    /// The lines that stand above tables.
    pub(crate) fn lines(&self) -> [String; 3] {
        let Self { command, version, date, cores, machine, commit, .. } = self;
        [
            format!("Command: {command}"),
            format!("sidecore {version}, commit {commit}, {date}"),
            format!("{machine}; {cores} to use"),
        ]
    }
}

/// What people type: whatever program carries it out.
fn command(words: &[String]) -> String {
    let words = ["sidecore"].into_iter().chain(words.iter().map(String::as_str));
    // A word that no shell could pass cannot have been typed in one.
    shlex::try_join(words).unwrap_or_default()
}

/// The processor's model, where the kernel names one.
fn model() -> Option<String> {
    CpuInfo::current().ok()?.model_name(0).map(str::to_owned)
}

/// The kernel's release, as it names itself.
fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(|_| String::new(), |release| release.trim().to_owned())
}

/// To the second.
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
