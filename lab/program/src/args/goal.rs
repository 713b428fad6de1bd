//! The goal of `net tune`: weights of figures, and bounds.

use std::str::FromStr;
use thiserror::Error;

#[derive(Debug, Error)]
pub(crate) enum BadGoal {
    #[error("{0} is none of throughput, latency, cpu")]
    Unknown(String),
    #[error("{0} has no =, < or >")]
    NoSign(String),
    #[error("{0} has no number")]
    NoNumber(String),
    #[error("the number in {0} is to be larger than 0")]
    NotPositive(String),
    #[error("{0}: throughput is bounded by >, latency and cpu by <")]
    Bound(String),
    #[error("a mix has at least one weight")]
    NoWeight,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Throughput,
    Latency,
    Cpu,
}

/// Weights of the figures, and bounds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Goal {
    pub(crate) weights: Vec<(What, f64)>,
    pub(crate) bounds: Vec<(What, f64)>,
}

impl What {
    pub(crate) const ALL: [(Self, &'static str); 3] =
        [(Self::Throughput, "throughput"), (Self::Latency, "latency"), (Self::Cpu, "cpu")];

    fn of(name: &str) -> Result<Self, BadGoal> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(what, _)| *what).ok_or_else(|| BadGoal::Unknown(name.to_owned()))
    }
}

impl FromStr for Goal {
    type Err = BadGoal;

    /// `throughput`, `latency`, `cpu`, or as in `mix:throughput=2,cpu=1,latency<200`: weights, and bounds in Mbit/s, us
    /// and ns for each byte.
    fn from_str(text: &str) -> Result<Self, BadGoal> {
        let Some(parts) = text.strip_prefix("mix:") else {
            return Ok(Self { weights: vec![(What::of(text)?, 1.0)], bounds: Vec::new() });
        };
        let mut goal = Self { weights: Vec::new(), bounds: Vec::new() };
        for part in parts.split(',') {
            let at = part.find(['=', '<', '>']).ok_or_else(|| BadGoal::NoSign(part.to_owned()))?;
            let what = What::of(&part[..at])?;
            let value: f64 = part[at + 1..].parse().map_err(|_| BadGoal::NoNumber(part.to_owned()))?;
            if !(value.is_finite() && value > 0.0) {
                return Err(BadGoal::NotPositive(part.to_owned()));
            }
            match (&part[at..=at], what) {
                ("=", _) => goal.weights.push((what, value)),
                (">", What::Throughput) | ("<", What::Latency | What::Cpu) => goal.bounds.push((what, value)),
                _ => return Err(BadGoal::Bound(part.to_owned())),
            }
        }
        if goal.weights.is_empty() { Err(BadGoal::NoWeight) } else { Ok(goal) }
    }
}
