//! The requests in a record: arrival, work, device and duration of each.

use super::{ReplayError, Step, walk};
use sidecore_core::dispatch::record::{Call, Decision};
use sidecore_core::dispatch::{Capability, Limits, Work};
use sidecore_core::policy::balance::{Balance, Rates};
use sidecore_core::time::Nanos;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::ops::ControlFlow;

/// A completed request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Time of its removal from the lane, ns of the record's clock.
    pub came: Nanos,
    /// Time of receiving its completion in the sidecore, ns.
    pub done: Nanos,
    /// Its work.
    pub work: Work,
    /// Number of its device.
    pub device: usize,
    /// Working time of the device, ns.
    pub took: Nanos,
}

/// The requests in a record.
#[derive(Debug)]
pub struct Traffic {
    /// Completed requests, in order of arrival.
    pub requests: Vec<Request>,
    /// The devices, with their initial rates.
    pub devices: Vec<Capability>,
    /// Rates of each device, learnt over the whole record.
    pub rates: Vec<Rates>,
    /// How devices were chosen, last.
    pub balance: Balance,
    /// Sizes of the service's tables.
    pub limits: Limits,
    /// Number of requests that were refused, lost or unfinished at the end of the record.
    pub left_out: u64,
}

/// Lanes whose requests follow their own completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedLoop {
    /// Number of such lanes.
    pub lanes: usize,
    /// Number of all lanes with requests.
    pub of: usize,
    /// Most requests that one of them has in flight.
    pub in_flight: usize,
}

/// Least requests of a lane for a judgement about its client.
const JUDGED: usize = 200;
/// Least requests of a lane that would meet another one in flight if times of arrival were independent of answers.
const MET: f64 = 20.0;
/// Share of requests that reach the client's limit in flight, at least. Of independent arrivals only few reach the
/// highest number.
const AT_LIMIT: f64 = 0.2;
/// A lane with fewer requests than this multiple of those in flight tells nothing.
const REFILLS: usize = 8;

impl Traffic {
    /// Lanes of clients that wait for answers. `None`: the record shows none.
    pub fn closed_loop(&self) -> Option<ClosedLoop> {
        let mut lanes = BTreeMap::<u32, Vec<(Nanos, Nanos)>>::new();
        for Request { came, done, work, .. } in &self.requests {
            lanes.entry(work.lane.0).or_default().push((*came, *done));
        }
        let closed: Vec<usize> = lanes.values().filter_map(|requests| window(requests)).collect();
        Some(ClosedLoop { lanes: closed.len(), of: lanes.len(), in_flight: closed.into_iter().max()? })
    }
}

/// Most requests in flight of a lane, if its client keeps to that number: many requests reach it, or each further one
/// follows a completion. `requests`: their arrivals, ascending, and completions.
fn window(requests: &[(Nanos, Nanos)]) -> Option<usize> {
    let (mut ends, mut most, mut reached) = (BinaryHeap::new(), 0, 0);
    for (came, done) in requests {
        while ends.peek().is_some_and(|Reverse(end)| end <= came) {
            ends.pop();
        }
        ends.push(Reverse(*done));
        (most, reached) = match ends.len() {
            now if now > most => (now, 1),
            now => (most, reached + u32::from(now == most)),
        };
    }
    let span = requests.last()?.0.saturating_sub(requests.first()?.0).max(1) as f64;
    let busy: f64 = requests.iter().map(|(came, done)| done.saturating_sub(*came) as f64).sum();
    let count = requests.len() as f64;
    let stays = requests.len() >= JUDGED && count * busy / span >= MET && f64::from(reached) >= AT_LIMIT * count;
    (stays || follows(requests, most)).then_some(most)
}

/// Whether each request beyond the first ones arrives sooner after a completion than a request takes, in the median.
fn follows(requests: &[(Nanos, Nanos)], most: usize) -> bool {
    let mut done: Vec<Nanos> = requests.iter().map(|(_, done)| *done).collect();
    done.sort_unstable();
    let median = |mut times: Vec<Nanos>| {
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    };
    let gaps = requests.iter().skip(most).zip(&done).map(|((came, _), done)| came.saturating_sub(*done));
    let times = requests.iter().map(|(came, done)| done.saturating_sub(*came));
    let (Some(gap), Some(time)) = (median(gaps.collect()), median(times.collect())) else { return false };
    requests.len() >= REFILLS * most && gap < time
}

/// Codes in the first word of a placement decision: assigned, done immediately, full, deferred.
const GIVEN: u64 = 1;
const NOW: u64 = 2;
const FULL: u64 = 3;
const KEPT: u64 = 5;

/// Reads the requests of a record. The device of a request is the decision of the same code on the calls, not the
/// record's claim.
///
/// # Errors
/// For bytes that are not a complete record.
pub fn traffic(bytes: &[u8]) -> Result<Traffic, ReplayError> {
    let mut reader = Reader::default();
    let walked = walk(bytes, |step| {
        reader.step(&step);
        ControlFlow::Continue(())
    })?;
    let mut requests = reader.requests;
    let left_out = reader.pending.len() as u64 + reader.lost;
    requests.retain(|request| request.done > 0);
    requests.sort_by_key(|request| request.came);
    let rates = reader.devices.iter().enumerate().map(|(device, known)| learnt(known, device, &requests)).collect();
    let (balance, limits) = (walked.start.balance, walked.start.limits);
    let balance = reader.balance.unwrap_or(balance);
    Ok(Traffic { requests, devices: reader.devices, rates, balance, limits, left_out })
}

fn learnt(device: &Capability, number: usize, requests: &[Request]) -> Rates {
    let mut rates = device.rates.clone();
    for Request { work, took, .. } in requests.iter().filter(|request| request.device == number) {
        rates.observe(work.class, work.size, *took);
    }
    rates
}

#[derive(Default)]
struct Reader {
    requests: Vec<Request>,
    devices: Vec<Capability>,
    balance: Option<Balance>,
    pending: HashMap<(u32, u32), (Nanos, Work)>,
    /// Requests whose completion has no time yet; the next call with a time supplies it.
    untimed: Vec<usize>,
    lost: u64,
}

impl Reader {
    fn step(&mut self, step: &Step<'_>) {
        if let Some(now) = time_of(step.call) {
            for index in self.untimed.drain(..) {
                self.requests[index].done = now.max(self.requests[index].came + 1);
            }
        }
        match step.call {
            Call::Place(now, work) => self.place(*now, *work, step.made),
            Call::Complete(_, took) => self.complete(*took, step.made),
            Call::AddDevice(device) => self.devices.push(device.clone()),
            Call::SetBalance(balance) => self.balance = Some(*balance),
            _ => {}
        }
    }

    fn place(&mut self, now: Nanos, work: Work, decision: Decision) {
        let key = (work.lane.0, work.tag);
        let (kind, device) = (decision[0] & 0xff, (decision[0] >> 8) as u8);
        match kind {
            GIVEN | KEPT | FULL => _ = self.pending.entry(key).or_insert((now, work)),
            NOW => {
                let (came, work) = self.pending.remove(&key).unwrap_or((now, work));
                let took = decision[1].max(1);
                self.untimed.push(self.requests.len());
                self.requests.push(Request { came, done: 0, work, device: device.into(), took });
            }
            _ => self.lost += u64::from(self.pending.remove(&key).is_some()) + 1,
        }
    }

    fn complete(&mut self, took: Option<Nanos>, decision: Decision) {
        if decision[0] == 0 {
            return;
        }
        let (lane, tag, device) = (decision[2] as u32, (decision[0] >> 32) as u32, (decision[0] >> 8) as u8);
        let Some((came, work)) = self.pending.remove(&(lane, tag)) else { return };
        match took {
            Some(took) => {
                self.untimed.push(self.requests.len());
                self.requests.push(Request { came, done: 0, work, device: device.into(), took: took.max(1) });
            }
            None => self.lost += 1,
        }
    }
}

fn time_of(call: &Call) -> Option<Nanos> {
    match call {
        Call::Place(now, _)
        | Call::Announce(now, _)
        | Call::Due(now, _)
        | Call::Reassign(now, _)
        | Call::Reprice(now)
        | Call::Release(now, _)
        | Call::PassOn(now, _) => Some(*now),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Random;

    /// One device that takes 10 us on average, with requests at these times at the earliest.
    fn served(arrivals: impl Fn(usize, &[(Nanos, Nanos)], &mut Random) -> Nanos) -> Vec<(Nanos, Nanos)> {
        let (mut random, mut all) = (Random::new(1), Vec::new());
        for number in 0..2_000 {
            let came = arrivals(number, &all, &mut random);
            let free = all.last().map_or(0, |(_, done)| *done);
            all.push((came, came.max(free) + random.exponential(10_000.0) as Nanos + 1));
        }
        all
    }

    #[test]
    fn a_client_that_waits_for_answers_is_told_from_one_that_does_not() {
        for window_of in [1, 4, 16] {
            let closed = served(|number, all, random| {
                number.checked_sub(window_of).map_or(0, |answered| all[answered].1 + random.below(1_000))
            });
            assert_eq!(window(&closed), Some(window_of));
        }
        for gap in [11_000.0, 20_000.0, 500_000.0] {
            let open =
                served(|_, all, random| all.last().map_or(0, |(came, _)| came + random.exponential(gap) as Nanos));
            assert_eq!(window(&open), None, "a request each {gap} ns");
        }
        assert_eq!((window(&[]), window(&[(0, 5), (6, 9)])), (None, None));
    }
}
