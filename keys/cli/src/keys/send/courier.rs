//! The command that brings sealed keys to another machine and receipts back. Its output is not trusted.

use rustix::process::{Pid, Signal, kill_process_group};
use sidecore::keys::transfer::{MAX_RECEIPT_LINE, Received};
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Most bytes that are read of it: receipts for the most keys of a command, and some other lines.
const MAX_OUTPUT: u64 = 1 << 20;
/// Time between two checks whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(super) struct Carried {
    /// Receipts, also of a command that failed later.
    pub(super) received: Vec<Received>,
    pub(super) failure: Option<String>,
}

pub(super) fn carry(command: &str, text: String, timeout: Duration) -> io::Result<Carried> {
    let until = Instant::now() + timeout;
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::piped()).stdout(Stdio::piped());
    // On a terminal it may ask there for a password, which a group of its own must not.
    let has_group = !io::stdin().is_terminal();
    if has_group {
        shell.process_group(0);
    }
    let mut child = shell.spawn()?;
    let receipts = start(&mut child, text)?;
    let mut received = Vec::new();
    let mut output_ended = false;
    while Instant::now() < until {
        match receipts.recv_timeout(LOOK_EVERY) {
            Ok(receipt) => received.push(receipt),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                output_ended = true;
                break;
            }
        }
    }
    while output_ended && Instant::now() < until {
        if let Some(status) = child.try_wait()? {
            let failure = (!status.success()).then(|| format!("`{command}` failed ({status})"));
            return Ok(Carried { received, failure });
        }
        thread::sleep(LOOK_EVERY);
    }
    // The processes may end in this instant.
    let _ = if has_group {
        kill_process_group(Pid::from_child(&child), Signal::KILL).map_err(io::Error::from)
    } else {
        child.kill()
    };
    child.wait()?;
    received.extend(receipts.try_iter());
    let failure = format!("`{command}` took more than {} s and was ended", timeout.as_secs());
    Ok(Carried { received, failure: Some(failure) })
}

/// Threads write the sealed keys and read receipts: a command that does only one of both holds up neither.
fn start(child: &mut Child, text: String) -> io::Result<Receiver<Received>> {
    let (to, from) = (child.stdin.take(), child.stdout.take());
    let (tell, receipts) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        // A command that reads only a part of it gives receipts for that part.
        let _ = to.map(|mut to| to.write_all(text.as_bytes()));
    })?;
    thread::Builder::new().spawn(move || {
        let Some(from) = from else { return };
        let mut output = BufReader::new(from.take(MAX_OUTPUT));
        let mut line = Vec::new();
        while (&mut output).take(MAX_RECEIPT_LINE as u64 + 2).read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
            let receipt = std::str::from_utf8(&line).ok().and_then(Received::from_line);
            if receipt.is_some_and(|receipt| tell.send(receipt).is_err()) {
                return;
            }
            line.clear();
        }
    })?;
    Ok(receipts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore::keys::transfer::{Outcome, Receipt};

    fn receipt() -> Received {
        Received { name: "www".to_owned(), outcome: Outcome::New, receipt: Receipt([7; 32]) }
    }

    fn carried(command: &str, text: &str, timeout: u64) -> Carried {
        carry(command, text.to_owned(), Duration::from_secs(timeout)).unwrap()
    }

    #[test]
    fn receipts_are_found_between_other_lines_and_count_if_the_command_fails() {
        let command = format!("echo welcome; cat; echo '{}'; exit 3", receipt().to_line());
        let Carried { received, failure } = carried(&command, "sealed\n", 60);
        assert_eq!(received, [receipt()]);
        assert!(failure.unwrap().contains("exit status: 3"));
    }

    #[test]
    fn a_command_that_reads_nothing_or_writes_without_end_is_ended() {
        let text = "x".repeat(1 << 20);
        let Carried { received, failure } = carried("exec sleep 600", &text, 1);
        assert!(received.is_empty() && failure.unwrap().contains("took more than 1 s"));
        let endless = format!("echo '{}'; yes | cat; sleep 600", receipt().to_line());
        let Carried { received, failure } = carried(&endless, &text, 2);
        assert_eq!(received, [receipt()]);
        assert!(failure.is_some());
    }

    #[test]
    fn an_output_as_long_as_its_input_holds_up_neither() {
        let line = receipt().to_line() + "\n";
        let Carried { received, failure } = carried("cat", &line.repeat(4096), 60);
        assert_eq!((received.len(), failure), (4096, None));
    }
}
