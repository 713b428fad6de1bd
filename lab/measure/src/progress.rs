//! Progress of a long measurement: a bar on a terminal, otherwise one line for each scenario. Never on standard output.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crate::interrupt::Interrupt;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const TEMPLATE: &str = "{prefix:<10} {bar:30} {pos:>3}/{len} {eta:>4} left  {wide_msg}";
/// Redraws during a step, so that the bar's clock advances.
const TICK: Duration = Duration::from_millis(500);

/// Dropping the bar clears it.
pub struct Progress {
    bar: ProgressBar,
    interrupt: Interrupt,
    lines: Option<Box<dyn Write + Send + Sync>>,
}

impl Progress {
    /// Progress of this number of steps, on standard error.
    pub fn new(steps: usize) -> Self {
        if io::stderr().is_terminal() {
            let progress = Self::on(steps, ProgressDrawTarget::stderr(), None);
            progress.bar.enable_steady_tick(TICK);
            progress
        } else {
            Self::on(steps, ProgressDrawTarget::hidden(), Some(Box::new(io::stderr())))
        }
    }

    /// So many of all steps are done.
    pub fn at(&self, done: usize, all: usize) {
        self.bar.set_length(all as u64);
        self.bar.set_position(done as u64);
    }

    /// Adds steps.
    pub fn extend(&self, steps: usize) {
        self.bar.inc_length(steps as u64);
    }

    /// Ends early with this interrupt.
    #[must_use]
    pub fn until(self, interrupt: &Interrupt) -> Self {
        Self { interrupt: interrupt.clone(), ..self }
    }

    /// Whether the interrupt came.
    pub fn is_stopped(&self) -> bool {
        self.interrupt.came()
    }

    /// The next scenario begins.
    pub fn scenario(&mut self, name: &str) {
        self.bar.set_prefix(name.to_owned());
        if let Some(lines) = &mut self.lines {
            let line = match self.bar.position() {
                0 => name.to_owned(),
                1 => format!("{name}, after 1 step"),
                steps => format!("{name}, after {steps} steps"),
            };
            // Progress is a courtesy: a closed standard error must not end a measurement.
            drop(writeln!(lines, "{line}"));
        }
    }

    /// A step begins.
    pub fn begin(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// A step is done.
    pub fn advance(&self) {
        self.bar.inc(1);
    }

    fn on(steps: usize, target: ProgressDrawTarget, lines: Option<Box<dyn Write + Send + Sync>>) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
        bar.set_style(ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, interrupt: Interrupt::never(), lines }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn without_a_terminal_each_scenario_is_one_line() {
        let out = Shared::default();
        let mut progress = Progress::on(0, ProgressDrawTarget::hidden(), Some(Box::new(out.clone())));
        progress.bar.inc_length(3);
        progress.scenario("lane");
        progress.begin("round trips");
        progress.advance();
        progress.scenario("crypto");
        progress.advance();
        progress.scenario("notify");
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "lane\ncrypto, after 1 step\nnotify, after 2 steps\n");
    }

    #[test]
    fn steps_are_counted_and_the_template_is_valid() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
        let progress = Progress::on(2, ProgressDrawTarget::hidden(), None);
        progress.advance();
        progress.bar.inc_length(3);
        assert_eq!((progress.bar.position(), progress.bar.length()), (1, Some(5)));
        Progress::new(1).advance();
    }
}
