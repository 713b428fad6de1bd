//! Devices of several kinds behind sidecores: cards, batch devices, cores.
//!
//! A request takes a core of a sidecore for its submission, waits for the service's own [`Dispatch`] to choose a device,
//! crosses the bus, is done by an engine alone or in a batch, and takes a core again for its completion. The service's
//! moderation says when its client is woken.
//!
//! [`Dispatch`]: sidecore_core::dispatch::Dispatch

mod capability;
mod device;
mod model;
mod parameters;
mod tape;
mod world;

use super::{Impossible, Metric, Model, Outcome, metric};
use crate::settings::{Parameter, Settings};
pub(in crate::system) use model::Pool;
use std::collections::BTreeSet;

pub(super) const METRICS: &[Metric] = &[
    metric("rate_per_s", "1/s", "requests completed in a second"),
    metric("mean_us", "us", "mean time from a request's arrival to its client's answer"),
    metric("p50_us", "us", "median of that time"),
    metric("p99_us", "us", "99th percentile of that time"),
    metric("host_use", "1", "part of the sidecores' time that was used"),
    metric("device_use", "1", "part of the engines' time that was used, of the most used kind of device"),
    metric("abandoned", "1", "requests that no device did, after devices died"),
    metric("fill", "1", "mean requests of a batch, on devices that do several in one"),
    metric("stable", "1", "1: requests did not pile up; part of the runs for which it holds"),
];

pub(super) fn parameters(parts: &BTreeSet<String>) -> Vec<Parameter> {
    parameters::parameters(parts)
}

pub(super) fn settings(parameters: Vec<Parameter>) -> Settings {
    Settings::new(parameters, |settings| {
        let wrong = settings.iter().find_map(|(parameter, value)| {
            let (text, _) = value?;
            parameters::check(&parameter.name, text).err()
        });
        wrong.map_or(Ok(()), |message| Err(serde::de::Error::custom(message)))
    })
}

impl Model for Pool {
    fn broken(&self) -> Vec<Impossible> {
        self.contradictions()
    }

    fn run(&self, seed: u64) -> Outcome {
        world::run(self, seed)
    }

    fn note(&self) -> Option<String> {
        let is_closed = self.tape.as_ref()?.is_closed;
        let note = "The recorded clients waited for answers: other hardware would have changed their times of arrival.";
        is_closed.then(|| note.to_owned())
    }
}
