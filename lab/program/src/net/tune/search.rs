//! Finds settings that help with a bounded number of runs. It receives the cost of a run and measures nothing itself.
//!
//! Values are compared with the best so far: first those of settings that the diagnosis names, then the others. Runs of
//! a value and of the best so far alternate, so that disturbances of the machine affect both, until the interval of the
//! gain parts from 0, or the value looks idle. The value that helps most stays (greedy). Then come pairs of settings that
//! act only together, and once more what was compared before the last value stayed. At last new runs confirm the
//! recommendation: each change is reverted alone, and stays only if that is worse beyond the noise.

use super::estimate::Estimate;
use sidecore_sim::engine::Random;

/// A level of each setting; 0: the original value.
pub(super) type Point = Vec<usize>;
/// Index of a setting, and a level other than 0.
pub(super) type Change = (usize, usize);

/// Part of the runs that confirm what was found, and the least of them, if that is no more than half.
const CONFIRMING: usize = 4;
const LEAST_CONFIRMING: usize = 30;
/// Runs that compare all that was found with the original settings.
const KEPT: usize = 24;
/// Candidates that share the runs of the baseline before and after them.
const BLOCK: usize = 3;
/// Error of the claim that one of many candidates helps; it is confirmed later.
const DOUBT: f64 = 0.01;
/// Error of a likely gain or loss.
const LIKELY: f64 = 0.5;
/// Gains below this are ignored, a logarithm: 1 %.
const WORTHLESS: f64 = 0.01;
/// A claim is tested after these numbers of rounds; each test takes its share of the error.
const LOOKS: [usize; 4] = [4, 8, 16, 32];
/// Rounds after which all candidates are judged, with few and with more runs, and then promising ones.
const SCREEN: [usize; 2] = [2, 3];
const FEW: usize = 300;
const RACE: [usize; 3] = [6, 12, 24];
/// Candidates for the best of all combinations that get most runs.
const LAST: usize = 4;
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

/// What to try.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// The number of alternative values of each setting.
    pub(super) levels: Vec<usize>,
    /// Settings to begin with.
    pub(super) first: Vec<usize>,
    /// Settings that may help only together.
    pub(super) partners: Vec<[usize; 2]>,
}

/// Gain of changes against a baseline; a logarithm, more is better.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Effect {
    pub(super) changes: Vec<Change>,
    /// Changes of the baseline, which `changes` replace or extend.
    pub(super) base: Vec<Change>,
    pub(super) gain: Estimate,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) tried: Vec<Effect>,
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

/// `run` sets a point and returns its cost, a logarithm. Returns the result, and the error that ended the search early.
pub(super) fn search<'r, E>(plan: &Plan, limits: Limits, run: &'r mut Run<'r, E>) -> (Found, Option<E>) {
    let mut search = Search::new(plan.levels.len(), limits, run);
    search.limits.runs -= (limits.runs / CONFIRMING).max(LEAST_CONFIRMING.min(limits.runs / 2));
    let mut best = Vec::new();
    let mut ended = search.all(plan, &mut best);
    if !matches!(ended, Err(End::Failed(_))) {
        search.limits = limits;
        ended = search.confirm(best);
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
    let mut search = Search::new(levels.len(), limits, run);
    let mut points = vec![Vec::new()];
    for (setting, others) in levels.iter().enumerate() {
        let with = |level: usize| (level > 0).then_some((setting, level));
        let more = points.iter().flat_map(|changes: &Vec<Change>| {
            (0..=*others).map(move |level| changes.iter().copied().chain(with(level)).collect())
        });
        points = more.collect();
    }
    let mut arms: Vec<_> = points.into_iter().map(Arm::of).collect();
    let mut both = || {
        // The better half gets more runs, repeatedly (Karnin, Koren, Somekh, "Almost optimal exploration in multi-armed
        // bandits", 2013).
        for rounds in (2..).step_by(2) {
            search.rounds_until(found, &mut arms, rounds)?;
            if arms.len() <= LAST {
                break;
            }
            arms.sort_by(|one, other| other.mean().total_cmp(&one.mean()));
            arms.truncate(arms.len().div_ceil(2).max(LAST));
        }
        // New runs, because the best of many looks better than it is.
        let best = best_of(&arms).map(|arm| arm.changes.clone()).unwrap_or_default();
        let mut own = [Arm::of(found.to_vec())];
        search.rounds_until(&best, &mut own, ROUNDS_OF_BEST)?;
        Ok((best, own[0].gain(limits.error)))
    };
    match both() {
        Ok(found) => Ok(found),
        Err(End::Failed(error)) => Err(error),
        // Unreachable: the number of runs is unlimited here.
        Err(End::Spent) => Ok((Vec::new(), Estimate::of(&[], limits.error))),
    }
}

impl<'r, E> Search<'r, E> {
    fn new(settings: usize, limits: Limits, run: &'r mut Run<'r, E>) -> Self {
        Self { settings, limits, random: Random::new(limits.seed), run, found: Found::default() }
    }

    /// Extends `best` by what helps.
    fn all(&mut self, plan: &Plan, best: &mut Vec<Change>) -> Result<(), End<E>> {
        let alone = |settings: &[usize]| -> Vec<Vec<Change>> {
            let levels = settings.iter().flat_map(|setting| (1..=plan.levels[*setting]).map(|level| (*setting, level)));
            levels.map(|change| vec![change]).collect()
        };
        let both = |[one, other]: &[usize; 2]| {
            let ones = (1..=plan.levels[*one]).map(|level| (*one, level));
            ones.flat_map(|one| (1..=plan.levels[*other]).map(move |level| vec![one, (*other, level)])).collect()
        };
        let rest: Vec<_> = (0..plan.levels.len()).filter(|setting| !plan.first.contains(setting)).collect();
        let screen = [SCREEN[usize::from(self.limits.runs >= FEW)]];
        let first = plan.first.chunks(1).map(|setting| (alone(setting), &RACE[..]));
        let others = rest.chunks(BLOCK).map(alone).chain(plan.partners.iter().map(both));
        let steps: Vec<_> = first.chain(others.map(|step| (step, &screen[..]))).collect();
        // The baseline that each step was compared with.
        let mut compared = vec![None; steps.len()];
        for _ in 0..2 {
            let mut promising = Vec::new();
            for ((step, looks), compared) in steps.iter().zip(&mut compared) {
                if compared.as_ref() != Some(best) {
                    *compared = Some(best.clone());
                    promising.extend(self.race(best, step, looks)?);
                }
            }
            promising.sort_by(|(_, one), (_, other)| other.total_cmp(one));
            for block in promising.chunks(BLOCK) {
                let block: Vec<_> = block.iter().map(|(changes, _)| changes.clone()).collect();
                self.race(best, &block, &RACE)?;
            }
        }
        Ok(())
    }

    /// Adds the best of the candidates to `base`, if it helps beyond doubt. Otherwise returns those that may, with their
    /// gains. Each look has more rounds. A setting that `base` has is not tried again.
    fn race(
        &mut self,
        base: &mut Vec<Change>,
        candidates: &[Vec<Change>],
        looks: &[usize],
    ) -> Result<Vec<(Vec<Change>, f64)>, End<E>> {
        let is_new = |(setting, _): &Change| base.iter().all(|(own, _)| own != setting);
        let new = candidates.iter().filter(|changes| changes.iter().all(is_new));
        let mut arms: Vec<_> = new.map(|changes| Arm::of([base.as_slice(), changes].concat())).collect();
        let mut ended = Ok(());
        let mut best = None;
        for look in looks {
            ended = self.rounds_until(base, &mut arms, *look);
            let idle = arms.extract_if(.., |arm| arm.mean() <= WORTHLESS || !arm.gain(LIKELY).helps());
            self.found.tried.extend(idle.map(|arm| arm.effect(base, self.limits.error)));
            best = best_of(&arms).filter(|best| best.gain(DOUBT).helps()).map(|best| best.changes.clone());
            if ended.is_err() || arms.is_empty() || best.is_some() {
                break;
            }
        }
        self.found.tried.extend(arms.iter().map(|arm| arm.effect(base, self.limits.error)));
        ended?;
        if let Some(best) = best {
            *base = best;
            return Ok(Vec::new());
        }
        Ok(arms.iter().map(|arm| (arm.changes[base.len()..].to_vec(), arm.mean())).collect())
    }

    /// Reverts changes singly, and drops those whose revert causes no loss; where runs end, those without a likely one.
    fn confirm(&mut self, mut best: Vec<Change>) -> Result<(), End<E>> {
        let limits = self.limits;
        loop {
            // One change reverted is how things were, which is compared below.
            let several = best.iter().filter(|_| best.len() > 1);
            let mut arms: Vec<_> = several.map(|change| Arm::of(without(&best, *change))).collect();
            self.limits.runs = limits.runs - KEPT.min(limits.runs / CONFIRMING);
            let superfluous = self.superfluous(&best, &mut arms);
            self.limits = limits;
            match superfluous {
                Ok(Some(at)) => drop(best.remove(at)),
                Ok(None) => return self.against_start(&best, &arms),
                Err(End::Spent) => {
                    let both = best.into_iter().zip(arms).filter(|(_, arm)| arm.gain(LIKELY).harms());
                    let (missed, arms): (Vec<_>, Vec<_>) = both.unzip();
                    return self.against_start(&missed, &arms);
                }
                Err(failed) => return Err(failed),
            }
        }
    }

    /// The one that is missed least, if it is not missed beyond the noise.
    fn superfluous(&mut self, best: &[Change], arms: &mut [Arm]) -> Result<Option<usize>, End<E>> {
        let claim = self.claim(arms.len());
        for (look, error) in LOOKS.into_iter().zip([LIKELY, LIKELY, DOUBT, claim]) {
            self.rounds_until(best, arms, look)?;
            let idle = (0..arms.len()).filter(|at| !arms[*at].gain(error).harms());
            let least = idle.max_by(|one, other| arms[*one].mean().total_cmp(&arms[*other].mean()));
            if least.is_some() || arms.iter().all(|arm| arm.gain(claim).harms()) {
                return Ok(least);
            }
        }
        Ok(None)
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
        let back = best.iter().zip(arms).map(|(change, arm)| Effect {
            changes: vec![*change],
            base: best.to_vec(),
            gain: arm.gain(error),
        });
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
            self.found.beyond.push(Effect { changes: pair.to_vec(), base: Vec::new(), gain });
        }
        Ok(())
    }

    fn claim(&self, claims: usize) -> f64 {
        self.limits.error / (claims.max(1) * LOOKS.len()) as f64
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

    fn effect(&self, base: &[Change], error: f64) -> Effect {
        Effect { changes: self.changes.clone(), base: base.to_vec(), gain: self.gain(error) }
    }
}

fn best_of(arms: &[Arm]) -> Option<&Arm> {
    let most = arms.iter().map(|arm| arm.gains.len()).max()?;
    let known = arms.iter().filter(|arm| arm.gains.len() == most);
    known.max_by(|one, other| one.mean().total_cmp(&other.mean()))
}

fn without(base: &[Change], gone: Change) -> Vec<Change> {
    base.iter().copied().filter(|change| *change != gone).collect()
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
