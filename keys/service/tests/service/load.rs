//! A closed loop on one lane: a number of requests in flight, each checked at its completion.

use sidecore::client::{Buffer, Client, Received, Request, Session};
use sidecore::core::session::{Class, Op, Refusal};
use sidecore::core::stage::Stamps;
use sidecore::core::wire::Status;
use sidecore::engine::crypto::{self, sample::sample};
use std::collections::HashMap;

/// Longest wait for an answer before the test calls it a stall, ns.
const STALL: u64 = 20_000_000_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) done: u32,
    pub(crate) refused: Vec<Refusal>,
    pub(crate) failed: Vec<u8>,
}

struct RequestSlot {
    input: Vec<u8>,
    expected: Vec<u8>,
    from: Buffer,
    to: Option<Buffer>,
}

/// The load. Every tag is new, so that a second completion would be found.
pub(crate) struct Load {
    pub(crate) client: Client,
    pub(crate) tally: Tally,
    pub(crate) stages: Vec<(Stamps, u64)>,
    pub(crate) urgent: bool,
    session: Session,
    op: Op,
    places: Vec<RequestSlot>,
    free: Vec<usize>,
    in_flight: HashMap<u32, usize>,
    next_tag: u32,
}

impl Load {
    /// Up to `places` requests in flight, of a class with determined results (encryption, digest or signature).
    /// `in_place`: the output overwrites the input.
    pub(crate) fn new(mut client: Client, class: &str, size: usize, places: usize, in_place: bool) -> Self {
        let class = Class::from_name(class).unwrap();
        let sample = sample(class, size, 5);
        let session = client.open_session(&sample.spec).unwrap();
        let local = crypto::Session::open(&sample.spec).unwrap();
        let places: Vec<RequestSlot> = (0..places)
            .map(|number| {
                let mut input = sample.input.clone();
                if let Some(last) = input.last_mut().filter(|_| class.op() == Op::Encrypt) {
                    *last = number as u8;
                }
                let mut expected = vec![0; sample.output_len];
                let len = local.run(sample.op, 0, &input, &mut expected).unwrap();
                expected.truncate(len);
                let room = sample.input.len().max(sample.output_len).max(1) as u32;
                let from = client.alloc(room).unwrap();
                client.write(&from, 0, &input).unwrap();
                let to = (!in_place).then(|| client.alloc(room).unwrap());
                RequestSlot { input, expected, from, to }
            })
            .collect();
        let free = (0..places.len()).collect();
        Self {
            client,
            tally: Tally::default(),
            stages: Vec::new(),
            urgent: false,
            session,
            op: sample.op,
            places,
            free,
            in_flight: HashMap::new(),
            next_tag: 0,
        }
    }

    /// Completes `total` requests, with all places in use until the last are submitted.
    pub(crate) fn run(&mut self, total: u32) {
        let mut left = total;
        while left > 0 || !self.in_flight.is_empty() {
            left -= self.fill(left);
            self.take_one();
        }
    }

    pub(crate) fn fill(&mut self, most: u32) -> u32 {
        let mut submitted = 0;
        while submitted < most
            && let Some(place) = self.free.pop()
        {
            self.submit(place);
            submitted += 1;
        }
        self.client.ring();
        submitted
    }

    pub(crate) fn take_one(&mut self) {
        let in_flight = self.in_flight.len();
        let received = self.client.wait_for(STALL).unwrap();
        self.check(received.unwrap_or_else(|| panic!("stalled with {in_flight} in flight, {:?}", self.tally)));
    }

    pub(crate) fn finish(&mut self) {
        while !self.in_flight.is_empty() {
            self.take_one();
        }
    }

    fn submit(&mut self, number: usize) {
        let place = &self.places[number];
        if place.to.is_none() {
            self.client.write(&place.from, 0, &place.input).unwrap();
        }
        let inputs = [place.from.prefix(place.input.len() as u32)];
        let outputs = [place.to.as_ref().unwrap_or(&place.from).extent()];
        let request = Request {
            session: self.session,
            op: self.op,
            head_len: 0,
            inputs: &inputs,
            outputs: &outputs,
            urgent: self.urgent,
        };
        self.client.submit(self.next_tag, &request).unwrap();
        self.in_flight.insert(self.next_tag, number);
        self.next_tag += 1;
    }

    fn check(&mut self, received: Received) {
        let number = self.in_flight.remove(&received.tag).expect("an answer for each request, once");
        self.free.push(number);
        self.stages.extend(received.stages);
        match received.status {
            Status::Done { len } => {
                let place = &self.places[number];
                let mut got = vec![0; len as usize];
                self.client.read(place.to.as_ref().unwrap_or(&place.from), 0, &mut got).unwrap();
                assert!(got == place.expected, "a wrong result of {} bytes", got.len());
                self.tally.done += 1;
            }
            Status::Refused(refusal) => self.tally.refused.push(refusal),
            Status::DeviceFailed { device } => self.tally.failed.push(device),
        }
    }
}
