//! Reads and writes settings of an interface in this thread's namespace.

use super::apply::Settings;
use super::ethtool::{Ethtool, Feature};
use super::identity::{Fate, Identity};
use super::setting::{CONGESTION, FORCED, Location, OFF, ON, REQUESTED, Setting, by_name};
use crate::error::LabError;
use crate::net::error::SettingError;
use crate::net::links::{Links, named};
use procfs::net::dev_status;
use rtnetlink::packet_route::link::LinkAttribute;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Tables of the processors of flows: the machine's, and each receive queue's.
const FLOW_TABLE: &str = "/proc/sys/net/core/rps_sock_flow_entries";
const RECEIVING: &str = "rx-";
const FLOWS: &str = "rps_flow_cnt";
const AVAILABLE: &str = "ipv4/tcp_available_congestion_control";

const MAX_IN_WORDS: usize = 3;
const IN_WORDS: [&str; 8] = ["congestion-control", "mtu", "tso", "gso", "gro", "lro", "tx-checksum", "rx-checksum"];

pub(crate) struct Here {
    interface: String,
    links: Links,
    drivers: Ethtool,
    /// A mount of sysfs in this namespace, because `/sys` belongs to the namespace of its mount. It is detached and
    /// ends on drop.
    attributes: io::Result<OwnedFd>,
}

impl Here {
    pub(crate) fn of(interface: &str) -> Result<Self, LabError> {
        let here = Self::of_any(interface)?;
        here.links.find(interface)?;
        Ok(here)
    }

    /// Also for a removed interface: then only settings of the machine are available.
    pub(super) fn of_any(interface: &str) -> Result<Self, LabError> {
        let links = Links::here()?;
        let own = links.find(interface).ok().and_then(|link| named(&link)).unwrap_or_else(|| interface.to_owned());
        Ok(Self { interface: own, links, drivers: Ethtool::here()?, attributes: attributes() })
    }

    /// The interface that packets to `peer` leave by.
    pub(in crate::net) fn toward(peer: SocketAddr) -> Result<Self, LabError> {
        Self::of(&named(&Links::here()?.way_to(peer)?).unwrap_or_default())
    }

    pub(super) fn check_way(&self, peer: SocketAddr) -> Result<(), LabError> {
        self.links.check_way(&self.interface, peer)
    }

    pub(crate) fn in_words(&mut self) -> String {
        let value = |name: &&str| Some(format!("{name} {}", self.read(by_name(name).ok()?).ok()?));
        let values: Vec<_> = IN_WORDS.iter().filter_map(value).collect();
        format!("{}: {}", self.interface, values.join(", "))
    }

    pub(super) fn is_present(&self) -> bool {
        self.links.find(&self.interface).is_ok()
    }

    pub(in crate::net) fn interface(&self) -> &str {
        &self.interface
    }

    pub(crate) fn read(&mut self, setting: &Setting) -> Result<String, LabError> {
        match setting.location {
            Location::Mtu => self.mtu(),
            Location::Feature(names) => Ok(states(&self.free(names)?)),
            Location::Driver(of, (kind, _)) => {
                let number = self.drivers.number(&self.interface, of, kind);
                Ok(number.ok_or(SettingError::DriverHasNone)?.to_string())
            }
            Location::Queues(front, file) => Ok(read_each(&self.queues(front, file)?)?),
            Location::Flows => Ok(read_flows(Path::new(FLOW_TABLE), &self.flow_queues()?)?),
            Location::Interrupts => Ok(read_each(&self.interrupts()?)?),
            Location::Interface(file) => Ok(text(&self.directory()?.join(file))?),
            Location::Sysctl(file) => Ok(text(&Path::new("/proc/sys/net").join(file))?),
        }
    }

    pub(super) fn lacks(setting: &Setting, value: &str) -> Option<String> {
        if setting.location != Location::Sysctl(CONGESTION) {
            return None;
        }
        // The kernel would load a module for it, for the whole machine and until the next restart.
        let loaded = text(&Path::new("/proc/sys/net").join(AVAILABLE)).unwrap_or_default();
        let is_loaded = loaded.split(' ').any(|name| name == value);
        (!is_loaded).then(|| format!("it is not loaded (modprobe tcp_{value}): there is {loaded}"))
    }

    pub(crate) fn write(&mut self, setting: &Setting, value: &str) -> Result<(), LabError> {
        if let Some(why) = Self::lacks(setting, value) {
            return Err(SettingError::NotTried(why).into());
        }
        let mut wanted = value.to_owned();
        match setting.location {
            Location::Mtu => self.links.set_mtu(&self.interface, number(value)?)?,
            Location::Feature(names) => wanted = self.write_features(names, value)?,
            Location::Driver(of, kind) => self.drivers.set_number(&self.interface, of, kind, number(value)?)?,
            Location::Queues(front, file) => wanted = write_each(&self.queues(front, file)?, value)?,
            Location::Flows => wanted = write_flows(Path::new(FLOW_TABLE), &self.flow_queues()?, value)?,
            Location::Interrupts => wanted = write_each(&self.interrupts()?, value)?,
            Location::Interface(file) => fs::write(self.directory()?.join(file), value)?,
            Location::Sysctl(file) => fs::write(Path::new("/proc/sys/net").join(file), value)?,
        }
        let now = self.read(setting)?;
        if now == wanted { Ok(()) } else { Err(SettingError::Stays(now).into()) }
    }

    /// What a device agreed on with the other end of its cable, Mbit/s. Virtual interfaces have none, whatever they say.
    pub(in crate::net) fn line_mbit(&self) -> Option<u64> {
        let directory = self.directory().ok()?;
        directory.join("device").exists().then(|| text(&directory.join("speed")).ok()?.parse().ok()).flatten()
    }

    fn free(&mut self, names: &[&'static str]) -> Result<Vec<Feature>, SettingError> {
        let free = self.drivers.features(&self.interface, names).ok_or(SettingError::Silent)?;
        if free.is_empty() { Err(SettingError::Fixed) } else { Ok(free) }
    }

    /// Members may exclude each other: one that is active is enough for `on`. Returns the expected value of a read.
    fn write_features(&mut self, names: &[&'static str], value: &str) -> Result<String, SettingError> {
        let words: Vec<_> = value.split(' ').collect();
        let is_wanted = |word: &str| [ON, REQUESTED].contains(&word);
        for (feature, word) in self.free(names)?.iter().zip(words.iter().cycle()) {
            self.drivers.set_feature(&self.interface, feature.name, is_wanted(word))?;
        }
        let now = self.free(names)?;
        let is_set = |(now, word): (&Feature, &&str)| now.is_wanted == is_wanted(word) && !(*word == OFF && now.is_on);
        let are_set = now.iter().zip(words.iter().cycle()).all(is_set);
        let is_active = !words.contains(&ON) || now.iter().any(|feature| feature.is_on);
        Ok(if are_set && is_active { states(&now) } else { value.to_owned() })
    }

    fn mtu(&self) -> Result<String, LabError> {
        let link = self.links.find(&self.interface)?;
        let mtu = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Mtu(bytes) => Some(bytes.to_string()),
            _ => None,
        });
        Ok(mtu.ok_or(SettingError::Silent)?)
    }

    /// Why settings in files of sysfs cannot be read here.
    pub(in crate::net) fn lacks_attributes(&self) -> Option<String> {
        self.attributes.as_ref().err().map(ToString::to_string)
    }

    fn directory(&self) -> Result<PathBuf, LabError> {
        let root = self.attributes.as_ref().map_err(|error| {
            LabError::missing("the attributes of interfaces cannot be mounted", error.to_string(), "it takes root")
        })?;
        Ok(Path::new("/proc/self/fd").join(root.as_raw_fd().to_string()).join("class/net").join(&self.interface))
    }

    fn queues(&self, front: &str, file: &str) -> Result<Vec<PathBuf>, LabError> {
        let all = fs::read_dir(self.directory()?.join("queues"))?;
        let own = all.flatten().filter(|queue| queue.file_name().to_string_lossy().starts_with(front));
        let mut own: Vec<_> = own.map(|queue| queue.path().join(file)).collect();
        own.sort();
        if own.is_empty() { Err(SettingError::NoQueue.into()) } else { Ok(own) }
    }

    /// The file of flows in each receive queue. A removed interface has none, but the machine's table remains.
    fn flow_queues(&self) -> Result<Vec<PathBuf>, LabError> {
        if self.is_present() { self.queues(RECEIVING, FLOWS) } else { Ok(Vec::new()) }
    }

    fn interrupts(&self) -> Result<Vec<PathBuf>, LabError> {
        let numbers = interrupts_of(&self.directory()?.join("device"));
        let own: Vec<_> =
            numbers.iter().map(|number| Path::new("/proc/irq").join(number.to_string()).join("smp_affinity")).collect();
        if own.is_empty() { Err(SettingError::NoInterrupts.into()) } else { Ok(own) }
    }
}

impl Settings for Here {
    fn read(&mut self, name: &str) -> Result<String, LabError> {
        Self::read(self, by_name(name)?)
    }

    fn write(&mut self, name: &str, value: &str) -> Result<(), LabError> {
        Self::write(self, by_name(name)?, value)
    }

    fn identity(&self) -> Result<Identity, LabError> {
        Identity::of(&self.links, &self.interface)
    }

    fn fate(&self, saved: &Identity) -> Result<Fate, LabError> {
        saved.fate(&self.links, &self.interface)
    }
}

fn states(features: &[Feature]) -> String {
    let state = |feature: &Feature| match (feature.is_wanted, feature.is_on) {
        (true, true) => ON,
        (true, false) => REQUESTED,
        (false, true) => FORCED,
        (false, false) => OFF,
    };
    together(features.iter().map(|feature| state(feature).to_owned()).collect())
}

/// What figures of a path depend on, for headers; empty if the kernel does not say.
pub(crate) fn in_words(peer: SocketAddr) -> String {
    Here::toward(peer).map(|mut here| here.in_words()).unwrap_or_default()
}

/// The same of an interface, or of the first ones here.
pub(crate) fn here_in_words(interface: Option<&str>) -> String {
    let all = dev_status().unwrap_or_default().into_keys().filter(|name| name != "lo").take(MAX_IN_WORDS);
    let named: Vec<_> = interface.map_or_else(|| all.collect(), |name| vec![name.to_owned()]);
    let known = named.iter().filter_map(|name| Some(Here::of(name).ok()?.in_words()));
    known.collect::<Vec<_>>().join("; ")
}

/// Numbers of a device's interrupts. A virtio device has its parent device's. Parents of other kinds may be bridges
/// with interrupts of their own. Empty: the device lists none.
fn interrupts_of(device: &Path) -> Vec<u32> {
    let is_part = fs::read_link(device.join("subsystem")).is_ok_and(|kind| kind.ends_with("virtio"));
    let directory = if is_part { device.join("..").join("msi_irqs") } else { device.join("msi_irqs") };
    let Ok(listed) = fs::read_dir(directory) else { return Vec::new() };
    let mut numbers: Vec<u32> =
        listed.flatten().filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok())).collect();
    numbers.sort_unstable();
    numbers
}

/// The machine's table, followed by the queues' values if there are queues.
fn read_flows(table: &Path, queues: &[PathBuf]) -> Result<String, SettingError> {
    let table = text(table)?;
    Ok(if queues.is_empty() { table } else { format!("{table} {}", read_each(queues)?) })
}

/// Sets the same. Returns the expected value of a read.
fn write_flows(table: &Path, queues: &[PathBuf], value: &str) -> Result<String, SettingError> {
    let (entries, each) = value.split_once(' ').ok_or_else(|| SettingError::NoPair(value.to_owned()))?;
    fs::write(table, entries)?;
    Ok(if queues.is_empty() { entries.to_owned() } else { format!("{entries} {}", write_each(queues, each)?) })
}

fn read_each(files: &[PathBuf]) -> Result<String, SettingError> {
    let values = files.iter().map(|file| text(file)).collect::<Result<Vec<_>, _>>()?;
    Ok(together(values.iter().map(|value| short(value)).collect()))
}

/// Writes one of the values to each file in turn. Returns the expected value of a read.
fn write_each(files: &[PathBuf], value: &str) -> Result<String, SettingError> {
    let values: Vec<_> = value.split(' ').cycle().take(files.len()).collect();
    files.iter().zip(&values).try_for_each(|(file, value)| fs::write(file, value))?;
    Ok(together(values.into_iter().map(str::to_owned).collect()))
}

/// One value if all agree, otherwise one for each.
fn together(mut values: Vec<String>) -> String {
    if values.iter().all(|value| *value == values[0]) {
        values.truncate(1);
    }
    values.join(" ")
}

fn attributes() -> io::Result<OwnedFd> {
    let made = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&made)?;
    Ok(fsmount(&made, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

/// A mask of processors without leading zeros.
fn short(mask: &str) -> String {
    let trimmed = mask.trim_start_matches(['0', ',']);
    if trimmed.is_empty() { "0".to_owned() } else { trimmed.to_owned() }
}

fn number(value: &str) -> Result<u32, SettingError> {
    value.parse().map_err(|_| SettingError::NoNumber(value.to_owned()))
}

fn text(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    Ok(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::space;
    use nix::unistd::Uid;
    use sidecore_testing::skipped;
    use std::os::unix::fs::symlink;
    use std::thread;

    fn each_member_of_a_feature_has_a_state_of_its_own() {
        space::enter_own().unwrap();
        let links = Links::here().unwrap();
        links.add_veth("near", "far").unwrap();
        let mut here = Here::of("near").unwrap();
        let [tso, checksum] = ["tso", "tx-checksum"].map(|name| by_name(name).unwrap());
        let mangled = &["tx-tcp-mangleid-segmentation"];
        for name in ["tx-tcp-ecn-segmentation", mangled[0]] {
            here.drivers.set_feature("near", name, false).unwrap();
        }
        let before = here.read(tso).unwrap();
        assert_eq!(before, "on on off");
        for tried in ["on", "off"] {
            here.write(tso, tried).unwrap();
            assert_eq!(here.read(tso).unwrap(), tried);
            here.write(tso, &before).unwrap();
            assert_eq!(here.read(tso).unwrap(), before);
        }
        // Without checksums TSO is not active, but requested: its request outlives being written back.
        here.write(checksum, "off").unwrap();
        let requested = here.read(tso).unwrap();
        assert_eq!(requested, "requested requested off");
        assert!(here.write(tso, "on").unwrap_err().to_string().contains("it stays at requested"));
        here.write(tso, "off").unwrap();
        here.write(tso, &requested).unwrap();
        here.write(checksum, "on").unwrap();
        assert_eq!(here.read(tso).unwrap(), before);
        assert!(!here.free(mangled).unwrap()[0].is_wanted, "nobody asked for it");
    }

    #[test]
    fn of_a_feature_that_is_put_back_each_member_is_as_it_was() {
        if !Uid::effective().is_root() {
            return skipped("only root makes interfaces in a namespace of its own without a process for it");
        }
        thread::spawn(each_member_of_a_feature_has_a_state_of_its_own).join().unwrap();
    }

    #[test]
    fn masks_are_compared_without_zeros_in_front() {
        assert_eq!(["00000000,00000003", "0", "f", "00"].map(short), ["3", "0", "f", "0"]);
    }

    #[test]
    fn values_are_written_in_turn_and_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let files: Vec<_> = ["a", "b", "c"].iter().map(|name| directory.path().join(name)).collect();
        for (value, read) in [("3", "3"), ("1 2", "1 2 1"), ("2 2", "2"), ("1 2 4", "1 2 4")] {
            assert_eq!(write_each(&files, value).unwrap(), read);
            assert_eq!(read_each(&files).unwrap(), read);
        }
    }

    #[test]
    fn of_flows_the_table_is_set_also_where_no_queue_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let [table, queue] = ["table", "queue"].map(|name| directory.path().join(name));
        let queues = [queue];
        assert_eq!(write_flows(&table, &queues, "32768 4096").unwrap(), "32768 4096");
        assert_eq!(read_flows(&table, &queues).unwrap(), "32768 4096");
        assert_eq!(write_flows(&table, &[], "0 0").unwrap(), "0");
        assert_eq!(read_flows(&table, &[]).unwrap(), "0");
        assert_eq!(text(&queues[0]).unwrap(), "4096");
    }

    #[test]
    fn interrupts_are_those_of_the_device_or_of_what_one_of_virtio_is_part_of() {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("0000:00:05.0");
        let [part, other] = ["virtio1", "0000:05:00.0"].map(|name| device.join(name));
        for (part, kind) in [(&part, "virtio"), (&other, "pci")] {
            fs::create_dir_all(part).unwrap();
            symlink(Path::new("../../../../bus").join(kind), part.join("subsystem")).unwrap();
        }
        assert!(interrupts_of(&part).is_empty());
        for number in ["10", "9", "config"] {
            fs::create_dir_all(device.join("msi_irqs").join(number)).unwrap();
        }
        assert_eq!((interrupts_of(&device), interrupts_of(&part)), (vec![9, 10], vec![9, 10]));
        assert!(interrupts_of(&other).is_empty(), "those are the bridge's");
    }
}
