//! Rows and messages about injected problems, and whether a cure was found.

use super::estimate::Estimate;
use super::rows::{MIN_RATIO, START, noise, with_figures, with_ratio};
use super::search::{Change, Found, point};
use super::tuned_path::TunedPath;
use crate::args::InjectedProblem;
use crate::error::LabError;
use crate::net::columns;
use crate::report::{Row, column};
use std::time::Duration;

pub(super) struct Tried {
    pub(super) tuned_path: TunedPath,
    pub(super) found: Found,
    pub(super) took: Duration,
    /// The best of all combinations, and the gain of the recommended one against it; 0: equally good.
    pub(super) best: Option<(Vec<Change>, Estimate)>,
    /// Why parts are missing.
    pub(super) ended: Vec<String>,
    pub(super) failure: Option<LabError>,
}

pub(super) fn rows(injected: InjectedProblem, tried: &Tried) -> Vec<Row> {
    let Tried { tuned_path, found, took, best, .. } = tried;
    let words = |changes: &[_]| tuned_path.words(&point(tuned_path.tuned.len(), changes));
    let row = |kind: &str| Row::new("net-tune-check", injected.name()).with(column::OP, kind);
    let problem = with_figures(row("problem"), tuned_path, &[]);
    let cure = found.gain.as_ref().map(|gain| {
        let cure = with_ratio(row(&words(&found.best)), gain).with(column::BASELINE, START);
        with_figures(cure, tuned_path, &found.best).with(columns::TOOK_SECONDS, took.as_secs_f64())
    });
    let against = best.as_ref().map(|(best, gain)| {
        with_ratio(row("of the best of all"), gain)
            .with(column::BASELINE, words(best))
            .with(column::AT_LEAST, MIN_RATIO)
    });
    [Some(problem), cure, against].into_iter().flatten().collect()
}

pub(super) fn missed(injected: InjectedProblem, tried: &Tried) -> Option<String> {
    let Tried { tuned_path, found, .. } = tried;
    let is_cured =
        found.best.iter().any(|(setting, _)| injected.cures().contains(&tuned_path.tuned[*setting].setting.name));
    (!is_cured).then(|| format!("{}: no cure was found in {} runs. {}", injected.name(), found.runs, noise(tuned_path)))
}
