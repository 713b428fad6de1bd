//! Two ends on this machine, each in a network namespace of its own, and a link between them.

use super::end::{End, Order};
use super::links::Links;
use super::path::Path;
use super::space;
use crate::args::PORT;
use crate::error::LabError;
use std::net::{Ipv4Addr, SocketAddr};

/// From the network reserved for benchmarks (RFC 2544).
pub(super) const NEAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
pub(super) const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const BITS: u8 = 24;

/// The local end is the calling thread and the threads that it starts from now on.
pub(super) struct Pair {
    pub(super) far: End,
}

impl Pair {
    pub(super) fn by_veth() -> Result<Self, LabError> {
        Self::joined(|links| links.add_veth("near", "far"))
    }

    pub(super) fn joined(join: impl FnOnce(&Links) -> Result<(), LabError>) -> Result<Self, LabError> {
        space::enter_own()?;
        let links = Links::here()?;
        let mut far = End::start()?;
        join(&links)?;
        links.give("far", far.id())?;
        far.order(&Order::Take { name: "far".to_owned(), address: FAR, bits: BITS })?;
        links.take("near", NEAR, BITS)?;
        Ok(Self { far })
    }

    pub(super) fn path(&mut self) -> Result<Path, LabError> {
        let at = SocketAddr::from((FAR, PORT));
        self.far.order(&Order::Listen { at })?;
        Path::to(at)
    }
}
