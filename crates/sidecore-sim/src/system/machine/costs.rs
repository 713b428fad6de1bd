//! What each step of a request takes on this machine.

use super::{Curve, Machine, Noise, Timer, Wake};

/// What things take, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    pub(super) hop: f64,
    /// The sidecore's part of a request, with the operation.
    pub(super) serve: f64,
    /// What each side waits for payload from the other's cache where nothing else is to be done meanwhile.
    pub(super) transfer: f64,
    /// The client's parts.
    pub(super) submit: f64,
    pub(super) receive: f64,
    /// What an open load takes the client more for each request.
    pub(super) open: f64,
    pub(super) wake: Wake,
    pub(super) timer: Timer,
    pub(super) noise: Noise,
}

impl Costs {
    pub(super) fn of(set: &Machine) -> Self {
        let Machine { client, lane, wake, timer, noise, .. } = set;
        let size = f64::from(client.size.get());
        // Nothing is moved where nothing is done.
        let of = |curve: &Curve| set.op().map_or(0.0, |_| curve.at(size));
        let sampling = lane.sample_ns.get() / f64::from(set.service.sample_every.get());
        let half = f64::midpoint(lane.client_ns.get() + sampling, of(&set.copy));
        let op = set.op().map_or(0.0, of);
        Self {
            hop: lane.hop_ns.get(),
            serve: lane.request_ns.get() + sampling + of(&set.r#move) + op,
            transfer: of(&set.transfer),
            open: client.open_ns.get(),
            submit: half,
            receive: half,
            wake: *wake,
            timer: *timer,
            noise: *noise,
        }
    }
}
