//! Results as rows, and recommended settings as lines for configuration files.

use super::estimate::Estimate;
use super::goal::Figures;
use super::search::{Change, Effect, Found, point};
use super::setting::{Kind, Setting};
use super::tuned_path::{DATAGRAM, Tuned, TunedPath};
use crate::net::columns;
use crate::report::{Outcome, Row, column, counted, ratio};
use sidecore_measure::caveats::doubted;
use std::collections::BTreeSet;

const FEWEST: usize = 4;
/// Least ratio of the recommended settings to the best combination.
const MIN_RATIO: f64 = 0.97;
/// Noise above which a note is added, a logarithm.
const NOISY: f64 = 0.2;
const START: &str = "as it was";

pub(super) fn add(outcome: &mut Outcome, tuned_path: &TunedPath, found: &Found) {
    let start = with_figures(Row::new("net-tune", START).with(column::OP, "start"), tuned_path, &[]);
    let mut rows = vec![start];
    if let Some(gain) = &found.gain {
        rows.push(with_figures(compared(tuned_path, "recommended", (&found.best, &[]), gain), tuned_path, &found.best));
    }
    rows.extend(found.taken_back.iter().map(|effect| taken_back(tuned_path, effect)));
    rows.extend(found.beyond.iter().map(|effect| row(tuned_path, "more than their sum", effect)));
    let mut tried: Vec<_> = found.tried.iter().filter(|effect| effect.gain.pairs > 0).collect();
    tried.sort_by(|one, other| other.gain.mean.total_cmp(&one.gain.mean));
    rows.extend(
        tried.into_iter().map(|effect| with_figures(row(tuned_path, "tried", effect), tuned_path, &effect.changes)),
    );
    rows.extend(frontier(tuned_path).iter().map(|changes| {
        let words = words(tuned_path, changes);
        let row = Row::new("net-tune", &short(tuned_path, changes))
            .with(column::OP, "frontier")
            .with(column::SETTINGS, words);
        with_figures(row, tuned_path, changes)
    }));
    outcome.add_rows(rows);
    match found.gain {
        Some(_) => {
            let best = |(setting, level): &Change| {
                let tuned = &tuned_path.tuned[*setting];
                (tuned.setting, tuned.values(*level)[0].as_str())
            };
            for line in lines(&tuned_path.interface, &found.best.iter().map(best).collect::<Vec<_>>()) {
                outcome.note(line);
            }
        }
        None => outcome.note(nothing(found.runs, &found.tried, |changes| words(tuned_path, changes))),
    }
    if tuned_path.noise() > NOISY {
        outcome.note(format!("{}; begun with nice -n -10 it gives way less to other programs.", noise(tuned_path)));
    }
}

/// Settings that no run was left for.
pub(super) fn without_runs(tuned_path: &TunedPath, found: &Found) -> Option<String> {
    let compared = found.tried.iter().filter(|effect| effect.gain.pairs > 0).flat_map(|effect| &effect.changes);
    let compared: BTreeSet<_> = compared.map(|(setting, _)| *setting).collect();
    let others = tuned_path.tuned.iter().enumerate().filter(|(at, _)| !compared.contains(at));
    let names: Vec<_> = others.map(|(_, tuned)| tuned.setting.name).collect();
    (!names.is_empty()).then(|| format!("{}: no run was left; --runs takes more", names.join(", ")))
}

/// A gain that a row shows is named, so that it is not taken for one.
fn nothing(runs: usize, tried: &[Effect], words: impl Fn(&[Change]) -> String) -> String {
    let gains = tried.iter().filter(|effect| effect.gain.mean > 0.0);
    match gains.max_by(|one, other| one.gain.mean.total_cmp(&other.gain.mean)) {
        Some(most) => format!(
            "In {runs} runs no gain was confirmed: the largest, of {}, is {} in {}, and may be noise. --ms or --runs takes more.",
            words(&most.changes),
            ratio(most.gain.mean.exp()),
            counted(most.gain.pairs as f64, "comparison")
        ),
        None => format!("In {runs} runs nothing was found that helps beyond the noise."),
    }
}

fn words(tuned_path: &TunedPath, changes: &[Change]) -> String {
    tuned_path.words(&point(tuned_path.tuned.len(), changes))
}

fn noise(tuned_path: &TunedPath) -> String {
    format!("Runs of one and the same thing differ by {:.0} %", 100.0 * tuned_path.noise().exp_m1())
}

fn short(tuned_path: &TunedPath, changes: &[Change]) -> String {
    let words = words(tuned_path, &changes[..changes.len().min(2)]);
    if changes.len() > 2 { format!("{words} and {} more", changes.len() - 2) } else { words }
}

/// Points with enough runs that no other point beats in all figures, ordered by throughput.
fn frontier(tuned_path: &TunedPath) -> Vec<Vec<Change>> {
    let seen = tuned_path.seen.iter().filter(|(_, runs)| runs.len() >= FEWEST);
    let seen: Vec<_> = seen.map(|(levels, _)| (levels, tuned_path.figures(levels))).collect();
    let is_beaten = |own: &Figures| seen.iter().any(|(_, other)| other.beats(own));
    let mut best: Vec<_> = seen.iter().filter(|(_, own)| !is_beaten(own)).collect();
    best.sort_by(|(_, one), (_, other)| one.mbit_per_s.unwrap_or(0.0).total_cmp(&other.mbit_per_s.unwrap_or(0.0)));
    let changes = |levels: &[usize]| levels.iter().copied().enumerate().filter(|(_, level)| *level > 0).collect();
    best.into_iter().map(|(levels, _)| changes(levels)).collect()
}

fn lines(interface: &str, best: &[(&Setting, &str)]) -> Vec<String> {
    let lines: Vec<_> = best.iter().map(|(setting, value)| setting.lines(interface, value)).collect();
    let of =
        |kind| lines.iter().filter(move |(own, _)| *own == kind).map(|(_, line)| line.as_str()).collect::<Vec<_>>();
    let kinds = [
        (Kind::Link, "In a .link file of systemd that matches the interface, under [Link]: "),
        (Kind::Sysctl, "In a file of /etc/sysctl.d: "),
        (Kind::Command, "At boot: "),
    ];
    let said = kinds.into_iter().map(|(kind, where_to)| (where_to, of(kind).join("; ")));
    let shared = best.iter().filter(|(setting, _)| setting.is_shared() || setting.is_of_machine());
    let shared: Vec<_> = shared.map(|(setting, _)| setting.name).collect();
    let caveat = (!shared.is_empty()).then(|| {
        let names = shared.join(", ");
        format!("Of the whole machine: {names}. All its connections have that, and only this path was measured.")
    });
    said.filter(|(_, lines)| !lines.is_empty())
        .map(|(where_to, lines)| where_to.to_owned() + &lines)
        .chain(caveat)
        .collect()
}

pub(super) fn would_try(tuned: &[Tuned]) -> Outcome {
    let mut outcome = Outcome::default();
    let row = |tuned: &Tuned| {
        let words = format!("{} {}", tuned.setting.name, tuned.others.join(" | "));
        Row::new("net-tune", &words).with(column::OP, "would try").with(column::BASELINE, tuned.start[0].as_str())
    };
    outcome.add_rows(tuned.iter().map(row));
    outcome.note("Nothing was changed, and nothing measured: --try tries these, and puts all back afterwards.");
    outcome
}

pub(super) fn best_of_all(tuned_path: &TunedPath, (best, gain): &(Vec<Change>, Estimate)) -> Row {
    let words = words(tuned_path, best);
    with_ratio(Row::new("net-tune", "recommended"), gain)
        .with(column::OP, "against the best of all")
        .with(column::BASELINE, words)
        .with(column::AT_LEAST, MIN_RATIO)
}

pub(super) fn of_datagrams(tuned_path: &TunedPath, changes: &[Change], gain: &Estimate) -> Row {
    let row = Row::new("net-tune", &words(tuned_path, changes));
    with_ratio(row, gain)
        .with(column::OP, "UDP instead of TCP")
        .with(column::SIZE, DATAGRAM)
        .with(column::BASELINE, "TCP with the same settings")
}

fn row(tuned_path: &TunedPath, kind: &str, effect: &Effect) -> Row {
    compared(tuned_path, kind, (&effect.changes, &effect.base), &effect.gain)
}

fn taken_back(tuned_path: &TunedPath, effect: &Effect) -> Row {
    row(tuned_path, "taken back", effect).with(column::BASELINE, "recommended")
}

fn compared(tuned_path: &TunedPath, kind: &str, (changes, base): (&[Change], &[Change]), gain: &Estimate) -> Row {
    with_ratio(Row::new("net-tune", &words(tuned_path, changes)), gain)
        .with(column::OP, kind)
        .with(column::BASELINE, words(tuned_path, base))
}

fn with_ratio(row: Row, gain: &Estimate) -> Row {
    // With fewer pairs the interval is meaningless.
    let known = Some(gain).filter(|gain| gain.pairs >= FEWEST);
    let row = row
        .with(column::RATIO, gain.mean.exp())
        .with(column::RATIO_BETTER, "more")
        .with(column::RATIO_LOW, known.map(|gain| gain.low.exp()))
        .with(column::RATIO_HIGH, known.map(|gain| gain.high.exp()))
        .with(column::REPEATS, gain.pairs);
    doubted(row, FEWEST as f64)
}

fn with_figures(row: Row, tuned_path: &TunedPath, changes: &[Change]) -> Row {
    let figures = tuned_path.figures(&point(tuned_path.tuned.len(), changes));
    row.with(column::MBIT_PER_S, figures.mbit_per_s)
        .with(column::TOTAL_P50, figures.latency_us)
        .with(columns::CPU_PER_BYTE, figures.cpu_ns_per_byte)
}

#[cfg(test)]
mod tests {
    use super::super::setting::by_name;
    use super::*;

    #[test]
    fn a_gain_that_a_row_shows_is_named_where_none_is_confirmed() {
        let effect = |gain: f64| Effect {
            changes: vec![(0, 1)],
            base: Vec::new(),
            gain: Estimate::of(&[gain.ln(), gain.ln()], 0.05),
        };
        let said = nothing(40, &[effect(0.5), effect(1.85), effect(1.1)], |_| "gro on".to_owned());
        assert!(said.contains("of gro on, is 1.85 x in 2 comparisons") && !said.contains("nothing"), "{said}");
        assert!(nothing(40, &[effect(0.5)], |_| String::new()).contains("nothing was found that helps"));
    }

    #[test]
    fn few_comparisons_are_no_plain_row() {
        let doubt = |pairs: usize| with_ratio(Row::default(), &Estimate::of(&vec![0.7; pairs], 0.05));
        let said = [1, 3, 4].map(|pairs| column::DOUBTS.cell(&doubt(pairs)));
        assert_eq!(said, [Some("few runs".to_owned()), Some("few runs".to_owned()), None]);
    }

    #[test]
    fn advice_for_the_whole_machine_says_so() {
        let advice = |name, value| lines("eth0", &[(by_name(name).unwrap(), value)]);
        for (name, value) in [("rmem", "1 2 3"), ("congestion-control", "bbr"), ("rfs", "1 2"), ("interrupts", "1")] {
            let said = advice(name, value);
            assert!(said.len() == 2 && said[1].contains(&format!("Of the whole machine: {name}.")), "{said:?}");
        }
        assert_eq!(advice("mtu", "9000").len(), 1);
    }
}
