//! A client that keeps its lane full and checks every result against the engine in its own process.

use sidecore::client::{Buffer, Client, Error, Options, Received, Request, Session};
use sidecore::core::session::{Class, Op};
use sidecore::core::wire::{Extent, Status};
use sidecore::engine::crypto::{self, sample::sample};
use std::collections::HashMap;

const NONCE: u32 = 12;
const TAG: u32 = 16;
/// Bytes of text for three paths: copied by the service, in place, and in place over several pages.
const SIZES: [u32; 3] = [100, 1500, 9000];
const ROOM: u32 = NONCE + SIZES[2] + TAG;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) submitted: u64,
    pub(crate) done: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
}

impl Counts {
    pub(crate) fn answered(self) -> u64 {
        self.done + self.refused + self.failed
    }
}

struct Pair {
    op: Op,
    here: crypto::Session,
    there: Session,
}

struct Expected {
    buffer: Buffer,
    result: Vec<u8>,
    at: u32,
}

pub(crate) struct Load {
    client: Client,
    pairs: [Pair; 2],
    free: Vec<Buffer>,
    in_flight: HashMap<u32, Expected>,
    random: Random,
    next_tag: u32,
    pub(crate) counts: Counts,
}

impl Load {
    pub(crate) fn new(options: &Options, depth: u32, seed: u64) -> Result<Self, Error> {
        let mut client = Client::connect(options).map_err(Error::Connect)?;
        let pairs = [pair(&mut client, "aes-256-gcm")?, pair(&mut client, "sha-256")?];
        let free = (0..depth).map(|_| client.alloc(ROOM)).collect::<Result<_, _>>()?;
        let (random, counts) = (Random(seed), Counts::default());
        Ok(Self { client, pairs, free, in_flight: HashMap::new(), random, next_tag: 0, counts })
    }

    pub(crate) fn step(&mut self) -> Result<(), Error> {
        self.fill()?;
        self.take()
    }

    pub(crate) fn drain(&mut self) -> Result<(), Error> {
        while !self.in_flight.is_empty() {
            self.take()?;
        }
        Ok(())
    }

    pub(crate) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    pub(crate) fn fill(&mut self) -> Result<(), Error> {
        while let Some(buffer) = self.free.pop() {
            self.submit(buffer)?;
        }
        self.client.ring();
        Ok(())
    }

    fn submit(&mut self, buffer: Buffer) -> Result<(), Error> {
        let random = self.random.next();
        let pair = &self.pairs[usize::from(random.is_multiple_of(4))];
        let size = SIZES[(random >> 8) as usize % SIZES.len()];
        let input = self.random.bytes(NONCE + size);
        let mut result = vec![0; (size + TAG).max(64) as usize];
        let len = pair.here.run(pair.op, 0, &input, &mut result).map_err(Error::Refused)?;
        result.truncate(len);
        let at = if pair.op == Op::Encrypt { NONCE } else { 0 };
        self.client.write(&buffer, 0, &input)?;
        let from = buffer.prefix(input.len() as u32);
        let to = Extent::new(from.offset + at, len as u32);
        let urgent = (random >> 16).is_multiple_of(4);
        let request =
            Request { session: pair.there, op: pair.op, head_len: 0, inputs: &[from], outputs: &[to], urgent };
        self.client.submit(self.next_tag, &request)?;
        self.in_flight.insert(self.next_tag, Expected { buffer, result, at });
        self.next_tag += 1;
        self.counts.submitted += 1;
        Ok(())
    }

    fn take(&mut self) -> Result<(), Error> {
        let Received { tag, status, .. } = self.client.wait()?;
        let Expected { buffer, result, at } = self.in_flight.remove(&tag).expect("each tag is answered once");
        match status {
            Status::Done { len } => {
                let mut got = vec![0; len as usize];
                self.client.read(&buffer, at, &mut got)?;
                assert!(got == result, "request {tag} of {} bytes has a wrong result", result.len());
                self.counts.done += 1;
            }
            Status::Refused(_) => self.counts.refused += 1,
            Status::DeviceFailed { .. } => self.counts.failed += 1,
        }
        self.free.push(buffer);
        Ok(())
    }
}

fn pair(client: &mut Client, name: &str) -> Result<Pair, Error> {
    let sample = sample(Class::from_name(name).expect("a known class"), 64, 1);
    let here = crypto::Session::open(&sample.spec).expect("a good sample");
    Ok(Pair { op: sample.op, here, there: client.open_session(&sample.spec)? })
}

/// Xorshift: the same numbers for the same seed, which must not be 0.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit
    }

    fn bytes(&mut self, len: u32) -> Vec<u8> {
        let words = (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes());
        words.take(len as usize).collect()
    }
}
