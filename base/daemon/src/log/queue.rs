//! A bounded queue of lines from the service's threads to the writing thread: no producer waits.

use crate::events::Level;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Most lines that wait. Events of clients (below [`Level::Notice`]) fill half of the places at most, so they cannot
/// displace an administrator's.
const LINES: usize = 1024;
const PAUSE: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) lines: u64,
    /// How many of the lost lines were notices or more.
    pub(super) notices: u64,
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Entry>,
    /// Since the last line that reported a loss.
    lost: Lost,
    /// The last line could not be written: the loss is then reported with the next line only.
    failing: bool,
    writing: bool,
}

enum Entry {
    Line(Level, String),
    Lost(Lost),
}

impl Queue {
    pub(super) fn push(&self, level: Level, line: String) {
        let mut state = self.state();
        let room = if level > Level::Notice { LINES / 2 } else { LINES };
        if state.waiting.len() >= room {
            state.lost.count(level);
        } else {
            let lost = std::mem::take(&mut state.lost);
            if lost != Lost::default() {
                state.waiting.push_back(Entry::Lost(lost));
            }
            state.waiting.push_back(Entry::Line(level, line));
            self.changed.notify_all();
        }
    }

    /// Writes lines until the process ends. `of_lost` makes the line that reports lost lines.
    pub(super) fn write_to(&self, to: impl Write, of_lost: impl Fn(Lost) -> String) {
        let mut to = to;
        loop {
            let entry = self.next();
            let written = match &entry {
                Entry::Line(_, line) => write_all(&mut to, line),
                Entry::Lost(lost) => write_all(&mut to, &of_lost(*lost)),
            };
            let mut state = self.state();
            state.writing = false;
            state.failing = written.is_err();
            match entry {
                _ if written.is_ok() => {}
                Entry::Line(level, _) => state.lost.count(level),
                Entry::Lost(lost) => state.lost.add(lost),
            }
            self.changed.notify_all();
        }
    }

    pub(super) fn flush(&self, patience: Duration) {
        let busy = |state: &mut QueueState| state.writing || state.has_more();
        // A timeout makes no difference.
        let _ = self.changed.wait_timeout_while(self.state(), patience, busy).unwrap_or_else(PoisonError::into_inner);
    }

    fn next(&self) -> Entry {
        let idle = |state: &mut QueueState| !state.has_more();
        let mut state = self.changed.wait_while(self.state(), idle).unwrap_or_else(PoisonError::into_inner);
        state.writing = true;
        let next = state.waiting.pop_front();
        next.unwrap_or_else(|| Entry::Lost(std::mem::take(&mut state.lost)))
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        // No holder of the lock leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    fn has_more(&self) -> bool {
        !self.waiting.is_empty() || (self.lost != Lost::default() && !self.failing)
    }
}

impl Lost {
    fn count(&mut self, level: Level) {
        self.add(Self { lines: 1, notices: u64::from(level <= Level::Notice) });
    }

    fn add(&mut self, more: Self) {
        self.lines += more.lines;
        self.notices += more.notices;
    }
}

/// Standard error is often shared, and another process may have made it nonblocking.
fn write_all(to: &mut impl Write, line: &str) -> io::Result<()> {
    let mut left = line.as_bytes();
    while !left.is_empty() {
        match to.write(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => left = &left[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, mpsc};

    struct Gate(mpsc::SyncSender<String>);

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let line = String::from_utf8(bytes.to_vec()).unwrap();
            self.0.send(line).map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn of_lost(lost: Lost) -> String {
        format!("lost {} {}", lost.lines, lost.notices)
    }

    #[test]
    fn a_reader_who_stands_still_holds_nobody_up_and_hears_what_is_lost() {
        let queue = Arc::new(Queue::default());
        let many = LINES + 100;
        (0..many).for_each(|number| queue.push(Level::Info, format!("info {number}")));
        (0..many).for_each(|number| queue.push(Level::Notice, format!("notice {number}")));
        let (send, lines) = mpsc::sync_channel(0);
        let theirs = queue.clone();
        thread::spawn(move || theirs.write_to(Gate(send), of_lost));
        let info: Vec<String> = (0..LINES / 2).map(|_| lines.recv().unwrap()).collect();
        assert_eq!((info.first().unwrap().as_str(), info.last().unwrap().as_str()), ("info 0", "info 511"));
        assert_eq!(lines.recv().unwrap(), "lost 612 0", "told at its place");
        let notices = LINES - LINES / 2 - 1;
        let told: Vec<String> = (0..notices).map(|_| lines.recv().unwrap()).collect();
        assert_eq!(told.first().unwrap(), "notice 0", "what clients caused left room");
        let lost = many - notices;
        assert_eq!(lines.recv().unwrap(), format!("lost {lost} {lost}"));
    }

    #[test]
    fn a_reader_who_is_gone_is_tried_again_with_the_next_line_only() {
        let queue = Arc::new(Queue::default());
        let (send, lines) = mpsc::sync_channel(0);
        drop(lines);
        let theirs = queue.clone();
        thread::spawn(move || theirs.write_to(Gate(send), of_lost));
        queue.push(Level::Notice, "one".to_owned());
        queue.flush(Duration::from_secs(60));
        queue.push(Level::Info, "two".to_owned());
        queue.flush(Duration::from_secs(60));
        let state = queue.state();
        assert_eq!((state.lost, state.waiting.len()), (Lost { lines: 2, notices: 1 }, 0));
    }

    #[test]
    fn what_takes_pieces_gets_the_whole_line() {
        struct Slow(Vec<u8>, u32);
        impl Write for Slow {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.1 += 1;
                match self.1 % 3 {
                    0 => Err(io::ErrorKind::Interrupted.into()),
                    1 => Err(io::ErrorKind::WouldBlock.into()),
                    _ => {
                        self.0.push(bytes[0]);
                        Ok(1)
                    }
                }
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut slow = Slow(Vec::new(), 0);
        write_all(&mut slow, "a line\n").unwrap();
        assert_eq!(slow.0, b"a line\n");
    }
}
