//! The current run: its command, time and machine.

use procfs::{CpuInfo, Current};
use sidecore_daemon::sys::cpu;
use sidecore_report::{About, machine};
use std::env::{self, consts::ARCH};
use std::fs;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// This run: its command, version, time and machine.
pub fn here() -> About {
    let words: Vec<String> = env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    About {
        command: command(&words),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        date: date(OffsetDateTime::now_utc()),
        cores: cpu::allowed().len(),
        cpu: model().unwrap_or_else(|| ARCH.to_owned()),
        kernel: kernel(),
        path: String::new(),
        machine: machine::describe(),
        commit: machine::commit(),
    }
}

fn command(words: &[String]) -> String {
    let words = ["sidecore"].into_iter().chain(words.iter().map(String::as_str));
    // A word that no shell can pass was not typed in one.
    shlex::try_join(words).unwrap_or_default()
}

fn model() -> Option<String> {
    CpuInfo::current().ok()?.model_name(0).map(str::to_owned)
}

fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(|_| String::new(), |release| release.trim().to_owned())
}

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
        let here = here();
        assert!(here.cores > 0 && !here.version.is_empty() && here.date.ends_with('Z'), "{here:?}");
        assert!(here.machine.contains(&here.cpu), "{here:?}");
    }
}
