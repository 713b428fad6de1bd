//! Reports failures to the system's log: many programs log a failed operation without its reason.
//!
//! Each report is one datagram to `/dev/log`, over a descriptor opened for it. The C library's `syslog` has state that
//! belongs to the program, so it is not used. If the log does not accept the datagram immediately, the report is
//! dropped.

use super::failure::{Failure, Reason};
use super::key::{Key, Private};
use rustix::process::{geteuid, getpid};
use sidecore_core::policy::rate::{Origin, Pace, RateLimit};
use sidecore_ipc::sys::clock;
use sidecore_ipc::sys::packet::send_datagram;
use sidecore_ipc::sys::process::PerProcess;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock};

const LOG: &str = "/dev/log";
/// `LOG_DAEMON | LOG_ERR`.
const PRIORITY: u8 = 3 << 3 | 3;
const PACE: Pace =
    Pace { burst: 1, every: 60_000_000_000, origins: Reason::ALL.len(), of_group: Reason::ALL.len(), reserved: 0 };
/// `LOG_DAEMON | LOG_NOTICE`.
const REMARK_PRIORITY: u8 = 3 << 3 | 5;
/// Longest message, bytes: every log accepts this length.
const MAX_MESSAGE: usize = 1000;

impl Origin for Reason {
    type Group = ();

    fn group(self) {}

    fn is_trusted(self) -> bool {
        false
    }
}

static LIMIT: PerProcess<Mutex<RateLimit<Reason>>> = PerProcess::empty();
static PROGRAM: OnceLock<String> = OnceLock::new();
/// Bits of the remarks that this process, or one that it was forked from, has made.
static REMARKED: AtomicU8 = AtomicU8::new(0);

/// What the reader of the log should know though nothing failed.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Remark {
    /// The program got an `RSA` object of OpenSSL's.
    OldRsa = 1,
    /// The program got an `EC_KEY` object of OpenSSL's.
    OldEc = 2,
    /// The program asked for a private RSA operation on bytes that it has padded itself.
    RawRsa = 4,
    /// The configuration has a setting without effect.
    OldSetting = 8,
}

/// Stores the program's name while `/proc` can still be read.
pub fn begin() {
    PROGRAM.get_or_init(|| {
        let file = std::env::current_exe().ok();
        let name = file.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_else(|| "a program".to_owned())
    });
}

/// Logs the failure, unless the same reason was logged within a minute. Errors in the program's own use are not
/// logged.
pub fn tell(failure: &Failure, key: Option<&Key>) {
    if matches!(failure.reason, Reason::Unsupported | Reason::Input | Reason::Private) {
        return;
    }
    let Ok(limit) = LIMIT.get(|| Ok(Mutex::new(RateLimit::new(PACE))), |_| ()) else { return };
    // If another thread is logging, this one does not wait for it.
    let told = limit.try_lock().ok().and_then(|mut limit| limit.tell(clock::now(), failure.reason));
    if let Some(quiet) = told {
        let _ = send_datagram(Path::new(LOG), message(failure, key, quiet).as_bytes());
    }
}

/// Logs a remark, once a process.
pub fn remark(remark: Remark, key: Option<&Key>, text: &str) {
    if REMARKED.fetch_or(remark as u8, Ordering::Relaxed) & remark as u8 == 0 {
        let _ = send_datagram(Path::new(LOG), line(REMARK_PRIORITY, key, 0, text).as_bytes());
    }
}

fn message(failure: &Failure, key: Option<&Key>, quiet: u64) -> String {
    line(PRIORITY, key, quiet, &failure.to_string())
}

fn line(priority: u8, key: Option<&Key>, quiet: u64, what: &str) -> String {
    let program = PROGRAM.get().map_or("a program", String::as_str);
    let (process, user) = (getpid().as_raw_nonzero(), geteuid().as_raw());
    let mut text = format!("<{priority}>sidecore[{process}]: ");
    let mut told = format!("{program}, user {user}");
    if let Some(Key { private: Private::Stored(name), .. }) = key {
        let _ = write!(told, ", key {name}");
    }
    if quiet > 0 {
        let _ = write!(told, ", {quiet} more since the last time");
    }
    let _ = write!(told, ": {what}");
    for letter in told.chars() {
        // Names and reasons are untrusted: none may imitate a line of the log.
        if letter.is_ascii_graphic() || letter == ' ' {
            text.push(letter);
        } else {
            text.extend(letter.escape_default());
        }
        if text.len() >= MAX_MESSAGE {
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyops::key::Public;

    #[test]
    fn a_message_is_one_line_of_bounded_length_whatever_the_names_are() {
        let key = Key::new(Public::Rsa { n: vec![1], e: vec![3] }, Private::Stored("www".to_owned()));
        let failure = Failure::new(Reason::Absent, "evil\n<0>kernel: \u{202e}\x1b[2J\0");
        let line = message(&failure, Some(&key), 7);
        let start = format!("<27>sidecore[{}]: a program, user ", std::process::id());
        assert!(line.starts_with(&start) && line.contains(", key www, 7 more since the last time: "), "{line}");
        assert!(line.ends_with(r"evil\n<0>kernel: \u{202e}\u{1b}[2J\u{0}"), "{line}");
        let long = message(&Failure::new(Reason::Absent, "\n".repeat(5000)), None, 0);
        assert!(long.len() < MAX_MESSAGE + 16 && long.is_ascii(), "{long}");
    }
}
