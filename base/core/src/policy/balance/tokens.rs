//! Control tokens: a device asks for work with credits, counted in nanoseconds of work.
//!
//! A device has a window of credit; work given to it uses credit up and gives it back when it is done. Only a device
//! with credit left gets the next request, so a request that cannot be done soon stays where any device can still
//! take it. The request goes to the device with credit that finishes it first: where devices differ, most credit is
//! not the least time.

use super::Load;
use crate::time::Nanos;

/// Default window, ns: a device stops asking beyond this backlog. It covers the time from a completion to the next
/// request, so that a device does not idle while work waits. More backlog would only bind requests to the device. A
/// request may overdraw: one that takes longer than the window still finds an idle device.
pub(super) const WINDOW: Nanos = 20_000;

/// Credit left, ns; at 0 or less the device does not ask.
#[inline]
pub(super) fn credit(load: &Load) -> i64 {
    load.window.cast_signed().saturating_sub_unsigned(load.backlog)
}
