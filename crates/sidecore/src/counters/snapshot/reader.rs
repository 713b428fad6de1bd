//! Reading the file. It is read, not mapped: a file that becomes shorter meanwhile is an error and no crash.

use super::{ClassStats, DeviceStats, Histogram, KeyStats, LaneStats, ReadReason, SidecoreStats, Snapshot};
use crate::config::DeviceKind;
use crate::counters::block::place_of;
use crate::counters::kinds::{DeviceCounter, KeyCounter, LaneCounter, SidecoreCounter};
use crate::counters::layout::{
    GENERATION, HISTOGRAM, MAGIC, NAME_WORDS, VERSION, device, header, key as key_block, lane, sidecore as core_block,
};
use crate::counters::{Shape, Start, WORD, text};
use crate::sys::clock;
use sidecore_core::dispatch::DeviceState;
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::Notify;
use sidecore_core::policy::order::Order;
use sidecore_core::session::Class;
use sidecore_core::stage::Stage;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

type Read<T> = Result<T, ReadReason>;

/// Classes by their numbers while the sidecores are added up.
type Classes = BTreeMap<Class, ClassStats>;

pub(super) fn read(path: &Path) -> Read<Snapshot> {
    let file = File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => ReadReason::Missing,
        _ => ReadReason::Unreadable(error),
    })?;
    let head = words(&file, 0..header::WORDS).map_err(|reason| match reason {
        ReadReason::Damaged => ReadReason::Foreign,
        other => other,
    })?;
    let mut snapshot = describe(&head)?;
    let size = file.metadata().map_err(ReadReason::Unreadable)?.len();
    if size < (snapshot.shape.words() * WORD) as u64 {
        return Err(ReadReason::Damaged);
    }
    fill(&file, &mut snapshot)?;
    Ok(snapshot)
}

fn fill(file: &File, snapshot: &mut Snapshot) -> Read<()> {
    let shape = snapshot.shape;
    let mut classes = Classes::new();
    for index in 0..shape.sidecores as usize {
        snapshot.sidecores.extend(sidecore(file, shape.sidecore(index), index, &mut classes)?);
    }
    for index in 0..shape.devices as usize {
        let found = block(file, shape.device(index))?;
        snapshot.devices.extend(found.map(|words| device(&words, index)));
    }
    // A key is counted by sidecores; without one there is nothing to read.
    for place in 0..if shape.sidecores > 0 { shape.keys as usize } else { 0 } {
        let found = block(file, shape.key(place))?;
        snapshot.keys.extend(found.map(|words| key(&words, place)));
    }
    for index in 0..shape.lanes as usize {
        let found = block(file, shape.lane(index))?;
        snapshot.lanes.extend(found.map(|words| lane(&words, index)));
    }
    snapshot.classes = classes.into_values().collect();
    Ok(())
}

/// Checks the header and takes over what it says.
fn describe(head: &[u64]) -> Read<Snapshot> {
    if head[header::MAGIC] != MAGIC {
        return Err(ReadReason::Foreign);
    }
    if head[header::VERSION] != VERSION {
        return Err(ReadReason::Version(head[header::VERSION]));
    }
    let small = |word: usize| u32::try_from(head[word]).map_err(|_| ReadReason::Damaged);
    let shape = Shape {
        sidecores: small(header::SIDECORES)?,
        lanes: small(header::LANES)?,
        devices: small(header::DEVICES)?,
        keys: small(header::KEYS)?,
    };
    if !shape.is_within_limits() {
        return Err(ReadReason::Damaged);
    }
    let start =
        Start { pid: small(header::PID)?, sample_every: small(header::SAMPLE_EVERY)?, now: head[header::START] };
    // Read after the heartbeat, so that of a living service it is never before.
    let taken = clock::now();
    Ok(Snapshot {
        shape,
        start,
        heartbeat: head[header::HEARTBEAT],
        taken,
        interval: taken.saturating_sub(start.now),
        notify: std::array::from_fn(|hop| Notify::from_word(head[header::NOTIFY + hop])),
        clients_may_spin: head[header::CLIENTS_MAY_SPIN] != 0,
        balance: usize::try_from(head[header::BALANCE]).ok().and_then(|index| Balance::ALL.get(index).copied()),
        order: usize::try_from(head[header::ORDER]).ok().and_then(|index| Order::ALL.get(index).copied()),
        sidecores: Vec::new(),
        keys: Vec::new(),
        devices: Vec::new(),
        lanes: Vec::new(),
        classes: Vec::new(),
    })
}

/// Reads a sidecore's block without the histograms of classes that nobody asked for: most of it.
fn sidecore(file: &File, at: Range<usize>, index: usize, classes: &mut Classes) -> Read<Option<SidecoreStats>> {
    let front = words(file, at.start..at.start + core_block::STAGES)?;
    if !is_open(front[GENERATION]) {
        return Ok(None);
    }
    for class in Class::all() {
        let word = core_block::CLASSES + 2 * class.index();
        let (requests, bytes) = (front[word], front[word + 1]);
        if requests > 0 {
            let first = at.start + core_block::STAGES + class.index() * Stage::COUNT * HISTOGRAM;
            let stages = stages(&words(file, first..first + Stage::COUNT * HISTOGRAM)?);
            add_class(classes, ClassStats { class, requests, bytes, stages });
        }
    }
    let place = place_of(front[core_block::CPU], front[core_block::MAY_SPIN]);
    let counters = counters::<{ SidecoreCounter::COUNT }>(&front, core_block::COUNTERS);
    Ok(Some(SidecoreStats { index, place, counters }))
}

fn add_class(classes: &mut Classes, more: ClassStats) {
    let Some(sum) = classes.get_mut(&more.class) else {
        classes.insert(more.class, more);
        return;
    };
    sum.requests = sum.requests.saturating_add(more.requests);
    sum.bytes = sum.bytes.saturating_add(more.bytes);
    sum.stages.iter_mut().zip(&more.stages).for_each(|(sum, more)| sum.merge(more));
}

fn device(words: &[u64], index: usize) -> DeviceStats {
    let states = [DeviceState::Active, DeviceState::Draining, DeviceState::Gone];
    let (kind, place) = (name(words, device::KIND), place_of(words[device::CPU], words[device::MAY_SPIN]));
    DeviceStats {
        index,
        generation: words[GENERATION],
        name: name(words, device::NAME),
        sidecore: words[device::SIDECORE] as u32,
        worker: (kind == DeviceKind::Worker.name()).then_some(place),
        kind,
        state: states.into_iter().find(|state| *state as u64 == words[device::STATE]),
        counters: counters::<{ DeviceCounter::COUNT }>(words, device::COUNTERS),
        time: Histogram::from_words(&words[device::TIME..][..HISTOGRAM]),
    }
}

/// Adds up what the sidecores counted.
fn key(words: &[u64], place: usize) -> KeyStats {
    let mut sum = KeyStats {
        place,
        generation: words[GENERATION],
        name: text::unpack(&words[key_block::NAME..][..key_block::NAME_WORDS]),
        counters: [0; KeyCounter::COUNT],
        stages: std::array::from_fn(|_| Histogram::default()),
    };
    for words in words.chunks_exact(key_block::WORDS) {
        let more = counters::<{ KeyCounter::COUNT }>(words, key_block::COUNTERS);
        sum.counters.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        let histograms = words[key_block::STAGES..].chunks_exact(HISTOGRAM).take(key_block::KEPT_STAGES);
        sum.stages.iter_mut().zip(histograms).for_each(|(sum, more)| sum.merge(&Histogram::from_words(more)));
    }
    sum
}

fn lane(words: &[u64], index: usize) -> LaneStats {
    LaneStats {
        index,
        generation: words[GENERATION],
        pid: words[lane::PID] as u32,
        uid: words[lane::UID] as u32,
        sidecore: words[lane::SIDECORE] as u32,
        name: name(words, lane::NAME),
        counters: counters::<{ LaneCounter::COUNT }>(words, lane::COUNTERS),
        stages: stages(&words[lane::STAGES..]),
    }
}

fn name(words: &[u64], first: usize) -> String {
    text::unpack(&words[first..first + NAME_WORDS])
}

fn counters<const N: usize>(words: &[u64], first: usize) -> [u64; N] {
    std::array::from_fn(|i| words[first + i])
}

fn stages(words: &[u64]) -> [Histogram; Stage::COUNT] {
    std::array::from_fn(|stage| Histogram::from_words(&words[stage * HISTOGRAM..][..HISTOGRAM]))
}

/// The words of a block, if it was open and stayed so while it was read.
fn block(file: &File, at: Range<usize>) -> Read<Option<Vec<u64>>> {
    let generation = word(file, at.start + GENERATION)?;
    if !is_open(generation) {
        return Ok(None);
    }
    let words = words(file, at.clone())?;
    let stayed = words[GENERATION] == generation && word(file, at.start + GENERATION)? == generation;
    Ok(stayed.then_some(words))
}

fn is_open(generation: u64) -> bool {
    generation & 1 == 1
}

fn word(file: &File, at: usize) -> Read<u64> {
    let mut bytes = [0; WORD];
    read_at(file, &mut bytes, at)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn words(file: &File, at: Range<usize>) -> Read<Vec<u64>> {
    let mut bytes = vec![0; at.len() * WORD];
    read_at(file, &mut bytes, at.start)?;
    let (words, _) = bytes.as_chunks::<WORD>();
    Ok(words.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect())
}

fn read_at(file: &File, bytes: &mut [u8], word: usize) -> Read<()> {
    file.read_exact_at(bytes, (word * WORD) as u64).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => ReadReason::Damaged,
        _ => ReadReason::Unreadable(error),
    })
}
