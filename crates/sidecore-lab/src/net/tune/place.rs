//! Reads and writes settings of an interface, in the namespace that this thread is in.

use super::ethtool::Ethtool;
use super::setting::{Place, Setting};
use crate::net::links::Links;
use rtnetlink::packet_route::link::LinkAttribute;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// See the module.
pub(crate) struct Here {
    interface: String,
    links: Links,
    drivers: Ethtool,
    /// The system's attributes as this namespace has them: the ones at `/sys` are of the namespace it was mounted in. It is
    /// mounted nowhere, and is gone when this is.
    attributes: Result<OwnedFd, String>,
}

impl Here {
    /// The interface of that name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn of(interface: &str) -> Result<Self, String> {
        let links = Links::here()?;
        links.find(interface)?;
        let attributes = attributes()
            .map_err(|error| format!("the attributes of interfaces cannot be mounted: {error}; it takes root"));
        Ok(Self { interface: interface.to_owned(), links, drivers: Ethtool::here()?, attributes })
    }

    /// The name of the interface.
    pub(super) fn interface(&self) -> &str {
        &self.interface
    }

    /// What it is now.
    ///
    /// # Errors
    /// It cannot be set here: why.
    pub(crate) fn read(&mut self, setting: &Setting) -> Result<String, String> {
        match setting.place {
            Place::Mtu => self.mtu(),
            Place::Feature(names) => {
                let free = self.free(names)?;
                Ok(if free.iter().any(|(_, is_on)| *is_on) { "on" } else { "off" }.to_owned())
            }
            Place::Driver(of, (kind, _)) => {
                let number = self.drivers.number(&self.interface, of, kind);
                number.map(|number| number.to_string()).ok_or_else(|| "the driver has none".to_owned())
            }
            Place::Queues(front, file) => self.read_queues(front, file),
            Place::Interface(file) => text(&self.directory()?.join(file)),
            Place::Sysctl(file) => text(&Path::new("/proc/sys/net").join(file)),
        }
    }

    /// Sets it, and looks whether it is set.
    ///
    /// # Errors
    /// It is refused: by whom and why.
    pub(crate) fn write(&mut self, setting: &Setting, value: &str) -> Result<(), String> {
        match setting.place {
            Place::Mtu => self.links.set_mtu(&self.interface, number(value)?)?,
            Place::Feature(names) => {
                for (name, _) in self.free(names)? {
                    self.drivers.set_feature(&self.interface, name, value == "on")?;
                }
            }
            Place::Driver(of, kind) => self.drivers.set_number(&self.interface, of, kind, number(value)?)?,
            Place::Queues(front, file) => self.write_queues(front, file, value)?,
            Place::Interface(file) => put(&self.directory()?.join(file), value)?,
            Place::Sysctl(file) => put(&Path::new("/proc/sys/net").join(file), value)?,
        }
        let now = self.read(setting)?;
        if now == value { Ok(()) } else { Err(format!("it stays at {now}")) }
    }

    /// Of these features those that can be changed, and whether they are on.
    fn free(&mut self, names: &[&'static str]) -> Result<Vec<(&'static str, bool)>, String> {
        let mut free = Vec::new();
        for name in names {
            let feature = self.drivers.feature(&self.interface, name).ok_or("the kernel does not say")?;
            free.extend(feature.is_free.then_some((*name, feature.is_on)));
        }
        if free.is_empty() { Err("the driver does not let one change it".to_owned()) } else { Ok(free) }
    }

    fn mtu(&self) -> Result<String, String> {
        let link = self.links.find(&self.interface)?;
        let mtu = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Mtu(bytes) => Some(bytes.to_string()),
            _ => None,
        });
        mtu.ok_or_else(|| "the kernel does not say".to_owned())
    }

    fn directory(&self) -> Result<PathBuf, String> {
        let root = self.attributes.as_ref().map_err(Clone::clone)?;
        Ok(Path::new("/proc/self/fd").join(root.as_raw_fd().to_string()).join("class/net").join(&self.interface))
    }

    /// The file of each queue whose name begins so.
    fn queues(&self, front: &str, file: &str) -> Result<Vec<PathBuf>, String> {
        let all = fs::read_dir(self.directory()?.join("queues")).map_err(|error| error.to_string())?;
        let own = all.flatten().filter(|queue| queue.file_name().to_string_lossy().starts_with(front));
        let mut own: Vec<_> = own.map(|queue| queue.path().join(file)).collect();
        own.sort();
        if own.is_empty() { Err("there is no queue".to_owned()) } else { Ok(own) }
    }

    /// One value where all queues agree, else one for each.
    fn read_queues(&self, front: &str, file: &str) -> Result<String, String> {
        let queues = self.queues(front, file)?;
        let mut values = queues.iter().map(|queue| text(queue)).collect::<Result<Vec<_>, _>>()?;
        for value in &mut values {
            *value = short(value);
        }
        if values.iter().all(|value| *value == values[0]) {
            values.truncate(1);
        }
        Ok(values.join(" "))
    }

    fn write_queues(&self, front: &str, file: &str, value: &str) -> Result<(), String> {
        let values: Vec<_> = value.split(' ').collect();
        for (at, queue) in self.queues(front, file)?.iter().enumerate() {
            put(queue, values.get(at).unwrap_or(&values[0]))?;
        }
        Ok(())
    }
}

/// Mounted nowhere.
fn attributes() -> io::Result<OwnedFd> {
    let made = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&made)?;
    Ok(fsmount(&made, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

/// A mask of processors without zeros in front.
fn short(mask: &str) -> String {
    let trimmed = mask.trim_start_matches(['0', ',']);
    if trimmed.is_empty() { "0".to_owned() } else { trimmed.to_owned() }
}

fn number(value: &str) -> Result<u32, String> {
    value.parse().map_err(|_| format!("{value} is no number"))
}

/// With one space where there is any.
fn text(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    Ok(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
}

fn put(path: &Path, value: &str) -> Result<(), String> {
    fs::write(path, value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn masks_are_compared_without_zeros_in_front() {
        assert_eq!(["00000000,00000003", "0", "f", "00"].map(short), ["3", "0", "f", "0"]);
    }
}
