//! A terminal of a test's own, for programs that draw on all of it.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

/// What a program writes before it draws.
pub const ENTER: &str = "\x1b[?1049h";
/// What it writes to give the terminal back.
pub const LEAVE: &str = "\x1b[?1049l";

/// A terminal of 120 columns and 30 lines. Dropped, it hangs up.
pub struct Terminal {
    screen: File,
    program: File,
    shown: String,
}

impl Terminal {
    /// A new one, on which nothing runs.
    #[expect(clippy::new_without_default, reason = "it opens files")]
    pub fn new() -> Self {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        let path = ptsname(&screen, Vec::new()).unwrap();
        let program = OpenOptions::new().read(true).write(true).open(path.to_str().unwrap()).unwrap();
        tcsetwinsize(&program, Winsize { ws_row: 30, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        Self { screen: screen.into(), program, shown: String::new() }
    }

    /// Starts this command on it.
    pub fn start(&self, command: &mut Command) -> Child {
        let end = || Stdio::from(self.program.try_clone().unwrap());
        command.env("TERM", "xterm").stdin(end()).stdout(end()).stderr(end()).spawn().unwrap()
    }

    /// Waits until this was written since the start.
    pub fn read_until(&mut self, text: &str) {
        while !self.shown.contains(text) {
            let mut bytes = [0; 4096];
            let len = self.screen.read(&mut bytes).unwrap();
            self.shown += &String::from_utf8_lossy(&bytes[..len]);
        }
    }

    /// Presses these keys.
    pub fn press(&mut self, keys: &str) {
        self.screen.write_all(keys.as_bytes()).unwrap();
    }

    /// Whether line editing and echo are on, as a shell expects.
    pub fn is_cooked(&self) -> bool {
        tcgetattr(&self.program).unwrap().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }
}
