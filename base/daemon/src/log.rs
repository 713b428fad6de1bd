//! The log of a service: its events as lines on standard error.
//!
//! A slow or missing reader must not stop the service: a bounded [`Queue`] passes lines to a separate thread. Lines
//! that do not fit are counted, and a line reports the count. The thread starts after the sandbox, which needs a
//! process with one thread; earlier lines wait in the queue.

mod line;
mod queue;

use crate::events::Level;
use line::{Format, Lines};
use queue::Queue;
use rustix::fs::fstat;
use std::env;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Longest wait for the last lines when the process ends.
const PARTING: Duration = Duration::from_secs(1);

/// The log of this process. Dropping it waits for its last lines, for [`PARTING`] at most.
pub struct Log {
    queue: Arc<Queue>,
    format: Format,
}

impl Log {
    /// Takes the events of this process, down to this level. `json`: one object a line, in place of text.
    ///
    /// # Errors
    /// Something else takes them already.
    pub fn collect(json: bool, level: Level) -> io::Result<Self> {
        let format = Format { json, journal: journal_listens() };
        let queue = Arc::new(Queue::default());
        let lines = Lines { queue: queue.clone(), format, level: level.into() };
        tracing::subscriber::set_global_default(lines).map_err(io::Error::other)?;
        Ok(Self { queue, format })
    }

    /// Begins to write. The thread that does it takes no other with it into the sandbox, so the sandbox comes before.
    ///
    /// # Errors
    /// No descriptor or no thread is left.
    pub fn write(&self) -> io::Result<()> {
        // A separate descriptor: other writers to standard error do not wait for a lock of this thread.
        let to = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let (queue, format) = (self.queue.clone(), self.format);
        let writer = thread::Builder::new().name("log".to_owned());
        writer.spawn(move || queue.write_to(to, |lost| format.lost(lost)))?;
        Ok(())
    }

    /// Waits for all events so far, for [`PARTING`] at most: the caller is about to end the process.
    pub fn flusher(&self) -> impl Fn() + Send + Sync + 'static {
        let queue = self.queue.clone();
        move || queue.flush(PARTING)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.queue.flush(PARTING);
    }
}

/// Whether standard error is the journal's stream: systemd puts its device and inode into `JOURNAL_STREAM`.
fn journal_listens() -> bool {
    let Ok(stderr) = fstat(io::stderr()) else { return false };
    env::var("JOURNAL_STREAM").is_ok_and(|stream| stream == format!("{}:{}", stderr.st_dev, stderr.st_ino))
}
