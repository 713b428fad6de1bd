//! The counter file, as its service writes it.

use crate::about::{self, KeyAbout};
use crate::kinds::{DeviceCounter, KeyCounter};
use crate::layout::{self, Filed, LIMIT_WORDS, Shape, Start, WORD, header};
use crate::limits::LimitUse;
use block::{Block, DeviceBlock, KeyBlock, LaneBlock, SidecoreBlock};
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, fchmod, ftruncate, open, rename, unlink};
use rustix::io::Errno;
use sidecore_core::generation::{Generation, renew};
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::{Notify, Waiters};
use sidecore_core::sync::{AtomicU64, Ordering};
use sidecore_core::time::Nanos;
use sidecore_core::words::{LINE_BYTES, LINE_WORDS, Line};
use sidecore_ipc::shm::Mapping;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) mod block;
#[cfg(test)]
mod tests;

/// Bytes kept of the name of a key.
pub const MAX_KEY_NAME: usize = 64;
/// Readable by all users, writable by the service alone.
const MODE: Mode = Mode::from_raw_mode(0o644);

/// Path of the counter file that belongs to a socket.
pub fn counters_beside(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".counters");
    PathBuf::from(path)
}

/// The counter file, as its service writes it. It stays after the service's end, until the next service replaces it.
#[derive(Debug)]
pub struct Counters {
    mapping: Mapping,
    file: OwnedFd,
    shape: Shape,
    /// Bytes of the whole mapping: stored, so that counting computes nothing.
    bytes: usize,
}

impl Counters {
    /// Makes the file, readable by all users, and atomically replaces an older one.
    ///
    /// # Errors
    /// The shape exceeds its limits, the file cannot be made there, or there is no space for it.
    pub fn create(path: &Path, shape: Shape, start: Start) -> io::Result<Arc<Self>> {
        let (counters, draft) = Self::draft(path, shape, start)?;
        draft.publish()?;
        Ok(counters)
    }

    /// The same, but the file gets its name, and replaces an older one, only when it is published.
    ///
    /// # Errors
    /// As for [`Counters::create`].
    pub fn draft(path: &Path, shape: Shape, start: Start) -> io::Result<(Arc<Self>, Draft)> {
        if !shape.is_within_limits() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{shape:?} exceeds {:?}", Shape::LIMIT)));
        }
        let bytes = shape.words() * WORD;
        let draft = Draft::new(path, bytes)?;
        reserve(&draft.file, 0, shape.keys_start() * WORD)?;
        let mapping = Mapping::new(&draft.file, bytes)?;
        describe(mapping.lines(header::WORDS * WORD), shape, start);
        let file = draft.file.try_clone()?;
        Ok((Arc::new(Self { mapping, file, shape, bytes }), draft))
    }

    /// Number of its blocks.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The service is alive at this time.
    pub fn heartbeat(&self, now: Nanos) {
        self.set(header::HEARTBEAT, now);
    }

    /// Policies in force: those of the four hops (service, to device, from device, client), and how devices are chosen.
    pub fn set_policies(&self, notify: [Notify; 4], balance: Balance) {
        for (i, notify) in notify.into_iter().enumerate() {
            self.set(header::NOTIFY + i, notify.to_word());
        }
        self.set(header::BALANCE, balance as u64);
    }

    /// Whether clients are advised that they may spin.
    pub fn set_clients_may_spin(&self, may_spin: bool) {
        self.set(header::CLIENTS_MAY_SPIN, u64::from(may_spin));
    }

    /// Present use of a limit.
    pub fn set_limit(&self, of: &LimitUse) {
        let first = header::LIMITS + of.limit as usize * LIMIT_WORDS;
        let values = [of.used, of.most, of.uid.map_or(0, |uid| u64::from(uid) + 1)];
        values.into_iter().enumerate().for_each(|(i, value)| self.set(first + i, value));
    }

    /// The waiting threads, from the blocks.
    pub fn waiters(self: &Arc<Self>) -> Waiters {
        let (sidecores, devices) = (0..self.shape.sidecores as usize, 0..self.shape.devices as usize);
        let devices = devices.map(|index| self.device(index));
        Waiters {
            sidecores: sidecores.filter_map(|index| Some(self.sidecore(index).about()?.place)).collect(),
            workers: devices.filter_map(|device| device.about()?.waits(device.get(DeviceCounter::State))).collect(),
            clients_may_spin: self.word(header::CLIENTS_MAY_SPIN).load(Ordering::Relaxed) != 0,
        }
    }

    /// The block of that sidecore.
    ///
    /// # Panics
    /// There is no such number.
    pub fn sidecore(self: &Arc<Self>, index: usize) -> SidecoreBlock {
        self.block(index)
    }

    /// The block of that lane.
    ///
    /// # Panics
    /// There is no such number.
    pub fn lane(self: &Arc<Self>, index: usize) -> LaneBlock {
        self.block(index)
    }

    /// The block of that device.
    ///
    /// # Panics
    /// There is no such number.
    pub fn device(self: &Arc<Self>, index: usize) -> DeviceBlock {
        self.block(index)
    }

    /// That sidecore's block for the key at that place.
    ///
    /// # Panics
    /// There is no such sidecore or place.
    pub fn key(self: &Arc<Self>, sidecore: usize, place: usize) -> KeyBlock {
        Block::new(self, self.shape.key_on(sidecore, place).start)
    }

    /// A key of this name is at that place now: all sidecores count from 0. The first [`MAX_KEY_NAME`] bytes of the name are kept.
    ///
    /// # Errors
    /// The file system has no space left for the blocks.
    ///
    /// # Panics
    /// There is no such place.
    pub fn open_key(self: &Arc<Self>, place: usize, name: &str) -> io::Result<()> {
        let words = self.shape.block::<KeyCounter>(place);
        self.reserve(words.start, words.len())?;
        let about = KeyAbout { name: about::cut(name, MAX_KEY_NAME) };
        let fill = || (0..self.shape.sidecores as usize).for_each(|sidecore| self.key(sidecore, place).fill(&about));
        renew(self.generations(place), fill);
        Ok(())
    }

    /// The key at that place was removed.
    ///
    /// # Panics
    /// There is no such place.
    pub fn close_key(self: &Arc<Self>, place: usize) {
        self.generations(place).for_each(Generation::close);
    }

    fn block<C: Filed>(self: &Arc<Self>, index: usize) -> Block<C> {
        Block::new(self, self.shape.block::<C>(index).start)
    }

    fn generations(&self, place: usize) -> impl Iterator<Item = Generation<'_>> + Clone {
        let word = move |sidecore| self.shape.key_on(sidecore, place).start + layout::GENERATION;
        (0..self.shape.sidecores as usize).map(move |sidecore| Generation(self.word(word(sidecore))))
    }

    /// Called before the first write to these words.
    fn reserve(&self, word: usize, words: usize) -> io::Result<()> {
        reserve(&self.file, word * WORD, words * WORD)
    }

    #[inline]
    fn word(&self, word: usize) -> &AtomicU64 {
        word_of(self.mapping.lines(self.bytes), word)
    }

    fn set(&self, word: usize, value: u64) {
        self.word(word).store(value, Ordering::Relaxed);
    }
}

/// A file that is not in its place yet. Removed when dropped before that.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    target: PathBuf,
    file: OwnedFd,
}

impl Draft {
    fn new(target: &Path, bytes: usize) -> io::Result<Self> {
        let mut path = target.as_os_str().to_owned();
        path.push(format!(".{}.new", std::process::id()));
        let path = PathBuf::from(path);
        // A service with the same process id may have died here and left its draft.
        let _ = unlink(&path);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let draft = Self { file: open(&path, flags, MODE)?, path, target: target.to_owned() };
        // The process's umask must not deny reading.
        fchmod(&draft.file, MODE)?;
        ftruncate(&draft.file, bytes as u64)?;
        Ok(draft)
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn publish(self) -> io::Result<()> {
        Ok(rename(&self.path, &self.target)?)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After `publish` no file has this name.
        let _ = unlink(&self.path);
    }
}

/// Reserves space for a part of the file: on a full file system a store into a hole kills the process.
fn reserve(file: &OwnedFd, offset: usize, bytes: usize) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), offset as u64, bytes as u64) {
        // A file system that cannot reserve is used without.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[inline]
fn word_of(lines: &[Line], word: usize) -> &AtomicU64 {
    &lines[word / LINE_WORDS].0[word % LINE_WORDS]
}

fn describe(lines: &[Line], shape: Shape, start: Start) {
    let about = about::pack(&(shape, start), header::HEARTBEAT - header::ABOUT);
    let words = [layout::MAGIC, layout::VERSION].into_iter().chain(about).chain([start.now]);
    words.enumerate().for_each(|(word, value)| word_of(lines, word).store(value, Ordering::Relaxed));
}

const _: () = assert!(LINE_BYTES == LINE_WORDS * WORD && header::WORDS.is_multiple_of(LINE_WORDS));
