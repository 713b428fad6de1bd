//! Reasons to doubt figures, as data: of a whole run or of single rows, for every format, each with a remedy.

use super::{Report, Row, column};
use serde_json::{Value, json};

/// A possible defect of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The run ended early.
    Stopped,
    /// The program was built without optimisation.
    Unoptimised,
    /// Other programs used processors meanwhile.
    Busy,
    /// The machine's host used its processors meanwhile.
    Stolen,
    /// Other programs may run on a spinning sidecore's core.
    NotOwned,
    /// Processors change their speed.
    Frequency,
    /// Running processes outnumbered the cores.
    Crowded,
    /// Repeats differ much.
    Spread,
    /// Too few repeats to determine that.
    Repeats,
    /// The same, of runs over a path.
    Runs,
}

/// In the order of display: the most serious first.
const ALL: [Reason; 10] = [
    Reason::Stopped,
    Reason::Unoptimised,
    Reason::Busy,
    Reason::Stolen,
    Reason::Crowded,
    Reason::Spread,
    Reason::Repeats,
    Reason::Runs,
    Reason::NotOwned,
    Reason::Frequency,
];

impl Reason {
    fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Unoptimised => "unoptimised",
            Self::Busy => "busy",
            Self::Stolen => "stolen",
            Self::NotOwned => "cores not owned",
            Self::Frequency => "frequency",
            Self::Crowded => "crowded",
            Self::Spread => "spread",
            Self::Repeats => "repeats",
            Self::Runs => "few runs",
        }
    }

    fn means(self) -> &'static str {
        match self {
            Self::Stopped => "the run was stopped before its end, and what is missing was not run",
            Self::Unoptimised => "the program is built for tests, not for speed",
            Self::Busy => "other programs took processor time while this was measured",
            Self::Stolen => "this machine's host took its processors away while this was measured",
            Self::NotOwned => "the kernel may run other programs on the cores that this was measured on",
            Self::Frequency => "processors may change their clock rate from one repeat to the next",
            Self::Crowded => "processes took turns on too few cores, so times hold their waits for one another",
            Self::Spread => "repeats of the same differ much, and smaller differences between rows mean nothing",
            Self::Repeats | Self::Runs => "the same was measured too seldom to know how much it varies",
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Stopped => "let it run to its end, or name fewer scenarios and operations",
            Self::Unoptimised => "build with `cargo build --release` and measure with that",
            Self::Busy => "end other programs, or measure when they rest",
            Self::Stolen => "measure on a machine of your own, or at another time",
            Self::NotOwned => {
                "boot with isolcpus=N nohz_full=N for cores to measure on and start this by `taskset -c N,M`"
            }
            Self::Frequency => "cpupower frequency-set -g performance",
            Self::Crowded => "measure on a machine with more cores, and compare such rows by their rates only",
            Self::Spread => "let the machine rest and repeat the whole run, without --quick if it had that",
            Self::Repeats => "measure with `sidecore bench` without --quick",
            Self::Runs => "measure without --quick, or with more --repeats or --runs",
        }
    }
}

/// A reason to doubt a figure, with what was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caveat {
    /// The defect.
    pub reason: Reason,
    /// The observation, with the limit if there is one.
    pub seen: String,
}

impl Caveat {
    /// `seen` is what was seen, with the limit if there is one.
    pub fn new(reason: Reason, seen: impl Into<String>) -> Self {
        Self { reason, seen: seen.into() }
    }

    fn to_json(&self) -> Value {
        let Self { reason, seen } = self;
        json!({ "reason": reason.name(), "seen": seen, "means": reason.means(), "remedy": reason.remedy() })
    }
}

/// For [`column::DOUBTS`]. `None`: there are none.
pub fn to_json(caveats: &[Caveat]) -> Option<Vec<Value>> {
    (!caveats.is_empty()).then(|| caveats.iter().map(Caveat::to_json).collect())
}

fn seen(row: &Row) -> impl Iterator<Item = (&str, &str)> {
    let caveats = row.get(column::DOUBTS).and_then(Value::as_array);
    caveats.into_iter().flatten().filter_map(|caveat| Some((caveat["reason"].as_str()?, caveat["seen"].as_str()?)))
}

const FEW: usize = 3;

impl Report {
    pub(crate) fn caveats_in_words(&self) -> Vec<String> {
        ALL.into_iter().filter_map(|reason| self.in_words(reason)).collect()
    }

    fn in_words(&self, reason: Reason) -> Option<String> {
        let own = self.caveats.iter().filter(|caveat| caveat.reason == reason).map(|caveat| caveat.seen.clone());
        let mut said: Vec<String> = own.collect();
        let rows: Vec<&str> = self.rows.iter().filter_map(|row| of(row, reason)).collect();
        if !rows.is_empty() {
            said.push(format!("{} of {} rows{}", rows.len(), self.rows.len(), examples(rows)));
        }
        let (name, means, remedy) = (reason.name(), reason.means(), reason.remedy());
        (!said.is_empty()).then(|| format!("{name}: {means} ({}). What to do: {remedy}.", said.join("; ")))
    }
}

fn of(row: &Row, reason: Reason) -> Option<&str> {
    seen(row).find(|(name, _)| *name == reason.name()).map(|(_, seen)| seen)
}

fn examples(mut seen: Vec<&str>) -> String {
    seen.sort_unstable();
    seen.dedup();
    if seen.len() > FEW { String::new() } else { format!(": {}", seen.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uncertain(seen: &str) -> Row {
        let caveats = [Caveat::new(Reason::Spread, seen), Caveat::new(Reason::Repeats, "2")];
        Row::new("lane", "v").with(column::DOUBTS, to_json(&caveats))
    }

    #[test]
    fn a_row_says_which_reasons_it_has() {
        let row = uncertain("40 %");
        assert_eq!(column::DOUBTS.cell(&row).as_deref(), Some("spread, repeats"));
        assert_eq!(row.get(column::DOUBTS).unwrap()[0]["remedy"], Reason::Spread.remedy());
        assert_eq!(column::DOUBTS.cell(&Row::new("lane", "v").with(column::DOUBTS, to_json(&[]))), None);
    }

    #[test]
    fn each_reason_is_said_once_with_what_to_do() {
        let rows = vec![uncertain("40 %"), uncertain("20 %"), Row::new("lane", "v")];
        let caveats = vec![Caveat::new(Reason::Busy, "half"), Caveat::new(Reason::Stopped, "in lane")];
        let said = Report { rows, caveats, ..Report::default() }.caveats_in_words();
        let names: Vec<&str> = said.iter().filter_map(|line| line.split(':').next()).collect();
        assert_eq!(names, ["stopped", "busy", "spread", "repeats"]);
        assert!(said[2].contains("(2 of 3 rows: 20 %, 40 %). What to do: let the machine rest"), "{said:?}");
        assert!(said[1].contains("(half). What to do: end other programs"), "{said:?}");
        assert!(Report::default().caveats_in_words().is_empty());
    }

    #[test]
    fn all_reasons_are_said_under_names_of_their_own() {
        for reason in ALL {
            assert_eq!(ALL.iter().filter(|other| other.name() == reason.name()).count(), 1);
        }
        let caveats = ALL.map(|reason| Caveat::new(reason, "x")).into();
        assert_eq!(Report { caveats, ..Report::default() }.caveats_in_words().len(), ALL.len());
    }
}
