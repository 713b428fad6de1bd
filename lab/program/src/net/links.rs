//! Network interfaces of the thread's namespace.

use crate::error::LabError;
use futures_util::TryStreamExt;
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};
use rtnetlink::packet_route::route::RouteAttribute;
use rtnetlink::packet_route::tc::TcMessage;
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder, new_connection};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::runtime::{Builder, Runtime};

/// A pair of virtual interfaces names each other: their chain has no end.
const MAX_STACKED: usize = 8;

/// A connection to the kernel. It stays in its namespace even if the thread moves to another.
pub(super) struct Links {
    runtime: Runtime,
    handle: Handle,
}

impl Links {
    pub(super) fn here() -> Result<Self, LabError> {
        let wrong = |error: std::io::Error| LabError::failed("cannot ask the kernel about interfaces", error);
        let runtime = Builder::new_current_thread().enable_io().enable_time().build().map_err(wrong)?;
        let handle = {
            let _entered = runtime.enter();
            let (connection, handle, _) = new_connection().map_err(wrong)?;
            runtime.spawn(connection);
            handle
        };
        Ok(Self { runtime, handle })
    }

    /// Queueing disciplines of the interface, with their counts.
    pub(super) fn queues(&self, name: &str) -> Result<Vec<TcMessage>, LabError> {
        let index = self.find(name)?.header.index.cast_signed();
        let all = self.handle.qdisc().get().execute().try_collect::<Vec<_>>();
        let all = self.runtime.block_on(all).map_err(|error| LabError::failed("cannot ask for queues", error))?;
        Ok(all.into_iter().filter(|queue| queue.header.index == index).collect())
    }

    pub(super) fn add_veth(&self, name: &str, other: &str) -> Result<(), LabError> {
        let add = self.handle.link().add(LinkVeth::new(name, other).build()).execute();
        self.runtime
            .block_on(add)
            .map_err(|error| LabError::failed(format!("cannot make the link {name} to {other}"), error))
    }

    #[cfg(test)]
    pub(super) fn remove(&self, name: &str) -> Result<(), LabError> {
        let gone = self.handle.link().del(self.find(name)?.header.index).execute();
        self.runtime
            .block_on(gone)
            .map_err(|error| LabError::failed(format!("cannot remove the interface {name}"), error))
    }

    pub(super) fn take(&self, name: &str, address: Ipv4Addr, bits: u8) -> Result<(), LabError> {
        self.add_address(name, address, bits)?;
        self.up(name)?;
        self.up("lo")
    }

    pub(super) fn give(&self, name: &str, process: u32) -> Result<(), LabError> {
        self.set(name, |link| link.setns_by_pid(process))
    }

    pub(super) fn up(&self, name: &str) -> Result<(), LabError> {
        self.set(name, LinkMessageBuilder::up)
    }

    pub(super) fn set_mtu(&self, name: &str, bytes: u32) -> Result<(), LabError> {
        self.set(name, |link| link.mtu(bytes))
    }

    pub(super) fn set_queue(&self, name: &str, packets: u32) -> Result<(), LabError> {
        self.set(name, |link| link.append_extra_attribute(LinkAttribute::TxQueueLen(packets)))
    }

    fn add_address(&self, name: &str, address: Ipv4Addr, bits: u8) -> Result<(), LabError> {
        let index = self.find(name)?.header.index;
        let add = self.handle.address().add(index, address.into(), bits).execute();
        self.runtime
            .block_on(add)
            .map_err(|error| LabError::failed(format!("{name} cannot have the address {address}"), error))
    }

    pub(super) fn find(&self, name: &str) -> Result<LinkMessage, LabError> {
        let mut found = self.handle.link().get().match_name(name.to_owned()).execute();
        let first = self
            .runtime
            .block_on(found.try_next())
            .map_err(|error| LabError::missing(format!("no interface {name}"), error, "`ip link` lists them"))?;
        first.ok_or_else(|| LabError::Usage(format!("no interface {name}")))
    }

    pub(super) fn find_numbered(&self, index: u32) -> Result<LinkMessage, LabError> {
        let mut found = self.handle.link().get().match_index(index).execute();
        let first = self
            .runtime
            .block_on(found.try_next())
            .map_err(|error| LabError::failed(format!("no interface {index}"), error))?;
        first.ok_or_else(|| LabError::Usage(format!("no interface {index}")))
    }

    /// Refuses an interface that packets to `peer` do not pass: they leave by it, or by a bridge or VLAN above it.
    pub(super) fn check_way(&self, name: &str, peer: SocketAddr) -> Result<(), LabError> {
        let out = self.way_to(peer)?;
        let above = |attribute: &LinkAttribute| match attribute {
            LinkAttribute::Controller(index) => Some(*index),
            _ => None,
        };
        let below = |attribute: &LinkAttribute| match attribute {
            LinkAttribute::Link(index) => Some(*index),
            _ => None,
        };
        let own = self.chain(self.find(name)?.header.index, above);
        if self.chain(out.header.index, below).iter().any(|index| own.contains(index)) {
            return Ok(());
        }
        let other = named(&out).unwrap_or_default();
        Err(LabError::Usage(format!("packets to {} leave by {other}, not by {name}: --interface {other}", peer.ip())))
    }

    /// The interface that packets to `peer` leave by.
    pub(super) fn way_to(&self, peer: SocketAddr) -> Result<LinkMessage, LabError> {
        let no_way = |why: String| LabError::failed(format!("no way to {}", peer.ip()), why);
        if let SocketAddr::V6(peer) = peer
            && peer.scope_id() > 0
        {
            return self.find_numbered(peer.scope_id());
        }
        let bits = if peer.is_ipv4() { 32 } else { 128 };
        let wanted = RouteMessageBuilder::<IpAddr>::new().destination_prefix(peer.ip(), bits);
        let wanted = wanted.map_err(|error| no_way(error.to_string()))?.build();
        let mut found = self.handle.route().get(wanted).execute();
        let route = self.runtime.block_on(found.try_next()).map_err(|error| no_way(error.to_string()))?;
        let out = route.into_iter().flat_map(|route| route.attributes).find_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => Some(index),
            _ => None,
        });
        self.find_numbered(out.ok_or_else(|| no_way("the kernel names no interface".to_owned()))?)
    }

    /// That interface and those reached from it by `next`.
    fn chain(&self, first: u32, next: fn(&LinkAttribute) -> Option<u32>) -> Vec<u32> {
        let after = |index: &u32| self.find_numbered(*index).ok()?.attributes.iter().find_map(next);
        std::iter::successors(Some(first), after).take(MAX_STACKED).collect()
    }

    fn set(
        &self,
        name: &str,
        change: impl FnOnce(LinkMessageBuilder<LinkUnspec>) -> LinkMessageBuilder<LinkUnspec>,
    ) -> Result<(), LabError> {
        let index = self.find(name)?.header.index;
        let set = self.handle.link().set(change(LinkUnspec::new_with_index(index)).build()).execute();
        self.runtime
            .block_on(set)
            .map_err(|error| LabError::failed(format!("cannot change the interface {name}"), error))
    }
}

/// The kernel's main name, also if the interface was found by an alternative name.
pub(super) fn named(link: &LinkMessage) -> Option<String> {
    link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    })
}
