//! Finds settings that help with a bounded number of runs. It receives the cost of a run and measures nothing itself.
//!
//! First, each alternative value of each setting is compared with the original settings. Then combinations are tried:
//! of the values that helped and, added to the best of these, pairs and random halves of all values, because two may
//! help only together. The better half of many candidates gets more runs, repeatedly (sequential halving: Karnin,
//! Koren, Somekh, "Almost optimal exploration in multi-armed bandits", 2013). New runs confirm the recommendation: each
//! change is reverted alone, and stays only if that is worse beyond the noise.
//!
//! Runs alternate with runs of their baseline, so that disturbances of the machine affect both.

use super::estimate::Estimate;
use sidecore_sim::engine::Random;

/// A level of each setting; 0: the original value.
pub(super) type Point = Vec<usize>;
/// Index of a setting, and a level other than 0.
pub(super) type Change = (usize, usize);

/// Runs reserved for the best single change, if the others did not suffice for combinations.
const LAST_RUNS: usize = 40;
/// With fewer runs, each single candidate has one round at first instead of two.
const FEW: usize = 300;
/// Candidates that share the runs of the baseline before and after them.
const BLOCK: usize = 3;
const MAX_TOGETHER: usize = 6;
const HALVES: usize = 32;
/// Changes that lose more than this alone are left out of the halves, a logarithm.
const HARM: f64 = 0.1;
/// Error of the claim that the best of many candidates helps; its parts are confirmed later.
const DOUBT: f64 = 0.2;
/// Error of a likely loss.
const LIKELY: f64 = 0.5;
/// Many changes are first reverted in this number of groups.
const PARTS: usize = 3;
/// Gains below this are ignored, a logarithm: 1 %.
const WORTHLESS: f64 = 0.01;
/// A claim is tested after these numbers of rounds; each test takes its share of the error.
const LOOKS: [usize; 4] = [4, 8, 16, 32];
const ROUNDS_OF_PAIRS: usize = 6;
const ROUNDS_OF_BEST: usize = 24;
const MAX_PAIRS: usize = 3;

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) runs: usize,
    /// Probability of a recommendation without a real gain.
    pub(super) error: f64,
    pub(super) seed: u64,
}

/// Gain of changes together against the original settings; a logarithm, more is better.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Effect {
    pub(super) changes: Vec<Change>,
    pub(super) gain: Estimate,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) alone: Vec<Effect>,
    /// Gain of two changes beyond the sum of their gains.
    pub(super) beyond: Vec<Effect>,
    pub(super) best: Vec<Change>,
    pub(super) gain: Option<Estimate>,
    /// Loss by reverting each recommended change, as a negative gain.
    pub(super) taken_back: Vec<Effect>,
    pub(super) runs: usize,
}

/// A candidate, and its gains over its baseline, round by round.
#[derive(Clone, Debug)]
struct Arm {
    changes: Vec<Change>,
    gains: Vec<f64>,
}

#[derive(Debug)]
enum End<E> {
    Spent,
    Failed(E),
}

type Run<'r, E> = dyn FnMut(&[usize]) -> Result<f64, E> + 'r;

struct Search<'r, E> {
    settings: usize,
    limits: Limits,
    random: Random,
    run: &'r mut Run<'r, E>,
    found: Found,
}

/// `levels` has the number of alternative values of each setting; `run` sets a point and returns its cost, a logarithm.
/// Returns the result, and the error that ended the search early.
pub(super) fn search<'r, E>(levels: &[usize], limits: Limits, run: &'r mut Run<'r, E>) -> (Found, Option<E>) {
    let random = Random::new(limits.seed);
    let most = Limits { runs: limits.runs - LAST_RUNS.min(limits.runs / 2), ..limits };
    let mut search = Search { settings: levels.len(), limits: most, random, run, found: Found::default() };
    let mut ended = search.all(levels);
    if matches!(ended, Err(End::Spent)) && search.found.best.is_empty() {
        search.limits = limits;
        ended = search.best_alone();
    }
    match ended {
        Ok(()) | Err(End::Spent) => (search.found, None),
        Err(End::Failed(error)) => (search.found, Some(error)),
    }
}

/// Tries all points. Returns the best one, and the gain of `found` against it; 0: equally good.
pub(super) fn exhaust<'r, E>(
    levels: &[usize],
    found: &[Change],
    limits: Limits,
    run: &'r mut Run<'r, E>,
) -> Result<(Vec<Change>, Estimate), E> {
    let random = Random::new(limits.seed);
    let mut search = Search { settings: levels.len(), limits, random, run, found: Found::default() };
    let mut points = vec![Vec::new()];
    for (setting, others) in levels.iter().enumerate() {
        let with = |level: usize| (level > 0).then_some((setting, level));
        let more = points.iter().flat_map(|changes: &Vec<Change>| {
            (0..=*others).map(move |level| changes.iter().copied().chain(with(level)).collect())
        });
        points = more.collect();
    }
    let mut arms: Vec<_> = points.into_iter().map(Arm::of).collect();
    let mut both = |search: &mut Search<'r, E>| {
        search.halve(found, &mut arms, 4, 2)?;
        // New runs, because the best of many looks better than it is.
        let best = best_of(&arms).map(|arm| arm.changes.clone()).unwrap_or_default();
        let mut own = [Arm::of(found.to_vec())];
        search.rounds_until(&best, &mut own, ROUNDS_OF_BEST)?;
        Ok((best, own[0].gain(limits.error)))
    };
    match both(&mut search) {
        Ok(found) => Ok(found),
        Err(End::Failed(error)) => Err(error),
        // Unreachable: the number of runs is unlimited here.
        Err(End::Spent) => Ok((Vec::new(), Estimate::of(&[], limits.error))),
    }
}

impl<E> Search<'_, E> {
    fn all(&mut self, levels: &[usize]) -> Result<(), End<E>> {
        let alone =
            levels.iter().enumerate().flat_map(|(setting, levels)| (1..=*levels).map(move |level| (setting, level)));
        let mut arms: Vec<_> = alone.map(|change| Arm::of(vec![change])).collect();
        let ended = self.halve(&[], &mut arms, 4, if self.limits.runs < FEW { 1 } else { 2 });
        let error = self.limits.error / arms.len().max(1) as f64;
        self.found.alone = arms.iter().map(|arm| arm.effect(error)).collect();
        ended?;
        let together = self.together()?;
        let best = self.more(together)?;
        self.show(best)
    }

    fn together(&mut self) -> Result<Vec<Change>, End<E>> {
        let mut promising: Vec<_> = self.found.alone.iter().filter(|effect| effect.gain.mean > WORTHLESS).collect();
        promising.sort_by(|one, other| other.gain.mean.total_cmp(&one.gain.mean));
        let mut changes: Vec<Change> = Vec::new();
        let mut arms = Vec::new();
        for effect in promising {
            let change = effect.changes[0];
            if changes.len() < MAX_TOGETHER && changes.iter().all(|(setting, _)| *setting != change.0) {
                changes.push(change);
                arms.push(Arm::of(changes.clone()));
            }
        }
        self.halve(&[], &mut arms, 2, 1)?;
        Ok(best_of(&arms).map(|arm| arm.changes.clone()).unwrap_or_default())
    }

    /// Adds changes that help on top of `base`: one, two, or a random half of all.
    fn more(&mut self, base: Vec<Change>) -> Result<Vec<Change>, End<E>> {
        let mut free: Vec<_> = self.found.alone.iter().filter(|effect| !base.contains(&effect.changes[0])).collect();
        free.sort_by(|one, other| other.gain.mean.total_cmp(&one.gain.mean));
        let harmless: Vec<_> =
            free.iter().filter(|effect| effect.gain.mean > -HARM).map(|effect| effect.changes[0]).collect();
        let free: Vec<Change> = free.into_iter().map(|effect| effect.changes[0]).collect();
        let mut arms = self.halves(&base, &harmless);
        // Without a base, each was tried alone before.
        let again = free.iter().filter(|_| !base.is_empty());
        arms.extend(again.map(|change| Arm::of(with(&base, &[*change]))));
        // Pairs are ordered by the rank of their changes.
        let sums = (1..2 * free.len()).flat_map(|sum| (0..sum).map(move |at| (at, sum - at)));
        for (at, other) in sums.filter(|(at, other)| at < other && *other < free.len()) {
            if free[at].0 != free[other].0 {
                arms.push(Arm::of(with(&base, &[free[at], free[other]])));
            }
        }
        // Halving takes twice the runs of its first round; a third of them belong to the baseline.
        let room = self.left().saturating_sub(self.reserve()) * 3 / 8;
        arms.truncate(room);
        self.halve(&base, &mut arms, 4, 1)?;
        let Some(best) = best_of(&arms).filter(|arm| arm.mean() > WORTHLESS) else { return Ok(base) };
        // The best of many looks better than it is: new runs test it.
        let mut anew = [Arm::of(best.changes.clone())];
        self.rounds_until(&base, &mut anew, LOOKS[0])?;
        let [anew] = anew;
        Ok(if anew.gain(DOUBT).helps() { anew.changes } else { base })
    }

    /// Random halves of the changes that are harmless alone. Two changes that help only together are in some of the
    /// halves; trying all pairs would take too long.
    fn halves(&mut self, base: &[Change], harmless: &[Change]) -> Vec<Arm> {
        let mut halves = Vec::new();
        for _ in 0..if harmless.len() > 2 { HALVES } else { 0 } {
            let mut half: Vec<Change> = Vec::new();
            let mut left = harmless.to_vec();
            while half.len() < harmless.len().div_ceil(2) && !left.is_empty() {
                let change = left.swap_remove(self.random.below(left.len() as u64) as usize);
                left.retain(|(setting, _)| *setting != change.0);
                half.push(change);
            }
            halves.push(Arm::of(with(base, &half)));
        }
        halves
    }

    /// Reverts changes in groups, then singly, and drops those whose revert causes no loss.
    fn show(&mut self, mut best: Vec<Change>) -> Result<(), End<E>> {
        let mut parts = PARTS;
        loop {
            let size = best.len().div_ceil(parts).max(1);
            let groups: Vec<Vec<Change>> = best.chunks(size).map(<[Change]>::to_vec).collect();
            let mut arms: Vec<_> = groups.iter().map(|group| Arm::of(without(&best, group))).collect();
            let gone = self.superfluous(&best, &groups, &mut arms)?;
            if !gone.is_empty() {
                best = without(&best, &gone);
            } else if size > 1 {
                parts = best.len();
            } else {
                return self.against_start(&best, &arms);
            }
        }
    }

    fn superfluous(
        &mut self,
        best: &[Change],
        groups: &[Vec<Change>],
        arms: &mut [Arm],
    ) -> Result<Vec<Change>, End<E>> {
        let claim = self.claim(arms.len());
        for (look, error) in LOOKS.into_iter().zip([LIKELY, LIKELY, DOUBT, claim]) {
            self.rounds_until(best, arms, look)?;
            let idle: Vec<_> = (0..arms.len()).filter(|at| !arms[*at].gain(error).harms()).collect();
            let all = || idle.iter().flat_map(|at| &groups[*at]).copied().collect::<Vec<_>>();
            if idle.len() > 1 && self.are_idle(best, &all())? {
                return Ok(all());
            }
            let least = idle.into_iter().max_by(|one, other| arms[*one].mean().total_cmp(&arms[*other].mean()));
            if let Some(least) = least {
                return Ok(groups[least].clone());
            }
            // The parts of a necessary group are tested later.
            if groups.iter().any(|group| group.len() > 1) || arms.iter().all(|arm| arm.gain(claim).harms()) {
                break;
            }
        }
        Ok(Vec::new())
    }

    /// Together, because one may replace another.
    fn are_idle(&mut self, best: &[Change], these: &[Change]) -> Result<bool, End<E>> {
        let mut arms = [Arm::of(without(best, these))];
        self.rounds_until(best, &mut arms, LOOKS[0])?;
        Ok(!arms[0].gain(LIKELY).harms())
    }

    /// For too few runs for combinations: tests by new runs whether the best single change helps.
    fn best_alone(&mut self) -> Result<(), End<E>> {
        let known = self.found.alone.iter().filter(|effect| effect.gain.pairs > 0 && effect.gain.mean > WORTHLESS);
        let best = known.max_by(|one, other| one.gain.mean.total_cmp(&other.gain.mean));
        let Some(changes) = best.map(|effect| effect.changes.clone()) else { return Ok(()) };
        let mut own = [Arm::of(changes)];
        // The other half of the error belongs to the earlier trials.
        let error = self.claim(2);
        for look in LOOKS {
            self.rounds_until(&[], &mut own, look)?;
            if own[0].gain(error).helps() {
                self.found.gain = Some(own[0].gain(error));
                self.found.best.clone_from(&own[0].changes);
                break;
            }
        }
        Ok(())
    }

    /// Compares the remaining changes with the original settings, and recommends them if they are better. `arms` have
    /// each change reverted.
    fn against_start(&mut self, best: &[Change], arms: &[Arm]) -> Result<(), End<E>> {
        if best.is_empty() {
            return Ok(());
        }
        let mut own = [Arm::of(best.to_vec())];
        let error = self.claim(1);
        for look in LOOKS {
            self.rounds_until(&[], &mut own, look)?;
            if own[0].gain(error).helps() {
                break;
            }
        }
        let gain = own[0].gain(error);
        if !gain.helps() {
            return Ok(());
        }
        let error = self.claim(arms.len());
        let back = best.iter().zip(arms).map(|(change, arm)| Effect { changes: vec![*change], gain: arm.gain(error) });
        self.found.taken_back = back.collect();
        self.found.gain = Some(gain);
        self.found.best = best.to_vec();
        self.more_than_sums(best)
    }

    fn more_than_sums(&mut self, best: &[Change]) -> Result<(), End<E>> {
        let pairs = (0..best.len()).flat_map(|at| (at + 1..best.len()).map(move |other| [best[at], best[other]]));
        for pair in pairs.take(MAX_PAIRS) {
            let mut arms = [Arm::of(pair.to_vec()), Arm::of(vec![pair[0]]), Arm::of(vec![pair[1]])];
            self.rounds_until(&[], &mut arms, ROUNDS_OF_PAIRS)?;
            let rounds = 0..ROUNDS_OF_PAIRS;
            let beyond: Vec<_> = rounds.map(|at| arms[0].gains[at] - arms[1].gains[at] - arms[2].gains[at]).collect();
            let gain = Estimate::of(&beyond, self.limits.error / MAX_PAIRS as f64);
            self.found.beyond.push(Effect { changes: pair.to_vec(), gain });
        }
        Ok(())
    }

    fn claim(&self, claims: usize) -> f64 {
        self.limits.error / (claims.max(1) * LOOKS.len()) as f64
    }

    /// Runs `rounds` of all arms, then of the better half, repeatedly, until `last` are left. Those get twice the
    /// rounds.
    fn halve(&mut self, base: &[Change], arms: &mut [Arm], last: usize, rounds: usize) -> Result<(), End<E>> {
        let mut alive = arms.len();
        loop {
            // The first `alive` arms are still candidates.
            arms[..alive].sort_by(|one, other| other.mean().total_cmp(&one.mean()));
            let is_last = alive <= last;
            for _ in 0..rounds * if is_last { 2 } else { 1 } {
                self.round(base, &mut arms[..alive])?;
            }
            if is_last {
                return Ok(());
            }
            arms[..alive].sort_by(|one, other| other.mean().total_cmp(&one.mean()));
            alive = alive.div_ceil(2).max(last);
        }
    }

    fn rounds_until(&mut self, base: &[Change], arms: &mut [Arm], rounds: usize) -> Result<(), End<E>> {
        while arms.iter().any(|arm| arm.gains.len() < rounds) {
            self.round(base, arms)?;
        }
        Ok(())
    }

    fn round(&mut self, base: &[Change], arms: &mut [Arm]) -> Result<(), End<E>> {
        let mut order: Vec<_> = (0..arms.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, self.random.below(at as u64 + 1) as usize);
        }
        let mut before = if order.is_empty() { 0.0 } else { self.cost(base)? };
        for block in order.chunks(BLOCK) {
            let costs = block.iter().map(|at| self.cost(&arms[*at].changes)).collect::<Result<Vec<_>, _>>()?;
            let after = self.cost(base)?;
            for (at, cost) in block.iter().zip(costs) {
                arms[*at].gains.push(f64::midpoint(before, after) - cost);
            }
            before = after;
        }
        Ok(())
    }

    fn cost(&mut self, changes: &[Change]) -> Result<f64, End<E>> {
        if self.left() == 0 {
            return Err(End::Spent);
        }
        self.found.runs += 1;
        (self.run)(&point(self.settings, changes)).map_err(End::Failed)
    }

    fn left(&self) -> usize {
        self.limits.runs.saturating_sub(self.found.runs)
    }

    fn reserve(&self) -> usize {
        self.limits.runs / 2
    }
}

impl Arm {
    fn of(changes: Vec<Change>) -> Self {
        Self { changes, gains: Vec::new() }
    }

    fn mean(&self) -> f64 {
        self.gain(1.0).mean
    }

    fn gain(&self, error: f64) -> Estimate {
        Estimate::of(&self.gains, error)
    }

    fn effect(&self, error: f64) -> Effect {
        Effect { changes: self.changes.clone(), gain: self.gain(error) }
    }
}

fn best_of(arms: &[Arm]) -> Option<&Arm> {
    let most = arms.iter().map(|arm| arm.gains.len()).max()?;
    let known = arms.iter().filter(|arm| arm.gains.len() == most);
    known.max_by(|one, other| one.mean().total_cmp(&other.mean()))
}

/// Changes of `more` replace those of the same setting.
fn with(base: &[Change], more: &[Change]) -> Vec<Change> {
    let kept = base.iter().filter(|(setting, _)| more.iter().all(|(other, _)| other != setting));
    kept.chain(more).copied().collect()
}

fn without(base: &[Change], gone: &[Change]) -> Vec<Change> {
    base.iter().copied().filter(|change| !gone.contains(change)).collect()
}

pub(super) fn point(settings: usize, changes: &[Change]) -> Point {
    let mut point = vec![0; settings];
    for (setting, level) in changes {
        point[*setting] = *level;
    }
    point
}

#[cfg(test)]
mod tests;
