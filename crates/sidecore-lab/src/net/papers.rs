//! `sidecore net papers`: effects of network interfaces in two papers, repeated on links of this machine.
//!
//! A paper's numbers belong to its machines. An effect is comparable: the change of a figure from one interface to the
//! other. Each load runs on two links that differ in one property, one directly after the other, repeatedly.

mod contrast;
mod effect;
mod hoti;
mod lhcb;

use super::pair::Pair;
use crate::args::{NetPapers, Paper};
use crate::error::LabError;
use crate::interrupt::{Interrupt, STOPPED};
use crate::net::sections::export;
use crate::net::tune::location::here_in_words;
use crate::progress::Progress;
use crate::report::Outcome;
use crate::sim::Predictions;
use contrast::Contrast;
use effect::Effect;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Long enough for a few thousand packets, and for a hundred.
const WINDOWS: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(300)];
/// Fewer than six give no interval.
const REPEATS: [usize; 2] = [12, 6];

const SEED: u64 = 1;
const MAX_WRONG: usize = 2;

struct Study {
    /// Scenario of its rows; that of its effects ends with [`EFFECTS`].
    scenario: &'static str,
    plan: Option<&'static str>,
    contrasts: Vec<Contrast>,
    effects: Vec<Effect>,
    /// Whether its effects are comparable with each other, so that their order can be stated.
    is_ordered: bool,
    notes: &'static [&'static str],
}

const EFFECTS: &str = "-effects";

pub(super) fn run(args: &NetPapers) -> Result<(), LabError> {
    // Missing privileges are reported first. A user namespace can only be made while the process has one thread.
    let path = Pair::by_veth().map(|_pair| here_in_words(Some("near")))?;
    let mut studies: Vec<Study> = [(Paper::Hoti, hoti::study as fn(bool) -> Study), (Paper::Lhcb, lhcb::study)]
        .into_iter()
        .filter(|(paper, _)| args.paper.is_none_or(|only| only == *paper))
        .map(|(_, study)| study(args.quick))
        .collect();
    let lacking = rounds(&mut studies, args)?;
    let mut outcome = Outcome::default();
    outcome.lacks_all(lacking);
    for study in &studies {
        study.add_to(&mut outcome, &args.plans);
    }
    Ok(export("sidecore net papers", &args.files, outcome, path)?)
}

/// Runs each load on both of its links, `repeats` times; the first link alternates. Returns descriptions of missing
/// features.
fn rounds(studies: &mut [Study], args: &NetPapers) -> Result<BTreeSet<String>, LabError> {
    let short = usize::from(args.quick);
    let window = args.ms.map_or(WINDOWS[short], Duration::from_millis);
    let repeats = args.repeats.map_or(REPEATS[short], usize::from);
    let interrupt = Interrupt::new()?;
    let mut progress = Progress::new(studies.iter().map(|study| study.contrasts.len()).sum::<usize>() * repeats);
    progress.scenario("net papers");
    let (mut lacking, mut is_any) = (BTreeSet::new(), false);
    for repeat in 0..repeats {
        for contrast in studies.iter_mut().flat_map(|study| &mut study.contrasts) {
            if interrupt.came() {
                lacking.insert(STOPPED.to_owned());
                return Ok(lacking);
            }
            progress.begin(&contrast.words());
            if contrast.wrong.len() < MAX_WRONG {
                match contrast.run(window, repeat % 2 == 1, &interrupt) {
                    Ok(more) => lacking.extend(more),
                    Err(_) if interrupt.came() => continue,
                    // The other loads would fail in the same way.
                    Err(why) if !is_any => return Err(why),
                    Err(why) => contrast.wrong.push(why.to_string()),
                }
                is_any = true;
            }
            progress.advance();
        }
    }
    Ok(lacking)
}

impl Study {
    fn add_to(&self, outcome: &mut Outcome, plans: &Path) {
        let wrong = |contrast: &Contrast| format!("{}: {}", contrast.words(), contrast.wrong.join("; "));
        outcome.lacks_all(self.contrasts.iter().filter(|contrast| !contrast.wrong.is_empty()).map(wrong));
        let done = || self.contrasts.iter().filter(|contrast| !contrast.is_empty());
        if done().next().is_none() {
            return;
        }
        outcome.add_rows(done().flat_map(|contrast| contrast.rows(self.scenario)));
        let mut predictions = self.plan.and_then(|plan| match Predictions::read(&plans.join(plan), SEED) {
            Ok(predictions) => Some(predictions),
            Err(why) => {
                outcome.lacks(format!("what is simulated: {why}; --plans names the folder of {plan}"));
                None
            }
        });
        let mut effects = Vec::new();
        for effect in &self.effects {
            let found = self.contrasts.iter().find(|contrast| effect.is_of(contrast) && !contrast.is_empty());
            let Some(contrast) = found else { continue };
            match effect.found(contrast, predictions.as_mut()) {
                Ok(found) => effects.push(found),
                Err(why) => outcome.lacks(format!("{}: {why}", effect.name)),
            }
        }
        outcome.add_rows(effects.iter().map(|found| found.row(&(self.scenario.to_owned() + EFFECTS))));
        let order = if self.is_ordered { effect::order(&effects) } else { None };
        for note in self.notes.iter().map(|note| (*note).to_owned()).chain(order) {
            outcome.note(format!("{}: {note}", self.scenario));
        }
    }
}
