//! Control tokens: a device asks for work with credits, counted in nanoseconds of work.
//!
//! A device has a window of credit; work given to it uses credit up and gives it back when it is done. Only a device
//! with credit left gets the next request, so what cannot be done soon stays where any device can still take it. Of those
//! that have credit left the one gets it that finishes it first: where devices are not alike, most credit is not the
//! least time.

use super::Load;
use crate::time::Nanos;

/// Work that a device has on it before it stops asking, ns, unless it is told otherwise. It covers the way from a completion to
/// the next request, so that a device with work waiting for it does not idle; what it has beyond that is bound to it for
/// nothing. A request may overdraw: one that takes longer than the window still finds a device that has nothing.
pub(super) const WINDOW: Nanos = 20_000;

/// Credit that the device has left, ns; 0 or less: it does not ask.
#[inline]
pub(super) fn credit(load: &Load) -> i64 {
    load.window.cast_signed().saturating_sub_unsigned(load.backlog)
}
