//! Identifies a changed interface and the machine's boot, because a name may later belong to another interface.

use crate::error::LabError;
use crate::net::links::{Links, named};
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// The kernel makes a new one at each start.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
const NAMESPACE: &str = "/proc/thread-self/ns/net";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) boot: String,
    pub(super) namespace: u64,
    pub(super) index: u32,
    /// The permanent hardware address; virtual interfaces have none.
    pub(super) address: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Same,
    /// The settings of the interface are gone with it.
    Gone,
    /// No setting is left.
    Restarted,
}

impl Identity {
    pub(super) fn of(links: &Links, interface: &str) -> Result<Self, LabError> {
        let link = links.find(interface)?;
        let (boot, namespace) =
            here().map_err(|error| LabError::failed("this machine cannot be told from another", error))?;
        Ok(Self { boot, namespace, index: link.header.index, address: address(&link) })
    }

    pub(super) fn fate(&self, links: &Links, name: &str) -> Result<Fate, LabError> {
        let (boot, namespace) =
            here().map_err(|error| LabError::failed("this machine cannot be told from another", error))?;
        if boot != self.boot {
            return Ok(Fate::Restarted);
        }
        if namespace != self.namespace {
            return Err(LabError::Usage(format!(
                "{name} was changed in another network namespace: go back to that one (nsenter)"
            )));
        }
        let own = links.find_numbered(self.index).ok().filter(|link| address(link) == self.address);
        match own.as_ref().and_then(named) {
            Some(now) if now == name => Ok(Fate::Same),
            Some(now) => Err(LabError::Usage(format!(
                "{name} is called {now} now: name it as before (ip link set {now} name {name})"
            ))),
            None if links.find(name).is_ok() => Err(LabError::Usage(format!(
                "{name} is another interface now, and the one that was changed is not here: what was set of it went with it. \
                 For what is not the interface's alone give that one another name as long (ip link set {name} name NAME)"
            ))),
            None => Ok(Fate::Gone),
        }
    }
}

fn address(link: &LinkMessage) -> Option<Vec<u8>> {
    link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::PermAddress(address) => Some(address.clone()),
        _ => None,
    })
}

fn here() -> io::Result<(String, u64)> {
    Ok((fs::read_to_string(BOOT)?.trim_end().to_owned(), fs::metadata(NAMESPACE)?.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::space;
    use crate::net::tune::Here;
    use nix::unistd::Uid;
    use rtnetlink::{LinkMessageBuilder, LinkUnspec, new_connection};
    use sidecore_testing::skipped;
    use std::thread;
    use tokio::runtime::Builder;

    fn rename(index: u32, name: &str, is_more: bool) {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (connection, handle, _) = new_connection().unwrap();
            tokio::spawn(connection);
            if is_more {
                handle.link().property_add(index).alt_ifname(&[name]).execute().await.unwrap();
            } else {
                let message = LinkMessageBuilder::<LinkUnspec>::default().index(index).name(name.to_owned()).build();
                handle.link().set(message).execute().await.unwrap();
            }
        });
    }

    fn an_interface_is_known_by_more_than_its_name() {
        space::enter_own().unwrap();
        let links = Links::here().unwrap();
        links.add_veth("near", "far").unwrap();
        let own = Identity::of(&links, "near").unwrap();
        let fate = |saved: &Identity| saved.fate(&links, "near");
        assert_eq!(fate(&own).unwrap(), Fate::Same);
        assert_eq!(fate(&Identity { boot: "another".to_owned(), index: 99, ..own.clone() }).unwrap(), Fate::Restarted);
        let elsewhere = fate(&Identity { namespace: 1, ..own.clone() }).unwrap_err().to_string();
        assert!(elsewhere.contains("network namespace"), "{elsewhere}");
        let replaced =
            fate(&Identity { address: Some(vec![2, 0, 0, 0, 0, 1]), ..own.clone() }).unwrap_err().to_string();
        assert!(replaced.contains("another interface"), "{replaced}");
        rename(own.index, "second", true);
        assert_eq!(Here::of("second").unwrap().interface(), "near");
        rename(own.index, "new", false);
        let renamed = fate(&own).unwrap_err().to_string();
        assert!(renamed.contains("called new now"), "{renamed}");
        links.add_veth("near", "other").unwrap();
        let renamed = fate(&own).unwrap_err().to_string();
        assert!(renamed.contains("called new now"), "{renamed}");
        links.remove("new").unwrap();
        let replaced = fate(&own).unwrap_err().to_string();
        assert!(replaced.contains("another interface"), "{replaced}");
        links.remove("near").unwrap();
        assert_eq!(fate(&own).unwrap(), Fate::Gone);
    }

    #[test]
    fn names_that_others_have_by_now_are_not_taken_for_the_interface() {
        if !Uid::effective().is_root() {
            return skipped("only root makes interfaces in a namespace of its own without a process for it");
        }
        thread::spawn(an_interface_is_known_by_more_than_its_name).join().unwrap();
    }
}
