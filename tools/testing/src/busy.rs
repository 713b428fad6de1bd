//! A busy machine.

use std::process::{Child, Command};

/// A program that takes all the processor time it can get, until this is dropped.
pub struct BusyProgram(Child);

impl BusyProgram {
    /// Starts it.
    ///
    /// # Panics
    /// There is no shell.
    pub fn start() -> Self {
        Self(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
    }
}

impl Drop for BusyProgram {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
