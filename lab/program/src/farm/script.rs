//! The events of a run and their times: first a burst that keeps all nodes busy for a while, then a Poisson process. A
//! feeder receives them as lines. After a kill it receives all lines again, because it knows its own place.

use super::load::{self, Dice};
use crate::farm::error::FarmError;
use std::process::ChildStdin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::process;
use tokio::task::JoinHandle;
use tokio::time::sleep_until;

/// Most bytes written to a feeder in one piece. Lines that are due together form one piece.
const CHUNK: usize = 256 << 10;

#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    events: Vec<Planned>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) due: Duration,
    pub(crate) units: u32,
}

impl Script {
    /// `burst`: work of the first events, as time of all nodes. After that time and a quarter of it, events come for
    /// `lasting` at `part` of the nodes' capacity.
    pub(crate) fn new(seed: u64, unit: Duration, burst: Duration, lasting: Duration, part: f64) -> Self {
        let mut dice = Dice::new(seed);
        let at_once = (load::events_per_s(unit) * burst.as_secs_f64()) as usize;
        let mut events: Vec<Planned> =
            (0..at_once).map(|_| Planned { due: Duration::ZERO, units: dice.size() }).collect();
        let rate = part * load::events_per_s(unit);
        let begin = burst + burst / 4;
        let mut due = begin + dice.gap(rate);
        while due < begin + lasting {
            events.push(Planned { due, units: dice.size() });
            due += dice.gap(rate);
        }
        Self { events }
    }

    pub(crate) fn events(&self) -> &[Planned] {
        &self.events
    }

    pub(crate) fn end(&self) -> Duration {
        self.events.last().map_or(Duration::ZERO, |last| last.due)
    }

    /// The lines from event `from` on that are due at `at`, and the index after them; [`CHUNK`] and one line at most.
    fn lines(&self, mut from: usize, at: Duration) -> (Vec<u8>, usize) {
        let mut lines = Vec::new();
        while let Some(event) = self.events.get(from).filter(|event| event.due <= at && lines.len() < CHUNK) {
            lines.extend(load::event(event.units));
            lines.push(b'\n');
            from += 1;
        }
        (lines, from)
    }
}

/// Writes each line to a feeder when it is due, and overdue lines immediately. Ends with the last line, or when the
/// feeder is gone.
pub(crate) fn give(script: Arc<Script>, begun: Instant, to: ChildStdin) -> Result<JoinHandle<()>, FarmError> {
    let to = process::ChildStdin::from_std(to);
    let mut to = to.map_err(FarmError::system("cannot write to the feeder"))?;
    Ok(tokio::spawn(async move {
        let mut next = 0;
        while let Some(event) = script.events.get(next) {
            sleep_until((begun + event.due).into()).await;
            let (lines, behind) = script.lines(next, begun.elapsed().max(event.due));
            next = behind;
            // After a kill the feeder receives everything again.
            if to.write_all(&lines).await.is_err() {
                return;
            }
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script() -> Script {
        Script::new(1, Duration::from_micros(200), Duration::from_secs(1), Duration::from_secs(2), 0.8)
    }

    #[test]
    fn a_burst_comes_at_once_and_the_rest_at_its_rate() {
        let script = script();
        let at_once = script.events().iter().filter(|event| event.due.is_zero()).count();
        assert_eq!(at_once, load::events_per_s(Duration::from_micros(200)) as usize);
        let later = (script.events().len() - at_once) as f64;
        let expected = 0.8 * 2.0 * load::events_per_s(Duration::from_micros(200));
        assert!((later / expected - 1.0).abs() < 0.1, "{later} of {expected}");
        assert!(script.end() < Duration::from_millis(3_250) && script.end() > Duration::from_millis(3_200));
        assert!(script.events().windows(2).all(|pair| pair[0].due <= pair[1].due));
        assert_eq!(script.events(), self::script().events());
    }

    #[test]
    fn lines_come_once_each_in_their_order_and_only_when_due() {
        let script = script();
        let (mut next, mut all) = (0, Vec::new());
        for ms in (0..4_000).step_by(100) {
            loop {
                let (lines, behind) = script.lines(next, Duration::from_millis(ms));
                if behind == next {
                    break;
                }
                assert!(script.events()[behind - 1].due <= Duration::from_millis(ms));
                (next, all) = (behind, [all, lines].concat());
            }
        }
        let units: Vec<u32> = all.split(|byte| *byte == b'\n').filter_map(load::units).collect();
        assert_eq!(units, script.events().iter().map(|event| event.units).collect::<Vec<_>>());
    }
}
