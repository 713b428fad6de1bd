//! `sidecore net papers`: effects of network interfaces in two papers, repeated on links of this machine.
//!
//! A paper's numbers belong to its machines. An effect is comparable: the change of a figure from one interface to the
//! other. Each load runs on two links that differ in one property, one directly after the other, repeatedly.

mod contrast;
mod effect;
mod file;
mod metric;

use super::pair::Pair;
use crate::args::{NetPapers, Paper};
use crate::error::LabError;
use crate::net::columns;
use crate::net::sections::export;
use crate::net::tune::location::here_in_words;
use crate::report::{Outcome, Row};
use crate::sim::Predictions;
use contrast::Contrast;
use file::Paper as PaperFile;
use sidecore_measure::interrupt::{Interrupt, STOPPED};
use sidecore_measure::progress::Progress;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Long enough for a few thousand packets, and for a hundred.
const WINDOWS: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(300)];
/// Fewer than six give no interval.
const REPEATS: [usize; 2] = [12, 6];

const SEED: u64 = 1;
const MAX_WRONG: usize = 2;

const EFFECTS: &str = "-effects";
const LINKS: &str = "-links";

const FILES: [(Paper, &str, &str); 2] = [
    (Paper::Hoti, "hoti.toml", include_str!("papers/hoti.toml")),
    (Paper::Lhcb, "lhcb.toml", include_str!("papers/lhcb.toml")),
];

struct Study<'p> {
    paper: &'p PaperFile,
    contrasts: Vec<Contrast<'p>>,
}

pub(super) fn run(args: &NetPapers) -> Result<(), LabError> {
    // Missing privileges are reported first. A user namespace can only be made while the process has one thread.
    let path = Pair::by_veth().map(|_pair| here_in_words(Some("near")))?;
    let wanted = FILES.iter().filter(|(paper, ..)| args.paper.is_none_or(|only| only == *paper));
    let papers = wanted.map(|(_, name, text)| PaperFile::read(name, text)).collect::<Result<Vec<_>, _>>()?;
    let study = |paper| Study { paper, contrasts: PaperFile::contrasts(paper, args.quick) };
    let mut studies: Vec<_> = papers.iter().map(study).collect();
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

impl Study<'_> {
    fn add_to(&self, outcome: &mut Outcome, plans: &Path) {
        let wrong = |contrast: &Contrast| format!("{}: {}", contrast.words(), contrast.wrong.join("; "));
        outcome.lacks_all(self.contrasts.iter().filter(|contrast| !contrast.wrong.is_empty()).map(wrong));
        let done: Vec<_> = self.contrasts.iter().filter(|contrast| !contrast.is_empty()).collect();
        if done.is_empty() {
            return;
        }
        let PaperFile { scenario, plan, .. } = self.paper;
        outcome.add_rows(done.iter().flat_map(|contrast| contrast.rows(scenario)));
        outcome.add_rows(rows_of_links(&(scenario.to_owned() + LINKS), &done));
        let mut predictions = plan.as_ref().and_then(|plan| match Predictions::read(&plans.join(plan), SEED) {
            Ok(predictions) => Some(predictions),
            Err(why) => {
                outcome.lacks(format!("what is simulated: {why}; --plans names the folder of {plan}"));
                None
            }
        });
        let mut missing = Vec::new();
        for contrast in done {
            for effect in &contrast.load.effects {
                match effect.row(&(scenario.to_owned() + EFFECTS), contrast, predictions.as_mut()) {
                    Ok(Some(row)) => outcome.add_rows([row]),
                    Ok(None) => missing.push(effect.name.as_str()),
                    Err(why) => outcome.lacks(format!("{}: {why}", effect.name)),
                }
            }
        }
        if !missing.is_empty() {
            outcome.lacks(format!("{scenario}: no run has {}", missing.join("; ")));
        }
        self.paper.notes.iter().for_each(|note| outcome.note(format!("{scenario}: {note}")));
    }
}

/// Metrics of several loads beside each other, one row for each link.
fn rows_of_links(scenario: &str, done: &[&Contrast]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for side in done.iter().filter(|contrast| contrast.load.in_one_row).flat_map(|contrast| &contrast.sides) {
        let name = side.link.name.as_str();
        let known = rows.iter().position(|row| row.variant() == name).map(|at| rows.remove(at));
        let figures = side.medians().into_iter().filter_map(|(name, figure)| Some((columns::of_link(name)?, figure)));
        rows.push(
            figures.fold(known.unwrap_or_else(|| Row::new(scenario, name)), |row, (key, figure)| row.with(key, figure)),
        );
    }
    rows
}
