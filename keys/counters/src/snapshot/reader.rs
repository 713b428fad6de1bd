//! The reader of the counter file. It reads instead of mapping: a file that shrinks meanwhile is an error and no
//! crash.

use super::error::SnapshotErrorKind;
use super::{ClassStats, Histogram, SidecoreStats, Snapshot, Stats};
use crate::about::{ClassAbout, unpack};
use crate::kinds::{ClassCounter, Counter, SidecoreCounter};
use crate::layout::{Filed, GENERATION, HISTOGRAM, LIMIT_WORDS, MAGIC, Shape, Start, VERSION, WORD, header};
use crate::limits::{Limit, LimitUse};
use rustix::fs::{Mode, OFlags, open};
use sidecore_core::generation::{is_open, whole};
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::Notify;
use sidecore_core::session::Class;
use sidecore_core::stage::Stage;
use sidecore_ipc::sys::clock;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(super) fn read(path: &Path) -> Result<Snapshot, SnapshotErrorKind> {
    // Of a FIFO, an opening that waits would wait for a writer. Nothing can be read at a place of one.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let file = File::from(open(path, flags, Mode::empty()).map_err(io::Error::from)?);
    let head = words(&file, 0..header::WORDS).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => SnapshotErrorKind::Foreign,
        _ => error.into(),
    })?;
    let mut snapshot = describe(&head)?;
    if file.metadata()?.len() < (snapshot.shape.words() * WORD) as u64 {
        return Err(SnapshotErrorKind::Damaged);
    }
    fill(&file, &mut snapshot)?;
    Ok(snapshot)
}

fn fill(file: &File, snapshot: &mut Snapshot) -> io::Result<()> {
    let shape = snapshot.shape;
    let mut classes = BTreeMap::new();
    for index in 0..shape.sidecores as usize {
        snapshot.sidecores.extend(sidecore(file, shape.block::<SidecoreCounter>(index), index, &mut classes)?);
    }
    snapshot.classes = classes.into_values().collect();
    snapshot.devices = all(file, &shape, shape.devices)?;
    // Sidecores count keys: without a sidecore there is nothing to read.
    snapshot.keys = all(file, &shape, if shape.sidecores > 0 { shape.keys } else { 0 })?;
    snapshot.lanes = all(file, &shape, shape.lanes)?;
    Ok(())
}

fn describe(head: &[u64]) -> Result<Snapshot, SnapshotErrorKind> {
    if head[header::MAGIC] != MAGIC {
        return Err(SnapshotErrorKind::Foreign);
    }
    if head[header::VERSION] != VERSION {
        return Err(SnapshotErrorKind::Version(head[header::VERSION]));
    }
    let about: Option<(Shape, Start)> = unpack(&head[header::ABOUT..header::HEARTBEAT]);
    let (shape, start) = about.filter(|(shape, _)| shape.is_within_limits()).ok_or(SnapshotErrorKind::Damaged)?;
    // Read after the heartbeat, so that a living service's heartbeat is never in the future.
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
        limits: limits(head),
        sidecores: Vec::new(),
        keys: Vec::new(),
        devices: Vec::new(),
        lanes: Vec::new(),
        classes: Vec::new(),
    })
}

/// The published limits.
fn limits(head: &[u64]) -> Vec<LimitUse> {
    let words = head[header::LIMITS..].chunks_exact(LIMIT_WORDS);
    let uses = Limit::ALL.into_iter().zip(words).map(|(limit, words)| {
        let uid = words[2].checked_sub(1).and_then(|uid| u32::try_from(uid).ok());
        LimitUse { limit, used: words[0], most: words[1], uid }
    });
    uses.filter(|of| of.most > 0).collect()
}

/// Reads a sidecore's block without the histograms of unused classes, which are most of it.
fn sidecore(
    file: &File,
    at: Range<usize>,
    index: usize,
    classes: &mut BTreeMap<Class, ClassStats>,
) -> io::Result<Option<SidecoreStats>> {
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

fn all<C: Filed>(file: &File, shape: &Shape, count: u32) -> io::Result<Vec<Stats<C>>> {
    let mut all = Vec::new();
    for index in 0..count as usize {
        let Some(words) = open_words(file, shape.block::<C>(index))? else { continue };
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
        about: unpack(&words[GENERATION + 1..C::FIRST]).unwrap_or_default(),
        counters: words[C::FIRST..][..C::ROWS.len()].to_vec(),
        stages: histograms(&words[C::TIMES_FIRST..][..C::STAGES.len() * HISTOGRAM]),
    }
}

fn histograms(words: &[u64]) -> Vec<Histogram> {
    words.chunks_exact(HISTOGRAM).map(Histogram::from_words).collect()
}

/// The words of a block, or of several in sequence, if the first was open before and after the read.
fn open_words(file: &File, at: Range<usize>) -> io::Result<Option<Vec<u64>>> {
    whole(|| word(file, at.start + GENERATION), || words(file, at.clone()))
}

fn word(file: &File, at: usize) -> io::Result<u64> {
    let mut bytes = [0; WORD];
    file.read_exact_at(&mut bytes, (at * WORD) as u64)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn words(file: &File, at: Range<usize>) -> io::Result<Vec<u64>> {
    let mut bytes = vec![0; at.len() * WORD];
    file.read_exact_at(&mut bytes, (at.start * WORD) as u64)?;
    let (words, _) = bytes.as_chunks::<WORD>();
    Ok(words.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect())
}
