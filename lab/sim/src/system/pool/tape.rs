//! Arrivals of a recorded service: its times, operations and sizes.

use crate::replay::{Request, Traffic};
use sidecore_core::session::Class;
use sidecore_core::time::Nanos;
use std::collections::BTreeSet;

/// A request of the record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arrival {
    /// Time after the first one, ns.
    pub(super) at: Nanos,
    /// By its number in the plan.
    pub(super) operation: usize,
    pub(super) bytes: u32,
}

/// The requests of an operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorded {
    pub(super) count: u32,
    /// Their different sizes, bytes.
    pub(super) sizes: BTreeSet<u32>,
}

#[derive(Clone, Debug)]
pub(super) struct Tape {
    /// In order of time.
    pub(super) arrivals: Vec<Arrival>,
    /// By operation.
    pub(super) recorded: Vec<Recorded>,
    /// Times depend on how fast the recorded service answered.
    pub(super) is_closed: bool,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum TapeError {
    #[error("no request in it was done: record while the service has something to do")]
    Empty,
    #[error("the plan lacks operations of the record: add {}", .0.join(", "))]
    Lacks(Vec<String>),
}

impl Tape {
    /// `operations`: names in the plan. `rate_per_s`: mean rate of arrival; 0: as recorded.
    pub(super) fn new(traffic: &Traffic, operations: &[String], rate_per_s: f64) -> Result<Self, TapeError> {
        let (Some(first), Some(last)) = (traffic.requests.first(), traffic.requests.last()) else {
            return Err(TapeError::Empty);
        };
        let of_class: Vec<Option<usize>> = Class::all().map(|class| operation(class, operations)).collect();
        let lacks = |class: Class| of_class[class.index()].is_none().then(|| format!("[work.{}]", class.name()));
        let lacking: BTreeSet<String> =
            traffic.requests.iter().filter_map(|request| lacks(request.work.class)).collect();
        if !lacking.is_empty() {
            return Err(TapeError::Lacks(lacking.into_iter().collect()));
        }
        let span = last.came.saturating_sub(first.came) as f64;
        let scale = if rate_per_s > 0.0 && span > 0.0 {
            (traffic.requests.len() - 1) as f64 * 1e9 / rate_per_s / span
        } else {
            1.0
        };
        let arrival = |request: &Request| Arrival {
            at: (request.came.saturating_sub(first.came) as f64 * scale).round() as Nanos,
            operation: of_class[request.work.class.index()].unwrap_or_default(),
            bytes: request.work.size,
        };
        let arrivals: Vec<Arrival> = traffic.requests.iter().map(arrival).collect();
        let mut recorded = vec![Recorded::default(); operations.len()];
        for arrival in &arrivals {
            let of = &mut recorded[arrival.operation];
            of.count += 1;
            of.sizes.insert(arrival.bytes);
        }
        Ok(Self { arrivals, recorded, is_closed: traffic.closed_loop().is_some() })
    }
}

/// The operation of the plan with the class's name, or with that of its narrowest family.
fn operation(class: Class, names: &[String]) -> Option<usize> {
    let matching = names.iter().enumerate().filter(|(_, name)| class.belongs_to(name));
    matching.max_by_key(|(_, name)| (*name == class.name(), name.len())).map(|(number, _)| number)
}
