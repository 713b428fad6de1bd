//! Which settings help, found by runs whose number is bounded. It is told what a run cost, and measures nothing itself.
//!
//! First each other value of each setting is compared with how things are. Then combinations are: those of what helped,
//! and on top of the best of these pairs and random halves of all, for two may help where neither does alone. Of many candidates the
//! better half goes on and gets more runs, again and again (sequential halving: Karnin, Koren, Somekh, "Almost optimal
//! exploration in multi-armed bandits", 2013). What it recommends in the end is shown with new runs: each change is
//! taken back alone, and stays only if that is worse beyond the noise.
//!
//! Runs are interleaved with runs of what they are compared with, so that what befalls the machine befalls both.

use super::estimate::Estimate;
use sidecore_sim::engine::Random;

/// A level of each setting; 0 is as it was found.
pub(super) type Point = Vec<usize>;
/// A setting, by its number, at a level other than 0.
pub(super) type Change = (usize, usize);

/// Runs that are left for the best single change, where the others did not suffice for more.
const LAST_RUNS: usize = 40;
/// With fewer runs each candidate alone has half as many at first.
const FEW: usize = 300;
/// Candidates that share the runs before and after them of what they are compared with.
const BLOCK: usize = 3;
/// Most changes that are put together because each helped alone.
const MOST_TOGETHER: usize = 6;
/// How many random halves of all changes are tried.
const HALVES: usize = 32;
/// What loses more than this alone is in none of them, as a logarithm.
const HARM: f64 = 0.1;
/// With this error the best of many goes on; what it is made of is shown later.
const DOUBT: f64 = 0.2;
/// With this error a loss is likely.
const LIKELY: f64 = 0.5;
/// Many changes are first taken back in so many parts.
const PARTS: usize = 3;
/// A gain below this is not worth a change, as a logarithm: 1 %.
const WORTHLESS: f64 = 0.01;
/// After so many rounds a claim is looked at; each look takes its part of the error.
const LOOKS: [usize; 4] = [4, 8, 16, 32];
/// Rounds that show whether two changes are more than their sum.
const ROUNDS_OF_PAIRS: usize = 6;
/// Rounds that compare what was found with the best of all.
const ROUNDS_OF_BEST: usize = 24;
/// Most pairs for which that is looked at.
const MOST_PAIRS: usize = 3;

/// What it may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Most runs.
    pub(super) runs: usize,
    /// Probability of recommending what does not help.
    pub(super) error: f64,
    pub(super) seed: u64,
}

/// What changes do together, against how things were; logarithms, more is better.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Effect {
    pub(super) changes: Vec<Change>,
    pub(super) gain: Estimate,
}

/// What came out.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// Of each change alone.
    pub(super) alone: Vec<Effect>,
    /// Of two changes: what they do beyond the sum of what each does.
    pub(super) beyond: Vec<Effect>,
    /// What is recommended.
    pub(super) best: Vec<Change>,
    /// What that gains.
    pub(super) gain: Option<Estimate>,
    /// What taking back each recommended change loses, as a gain: negative.
    pub(super) taken_back: Vec<Effect>,
    pub(super) runs: usize,
}

/// A candidate, and by how much it was better than what it was compared with, time and again.
#[derive(Clone, Debug)]
struct Arm {
    changes: Vec<Change>,
    gains: Vec<f64>,
}

/// Why it ended: there is no run left, or a run failed.
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

/// Searches. `levels` has the number of other values of each setting; `run` sets a point and returns what it costs, as a
/// logarithm. What was found, and the error that ended it early.
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

/// Tries all points, and compares the best of them with what was found. The best, and what that gains against it: 0 is as
/// good.
///
/// # Errors
/// A run's.
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
        // New runs, for the best of many looks better than it is.
        let best = best_of(&arms).map(|arm| arm.changes.clone()).unwrap_or_default();
        let mut own = [Arm::of(found.to_vec())];
        search.rounds_until(&best, &mut own, ROUNDS_OF_BEST)?;
        Ok((best, own[0].gain(limits.error)))
    };
    match both(&mut search) {
        Ok(found) => Ok(found),
        Err(End::Failed(error)) => Err(error),
        // There is no bound here that could be reached.
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

    /// The best of what helped, put together.
    fn together(&mut self) -> Result<Vec<Change>, End<E>> {
        let mut promising: Vec<_> = self.found.alone.iter().filter(|effect| effect.gain.mean > WORTHLESS).collect();
        promising.sort_by(|one, other| other.gain.mean.total_cmp(&one.gain.mean));
        let mut changes: Vec<Change> = Vec::new();
        let mut arms = Vec::new();
        for effect in promising {
            let change = effect.changes[0];
            if changes.len() < MOST_TOGETHER && changes.iter().all(|(setting, _)| *setting != change.0) {
                changes.push(change);
                arms.push(Arm::of(changes.clone()));
            }
        }
        self.halve(&[], &mut arms, 2, 1)?;
        Ok(best_of(&arms).map(|arm| arm.changes.clone()).unwrap_or_default())
    }

    /// With more changes where they help: one, two, or a random half of all.
    fn more(&mut self, base: Vec<Change>) -> Result<Vec<Change>, End<E>> {
        let mut free: Vec<_> = self.found.alone.iter().filter(|effect| !base.contains(&effect.changes[0])).collect();
        free.sort_by(|one, other| other.gain.mean.total_cmp(&one.gain.mean));
        let harmless: Vec<_> =
            free.iter().filter(|effect| effect.gain.mean > -HARM).map(|effect| effect.changes[0]).collect();
        let free: Vec<Change> = free.into_iter().map(|effect| effect.changes[0]).collect();
        let mut arms = self.halves(&base, &harmless);
        // On top of nothing each was tried alone before.
        let again = free.iter().filter(|_| !base.is_empty());
        arms.extend(again.map(|change| Arm::of(with(&base, &[*change]))));
        // The more promising a pair's changes are, the earlier it comes.
        let sums = (1..2 * free.len()).flat_map(|sum| (0..sum).map(move |at| (at, sum - at)));
        for (at, other) in sums.filter(|(at, other)| at < other && *other < free.len()) {
            if free[at].0 != free[other].0 {
                arms.push(Arm::of(with(&base, &[free[at], free[other]])));
            }
        }
        // Halving takes twice what its first round does; a third of it is of what candidates are compared with.
        let room = self.left().saturating_sub(self.reserve()) * 3 / 8;
        arms.truncate(room);
        self.halve(&base, &mut arms, 4, 1)?;
        let Some(best) = best_of(&arms).filter(|arm| arm.mean() > WORTHLESS) else { return Ok(base) };
        // The best of many looks better than it is: new runs say whether it is.
        let mut anew = [Arm::of(best.changes.clone())];
        self.rounds_until(&base, &mut anew, LOOKS[0])?;
        let [anew] = anew;
        Ok(if anew.gain(DOUBT).helps() { anew.changes } else { base })
    }

    /// Random halves of what does no harm alone: two changes that help only together are in some of them, whichever they
    /// are, where to try all pairs takes too long.
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

    /// Takes changes back, some at a time and then each alone. What is not missed goes.
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

    /// What is not missed: nothing if each group is missed beyond the noise.
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
            // Parts of a group that is missed are looked at later.
            if groups.iter().any(|group| group.len() > 1) || arms.iter().all(|arm| arm.gain(claim).harms()) {
                break;
            }
        }
        Ok(Vec::new())
    }

    /// Whether these are not missed when all of them are gone: one of them may be there for the other.
    fn are_idle(&mut self, best: &[Change], these: &[Change]) -> Result<bool, End<E>> {
        let mut arms = [Arm::of(without(best, these))];
        self.rounds_until(best, &mut arms, LOOKS[0])?;
        Ok(!arms[0].gain(LIKELY).harms())
    }

    /// Where there were too few runs for combinations: whether the best single change helps, by new runs.
    fn best_alone(&mut self) -> Result<(), End<E>> {
        let known = self.found.alone.iter().filter(|effect| effect.gain.pairs > 0 && effect.gain.mean > WORTHLESS);
        let best = known.max_by(|one, other| one.gain.mean.total_cmp(&other.gain.mean));
        let Some(changes) = best.map(|effect| effect.changes.clone()) else { return Ok(()) };
        let mut own = [Arm::of(changes)];
        // Half of the error is of what was tried before.
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

    /// Compares what is left with how things were, and keeps it if it is better. `arms` have it without each of its changes.
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

    /// Of each two changes: whether they do more together than the sum of what each does.
    fn more_than_sums(&mut self, best: &[Change]) -> Result<(), End<E>> {
        let pairs = (0..best.len()).flat_map(|at| (at + 1..best.len()).map(move |other| [best[at], best[other]]));
        for pair in pairs.take(MOST_PAIRS) {
            let mut arms = [Arm::of(pair.to_vec()), Arm::of(vec![pair[0]]), Arm::of(vec![pair[1]])];
            self.rounds_until(&[], &mut arms, ROUNDS_OF_PAIRS)?;
            let rounds = 0..ROUNDS_OF_PAIRS;
            let beyond: Vec<_> = rounds.map(|at| arms[0].gains[at] - arms[1].gains[at] - arms[2].gains[at]).collect();
            let gain = Estimate::of(&beyond, self.limits.error / MOST_PAIRS as f64);
            self.found.beyond.push(Effect { changes: pair.to_vec(), gain });
        }
        Ok(())
    }

    /// The part of the error that each of so many claims has at each look.
    fn claim(&self, claims: usize) -> f64 {
        self.limits.error / (claims.max(1) * LOOKS.len()) as f64
    }

    /// So many rounds of all, then of the better half, and so on, until `last` are left, which get twice as many more.
    fn halve(&mut self, base: &[Change], arms: &mut [Arm], last: usize, rounds: usize) -> Result<(), End<E>> {
        let mut alive = arms.len();
        loop {
            // Arms before `alive` are those that are left.
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

    /// One run of each, in an order of its own, between runs of the base.
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

    /// Runs that what comes after the pairs may need.
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

/// Among those that have as many runs as any.
fn best_of(arms: &[Arm]) -> Option<&Arm> {
    let most = arms.iter().map(|arm| arm.gains.len()).max()?;
    let known = arms.iter().filter(|arm| arm.gains.len() == most);
    known.max_by(|one, other| one.mean().total_cmp(&other.mean()))
}

/// With these at their new levels.
fn with(base: &[Change], more: &[Change]) -> Vec<Change> {
    let kept = base.iter().filter(|(setting, _)| more.iter().all(|(other, _)| other != setting));
    kept.chain(more).copied().collect()
}

fn without(base: &[Change], gone: &[Change]) -> Vec<Change> {
    base.iter().copied().filter(|change| !gone.contains(change)).collect()
}

/// The changes as levels of so many settings.
pub(super) fn point(settings: usize, changes: &[Change]) -> Point {
    let mut point = vec![0; settings];
    for (setting, level) in changes {
        point[*setting] = *level;
    }
    point
}

#[cfg(test)]
mod tests;
