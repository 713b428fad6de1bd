//! Network interfaces of the thread's namespace.

use crate::error::LabError;
use futures_util::TryStreamExt;
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};
use rtnetlink::{Handle, LinkBridge, LinkMessageBuilder, LinkUnspec, LinkVeth, new_connection};
use std::net::Ipv4Addr;
use tokio::runtime::{Builder, Runtime};

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

    pub(super) fn add_veth(&self, name: &str, other: &str) -> Result<(), LabError> {
        let add = self.handle.link().add(LinkVeth::new(name, other).build()).execute();
        self.runtime
            .block_on(add)
            .map_err(|error| LabError::failed(format!("cannot make the link {name} to {other}"), error))
    }

    /// The new bridge is not up.
    pub(super) fn add_bridge(&self, name: &str) -> Result<(), LabError> {
        let add = self.handle.link().add(LinkBridge::new(name).build()).execute();
        self.runtime.block_on(add).map_err(|error| LabError::failed(format!("cannot make the bridge {name}"), error))
    }

    pub(super) fn join(&self, name: &str, bridge: &str) -> Result<(), LabError> {
        let index = self.find(bridge)?.header.index;
        self.set(name, |link| link.controller(index).up())
    }

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

    pub(super) fn down(&self, name: &str) -> Result<(), LabError> {
        self.set(name, LinkMessageBuilder::down)
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
