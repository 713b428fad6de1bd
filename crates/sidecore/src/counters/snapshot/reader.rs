//! Reading the file. It is read, not mapped: a file that becomes shorter meanwhile is an error and no crash.

use super::{ClassStats, Histogram, ReadReason, SidecoreStats, Snapshot, Stats};
use crate::counters::about::{ClassAbout, Front};
use crate::counters::kinds::{ClassCounter, Counter, SidecoreCounter};
use crate::counters::layout::{Filed, GENERATION, HISTOGRAM, MAGIC, VERSION, header};
use crate::counters::{Shape, Start, WORD};
use crate::sys::clock;
use sidecore_core::generation::{is_open, whole};
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
    let mut classes = BTreeMap::new();
    for index in 0..shape.sidecores as usize {
        snapshot.sidecores.extend(sidecore(file, shape.block::<SidecoreCounter>(index), index, &mut classes)?);
    }
    snapshot.classes = classes.into_values().collect();
    snapshot.devices = all(file, &shape, shape.devices)?;
    // A key is counted by sidecores; without one there is nothing to read.
    snapshot.keys = all(file, &shape, if shape.sidecores > 0 { shape.keys } else { 0 })?;
    snapshot.lanes = all(file, &shape, shape.lanes)?;
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
fn sidecore(
    file: &File,
    at: Range<usize>,
    index: usize,
    classes: &mut BTreeMap<Class, ClassStats>,
) -> Read<Option<SidecoreStats>> {
    let front = words(file, at.start..at.start + SidecoreCounter::TIMES_FIRST)?;
    if !is_open(front[GENERATION]) {
        return Ok(None);
    }
    for class in Class::all() {
        let counters = &front[SidecoreCounter::class_first(class)..][..ClassCounter::COUNT];
        if counters[ClassCounter::Requests as usize] > 0 {
            let first = at.start + SidecoreCounter::TIMES_FIRST + class.index() * Stage::COUNT * HISTOGRAM;
            let times = words(file, first..first + ClassCounter::STAGES.len() * HISTOGRAM)?;
            let sum = classes.entry(class).or_insert_with(|| Stats::new(class.index(), ClassAbout { class }));
            sum.merge(&Stats { counters: counters.to_vec(), stages: histograms(&times), ..sum.clone() });
        }
    }
    Ok(Some(stats(&front, index)))
}

/// The open ones of a kind, each added up over its blocks.
fn all<C: Filed>(file: &File, shape: &Shape, count: u32) -> Read<Vec<Stats<C>>> {
    let mut all = Vec::new();
    for index in 0..count as usize {
        let Some(words) = open(file, shape.block::<C>(index))? else { continue };
        let mut blocks = words.chunks_exact(C::WORDS).map(|words| stats(words, index));
        let Some(mut sum): Option<Stats<C>> = blocks.next() else { continue };
        blocks.for_each(|more| sum.merge(&more));
        all.push(sum);
    }
    Ok(all)
}

fn stats<C: Filed>(words: &[u64], index: usize) -> Stats<C> {
    Stats {
        index,
        generation: words[GENERATION],
        about: C::About::read(words),
        counters: words[C::FIRST..][..C::ROWS.len()].to_vec(),
        stages: histograms(&words[C::TIMES_FIRST..][..C::STAGES.len() * HISTOGRAM]),
    }
}

fn histograms(words: &[u64]) -> Vec<Histogram> {
    words.chunks_exact(HISTOGRAM).map(Histogram::from_words).collect()
}

/// The words of a block, or of several that follow each other, if the first was open and stayed so while it was read.
fn open(file: &File, at: Range<usize>) -> Read<Option<Vec<u64>>> {
    whole(|| word(file, at.start + GENERATION), || words(file, at.clone()))
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
