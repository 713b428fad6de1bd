//! What the service's dispatch knows of a device.

use super::device::Kind;
use super::model::Pool;
use sidecore_core::dispatch::{Capability, Dispatch};
use sidecore_core::policy::balance::{Measured, Rates};
use sidecore_core::session::Classes;
use sidecore_core::time::Nanos;

/// Weight of a device for `sed`: this over its time for a request, as in the service.
const WEIGHT: f64 = 1e6;

pub(super) fn capability(set: &Pool, kind: &Kind) -> Capability {
    let (mut rates, mut classes, mut least) = (Rates::new(), Vec::new(), f64::INFINITY);
    for (number, operation) in set.operations.iter().enumerate() {
        let Some(longest) = operation.sizes.last().and_then(|(bytes, _)| kind.part(number, *bytes as u32)) else {
            continue;
        };
        for (bytes, _) in &operation.sizes {
            let part = kind.part(number, *bytes as u32).unwrap_or(longest) * kind.reports;
            rates.observe(operation.class, *bytes as u32, part.round().max(1.0) as Nanos);
        }
        classes.push(operation.class);
        least = least.min(longest);
    }
    let weight = (WEIGHT / least.max(1.0)).clamp(1.0, 1_000.0) as u32;
    let classes: Classes = classes.into_iter().collect();
    Capability { classes, immediate: false, remote_keys: false, depth: kind.ring, weight, rates }
}

/// Tells the service's dispatch the times of a device that gathers as the service's does.
pub(super) fn tell(set: &Pool, kind: &Kind, dispatch: &mut Dispatch, device: usize) {
    let Some(policy) = &kind.gather else { return };
    let (part, ends) = (policy.part(), policy.ends());
    for (operation, _) in set.operations.iter().zip(&kind.times).filter(|(_, time)| time.is_some()) {
        dispatch.measured(device, &Measured { class: operation.class, size: 0, from: 0, part, ends });
    }
}
