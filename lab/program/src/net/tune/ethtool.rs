//! Settings of drivers, through the kernel's family `ethtool` of generic netlink.
//!
//! The crate of that name reads them, but writes only channels of those needed here. So changes are messages built
//! here, with the crate's attributes where it has them.

use crate::error::LabError;
use crate::net::error::SettingError;
use ethtool::{EthtoolAttr, EthtoolFeatureAttr, EthtoolFeatureBit, EthtoolHandle, EthtoolHeader};
use futures_util::TryStreamExt;
use genetlink::GenetlinkHandle;
use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLA_F_NESTED, NLM_F_ACK, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload, Nla,
    ParseableParametrized,
};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};
use tokio::runtime::{Builder, Runtime};

/// Numbers of the kernel's `linux/ethtool_netlink.h`.
const FEATURES_SET: u8 = 12;
const FEATURES_WANTED: u16 = 3;
const HEADER: u16 = 1;
const DEVICE_NAME: u16 = 2;
const BITSET_BITS: u16 = 3;
const BITSET_BIT: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    Coalesce = 20,
    Rings = 16,
    Channels = 18,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Feature {
    pub(super) name: &'static str,
    /// It stays requested while another feature that it needs is off.
    pub(super) is_wanted: bool,
    pub(super) is_on: bool,
}

/// A connection to the kernel. It stays in the namespace of its creation.
pub(super) struct Ethtool {
    runtime: Runtime,
    reads: EthtoolHandle,
    writes: GenetlinkHandle,
}

impl Ethtool {
    pub(super) fn here() -> Result<Self, LabError> {
        let wrong = |error: std::io::Error| LabError::failed("cannot ask the kernel about drivers", error);
        let runtime = Builder::new_current_thread().enable_io().build().map_err(wrong)?;
        let (reads, writes) = {
            let _entered = runtime.enter();
            let (connection, reads, _) = ethtool::new_connection().map_err(wrong)?;
            runtime.spawn(connection);
            let (connection, writes, _) = genetlink::new_connection().map_err(wrong)?;
            runtime.spawn(connection);
            (reads, writes)
        };
        Ok(Self { runtime, reads, writes })
    }

    /// Those of the named features that can be changed. `None`: the kernel does not say.
    pub(super) fn features(&mut self, interface: &str, names: &[&'static str]) -> Option<Vec<Feature>> {
        let request = self.reads.feature().get(Some(interface)).execute();
        let found: Vec<_> = self.runtime.block_on(async { request.await.ok()?.try_collect().await.ok() })?;
        let mut sets: [Vec<EthtoolFeatureBit>; 3] = Default::default();
        for attribute in found.into_iter().flat_map(|message| message.payload.nlas) {
            match attribute {
                EthtoolAttr::Feature(EthtoolFeatureAttr::Hw(bits)) => sets[0] = bits,
                EthtoolAttr::Feature(EthtoolFeatureAttr::Wanted(bits)) => sets[1] = bits,
                EthtoolAttr::Feature(EthtoolFeatureAttr::Active(bits)) => sets[2] = bits,
                _ => {}
            }
        }
        let has = |set: &[EthtoolFeatureBit], name: &str| set.iter().any(|bit| bit.name == name && bit.value);
        let [free, wanted, active] = &sets;
        let free = names.iter().filter(|name| has(free, name));
        let feature = |name: &&'static str| Feature { name, is_wanted: has(wanted, name), is_on: has(active, name) };
        Some(free.map(feature).collect())
    }

    /// Requests the change. The driver may ignore it, so read the feature again.
    pub(super) fn set_feature(&mut self, interface: &str, name: &str, on: bool) -> Result<(), SettingError> {
        self.set(interface, FEATURES_SET, &wanted(name, on))
    }

    /// `None`: the driver does not have the attribute.
    pub(super) fn number(&mut self, interface: &str, of: Numbers, kind: u16) -> Option<u32> {
        let attributes = match of {
            Numbers::Coalesce => {
                let request = self.reads.coalesce().get(Some(interface)).execute();
                self.runtime.block_on(async { request.await.ok()?.try_collect::<Vec<_>>().await.ok() })?
            }
            Numbers::Rings => {
                let request = self.reads.ring().get(Some(interface)).execute();
                self.runtime.block_on(async { request.await.ok()?.try_collect::<Vec<_>>().await.ok() })?
            }
            Numbers::Channels => {
                let request = self.reads.channel().get(Some(interface)).execute();
                self.runtime.block_on(async { request.await.ok()?.try_collect::<Vec<_>>().await.ok() })?
            }
        };
        let mut all = attributes.into_iter().flat_map(|message| message.payload.nlas);
        let own = all.find(|attribute| attribute.kind() == kind)?;
        let mut value = vec![0; own.value_len()];
        own.emit_value(&mut value);
        Some(value.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    /// Switches have one byte, other attributes have four.
    pub(super) fn set_number(
        &mut self,
        interface: &str,
        of: Numbers,
        place: (u16, usize),
        number: u32,
    ) -> Result<(), SettingError> {
        self.set(interface, of as u8, &valued(place, number))
    }

    fn set(&mut self, interface: &str, command: u8, what: &[u8]) -> Result<(), SettingError> {
        let content = [addressed(interface).as_slice(), what].concat();
        let mut message = NetlinkMessage::from(GenlMessage::from_payload(Change { command, content }));
        message.header.flags = NLM_F_REQUEST | NLM_F_ACK;
        let writes = &mut self.writes;
        let answers = self.runtime.block_on(async {
            let answers = writes.request(message).await.map_err(|error| SettingError::Driver(error.into()))?;
            answers.try_collect::<Vec<_>>().await.map_err(|error| SettingError::Driver(error.into()))
        })?;
        for answer in answers {
            if let NetlinkPayload::Error(error) = answer.payload
                && error.code.is_some()
            {
                return Err(error.to_io().into());
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Change {
    command: u8,
    content: Vec<u8>,
}

impl GenlFamily for Change {
    fn family_name() -> &'static str {
        "ethtool"
    }

    fn version(&self) -> u8 {
        1
    }

    fn command(&self) -> u8 {
        self.command
    }
}

impl Emitable for Change {
    fn buffer_len(&self) -> usize {
        self.content.len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        buffer[..self.content.len()].copy_from_slice(&self.content);
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Change {
    fn parse_with_param(content: &[u8], header: GenlHeader) -> Result<Self, DecodeError> {
        Ok(Self { command: header.cmd, content: content.to_vec() })
    }
}

fn addressed(interface: &str) -> Vec<u8> {
    let header = EthtoolHeader::DevName(interface.to_owned());
    debug_assert_eq!(header.kind(), DEVICE_NAME);
    nested(HEADER, bytes(&header))
}

fn wanted(name: &str, on: bool) -> Vec<u8> {
    let mut bit = text(BIT_NAME, name);
    if on {
        bit.extend(bytes(&DefaultNla::new(BIT_VALUE, Vec::new())));
    }
    nested(FEATURES_WANTED, nested(BITSET_BITS, nested(BITSET_BIT, bit)))
}

fn valued((kind, bytes_of_value): (u16, usize), number: u32) -> Vec<u8> {
    let value = number.to_ne_bytes().into_iter().take(bytes_of_value).collect();
    bytes(&DefaultNla::new(kind, value))
}

fn bytes(attribute: &impl Nla) -> Vec<u8> {
    let mut bytes = vec![0; attribute.buffer_len()];
    attribute.emit(&mut bytes);
    bytes
}

fn nested(kind: u16, content: Vec<u8>) -> Vec<u8> {
    bytes(&DefaultNla::new(kind | NLA_F_NESTED, content))
}

fn text(kind: u16, text: &str) -> Vec<u8> {
    bytes(&DefaultNla::new(kind, text.bytes().chain([0]).collect()))
}

#[cfg(test)]
mod tests {
    use super::super::setting::{Location, by_name};
    use super::*;

    const NEAR: &[u8] = b"\x10\0\x01\x80\x09\0\x02\0near\0\0\0\0";

    #[test]
    #[cfg(target_endian = "little")]
    fn messages_are_those_that_ethtool_sends() {
        // Recorded from ethtool 6.1. Padding of attributes, which it leaves undefined, is zero here.
        let recorded: [(&str, u32, u8, &[u8]); 6] = [
            ("channels", 4, 18, b"\x08\0\x09\0\x04\0\0\0"),
            ("rx-channels", 2, 18, b"\x08\0\x06\0\x02\0\0\0"),
            ("coalesce-rx-usecs", 50, 20, b"\x08\0\x02\0\x32\0\0\0"),
            ("coalesce-rx-frames", 32, 20, b"\x08\0\x03\0\x20\0\0\0"),
            ("coalesce-adaptive-rx", 1, 20, b"\x05\0\x0b\0\x01\0\0\0"),
            ("rx-ring", 512, 16, b"\x08\0\x06\0\0\x02\0\0"),
        ];
        assert_eq!(addressed("near"), NEAR);
        for (name, value, command, sent) in recorded {
            let Location::Driver(of, place) = by_name(name).unwrap().location else { panic!("{name}") };
            assert_eq!((of as u8, &*valued(place, value)), (command, sent), "{name}");
        }
        let gro = b"\x1c\0\x03\x80\x18\0\x03\x80\x14\0\x01\x80\x0b\0\x02\0rx-gro\0\0\x04\0\x03\0";
        assert_eq!(wanted("rx-gro", true), gro);
    }
}
