//! Counts of a feeder's events.

use super::outbox::Outcome;
use sidecore_terminal::output::tell;
use std::io::{self, IsTerminal, Write};

/// Most lines about single events. Further ones are only counted.
const MAX_LINES: u64 = 100;

#[derive(Debug, Default)]
pub(super) struct Summary {
    fed: u64,
    stored: u64,
    already: u64,
    refused: u64,
    shed: u64,
    terminal: bool,
    shown: bool,
}

impl Summary {
    pub(super) fn new() -> Self {
        Self { terminal: io::stderr().is_terminal(), ..Self::default() }
    }

    pub(super) fn read(&mut self) {
        self.fed += 1;
    }

    pub(super) fn over(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Stored => &mut self.stored,
            Outcome::Already => &mut self.already,
            Outcome::Refused => &mut self.refused,
            Outcome::Shed => &mut self.shed,
        } += 1;
    }

    pub(super) fn refused(&mut self, name: &str, why: &str) {
        self.clear();
        if self.refused < MAX_LINES {
            tell(format_args!("refused {name}: {why}"));
        } else if self.refused == MAX_LINES {
            tell("more are refused: they are only counted");
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.fed == self.stored + self.already
    }

    pub(super) fn progress(&mut self) {
        if self.terminal {
            self.shown = true;
            // A failure to show progress does not matter.
            drop(write!(io::stderr().lock(), "\r{}\x1b[K", self.line()));
        }
    }

    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            drop(write!(io::stderr().lock(), "\r\x1b[K"));
        }
    }

    pub(super) fn line(&self) -> String {
        let Self { fed, stored, already, refused, shed, .. } = self;
        format!("fed {fed}, stored {stored}, already there {already}, refused {refused}, shed {shed}")
    }
}
