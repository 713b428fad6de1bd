//! A queue: one lane of a program with many signatures in flight, and a descriptor for its event loop.
//!
//! The lane is armed whenever a program may sleep: from the start, and again when no further result is ready. So the
//! descriptor is readable as soon as there is a result, or the service has ended.

use crate::key::LoadedKey;
use crate::status::Fault;
use sidecore_client::client::{Buffer, Client, Options, Received, Request, Session};
use sidecore_client::keyops::credentials::Credentials;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::hasher::input;
use sidecore_client::keyops::key::{Key, Private};
use sidecore_client::keyops::lanes::Sessions;
use sidecore_client::keyops::sign::Prepared;
use sidecore_client::spec::Scheme;
use sidecore_core::session::{Op, Refusal};
use sidecore_core::wire::{Extent, Status};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// Slots of a queue without a number of its own.
const SLOTS: u32 = 64;
/// Most slots of a queue.
pub(crate) const MAX_SLOTS: u32 = 4096;
/// Arena for a slot's message or digest and its signature, bytes: the longest signature is one of ML-DSA-65.
const SLOT_BYTES: u32 = 4096;

/// A signature that was submitted, or the reason for having none.
pub(crate) struct Outcome {
    pub(crate) tag: u64,
    pub(crate) signature: Result<Vec<u8>, Fault>,
}

struct Slot {
    tag: u64,
    key: Arc<Key>,
    scheme: Scheme,
    op: Op,
    input: Buffer,
    /// Of the input, bytes: an empty one has a buffer, too.
    len: u32,
    output: Buffer,
    /// Where it was submitted last.
    session: Option<Session>,
    /// It was submitted twice: its first session had ended.
    again: bool,
}

pub(crate) struct Queue {
    client: Client,
    /// The lane has the rights of this user.
    credentials: Credentials,
    sessions: Sessions,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Why the lane ended. Nothing is submitted on it any more.
    ended: Option<Fault>,
    /// Signatures of the last results, which the program reads here.
    results: Vec<Vec<u8>>,
}

impl Queue {
    pub(crate) fn open(options: &Options, slots: u32) -> Result<Self, Fault> {
        if slots > MAX_SLOTS {
            return Err(Fault::Argument("slots"));
        }
        let slots = if slots == 0 { SLOTS } else { slots.next_power_of_two() };
        let arena_bytes = slots * SLOT_BYTES + (64 << 10);
        let credentials = Credentials::present();
        let mut client = Client::connect(&Options { slots, arena_bytes, ..options.clone() })?;
        // No completion is ready before the first submission.
        let _ = client.arm()?;
        let free = (0..client.slots()).rev().collect();
        let slots = (0..client.slots()).map(|_| None).collect();
        Ok(Self { client, credentials, sessions: Sessions::default(), slots, free, ended: None, results: Vec::new() })
    }

    pub(crate) fn descriptor(&mut self) -> Result<RawFd, Fault> {
        Ok(self.client.wake_fd()?.as_raw_fd())
    }

    pub(crate) fn submit(&mut self, key: &LoadedKey, scheme: u16, message: &[u8], tag: u64) -> Result<(), Fault> {
        if let Some(why) = &self.ended {
            return Err(why.clone());
        }
        if !self.credentials.are_present() {
            let text = "the queue has the rights of another user or group: open one as the present user";
            return Err(Failure::new(Reason::NotAllowed, text).into());
        }
        let settings = key.settings(scheme)?;
        let prepared = settings.prepare(&key.key, &input(&settings, message))?;
        let most = self.client.max_request_bytes() as usize;
        let size = prepared.payload.len().max(prepared.max_output);
        if size > most {
            let text = format!("a request of {size} bytes: the service takes up to {most} (limits.max_request_bytes)");
            return Err(Failure::input(text).into());
        }
        let Some(place) = self.free.pop() else { return Err(self.full()) };
        let begun = self.begin(place, key, prepared, tag);
        if begun.is_err() {
            self.free.push(place);
        }
        begun
    }

    fn begin(&mut self, place: u32, key: &LoadedKey, prepared: Prepared, tag: u64) -> Result<(), Fault> {
        let Prepared { scheme, op, payload, max_output } = prepared;
        let Ok(input) = self.client.alloc(payload.len().max(1) as u32) else {
            return Err(self.no_room(payload.len()));
        };
        let Ok(output) = self.client.alloc(max_output as u32) else {
            self.client.free(input);
            return Err(self.no_room(payload.len()));
        };
        let (key, len) = (Arc::clone(&key.key), payload.len() as u32);
        let mut slot = Slot { tag, key, scheme, op, input, len, output, session: None, again: false };
        let sent = self.client.write(&slot.input, 0, &payload).map_err(Fault::from);
        if let Err(fault) = sent.and_then(|()| self.send(place, &mut slot)) {
            self.release(slot);
            return Err(fault);
        }
        self.slots[place as usize] = Some(slot);
        Ok(())
    }

    fn send(&mut self, place: u32, slot: &mut Slot) -> Result<(), Fault> {
        let session = self.sessions.get(&mut self.client, &slot.key, &slot.scheme)?;
        slot.session = Some(session);
        let inputs = [Extent::new(slot.input.extent().offset, slot.len)];
        let outputs = [slot.output.extent()];
        let request = Request { session, op: slot.op, head_len: 0, inputs: &inputs, outputs: &outputs, urgent: true };
        self.client.submit(place, &request)?;
        self.client.ring();
        Ok(())
    }

    /// Keeps the signature of a result in its place in memory.
    pub(crate) fn keep_result(&mut self, signature: Vec<u8>) -> &[u8] {
        self.results.push(signature);
        self.results.last().map_or(&[], Vec::as_slice)
    }

    /// Ends what [`Self::keep_result`] began.
    pub(crate) fn forget_results(&mut self) {
        self.results.clear();
    }

    /// The next result. `None`: there is none, and the descriptor becomes readable with the next one.
    pub(crate) fn next(&mut self) -> Result<Option<Outcome>, Fault> {
        while self.ended.is_none() {
            if let Some(received) = self.client.poll() {
                if let Some(outcome) = self.finish(&received) {
                    return Ok(Some(outcome));
                }
                continue;
            }
            match self.client.arm() {
                Ok(true) => return Ok(None),
                Ok(false) => {}
                Err(error) => self.ended = Some(error.into()),
            }
        }
        let Some(why) = self.ended.clone() else { return Ok(None) };
        // Each submission has one result, also after the service's end.
        let Some(slot) = self.slots.iter_mut().find_map(Option::take) else { return Err(why) };
        let tag = slot.tag;
        self.release(slot);
        Ok(Some(Outcome { tag, signature: Err(why) }))
    }

    /// `None`: it was submitted again.
    fn finish(&mut self, received: &Received) -> Option<Outcome> {
        // A tag that is in no slot is not one of this queue.
        let mut slot = self.slots.get_mut(received.tag as usize)?.take()?;
        if received.status == Status::Refused(Refusal::NoSession) && !slot.again {
            // The key was replaced or its users changed: the new session, or its refusal, says which.
            // Others that were submitted there use the new one.
            if let Some(ended) = slot.session {
                self.sessions.forget(ended);
            }
            slot.again = true;
            match self.send(received.tag, &mut slot) {
                Ok(()) => {
                    self.slots[received.tag as usize] = Some(slot);
                    return None;
                }
                Err(fault) => return Some(self.done(received.tag, slot, Err(fault))),
            }
        }
        let signature = self.result(&slot, received.status);
        Some(self.done(received.tag, slot, signature))
    }

    fn done(&mut self, place: u32, slot: Slot, signature: Result<Vec<u8>, Fault>) -> Outcome {
        let tag = slot.tag;
        self.release(slot);
        self.free.push(place);
        Outcome { tag, signature }
    }

    fn result(&mut self, slot: &Slot, status: Status) -> Result<Vec<u8>, Fault> {
        match status {
            Status::Done { len } => {
                let mut signature = vec![0; len.min(slot.output.extent().len) as usize];
                self.client.read(&slot.output, 0, &mut signature)?;
                Ok(signature)
            }
            Status::Refused(refusal) => Err(refused(slot, refusal).into()),
            Status::DeviceFailed { device } => Err(sidecore_client::client::Error::DeviceFailed(device).into()),
        }
    }

    fn release(&mut self, slot: Slot) {
        self.client.free(slot.input);
        self.client.free(slot.output);
    }

    /// Results give room, unless there are none to come.
    fn no_room(&self, size: usize) -> Fault {
        if self.client.in_flight() > 0 {
            return self.full();
        }
        let text =
            format!("a message of {size} bytes in a queue for short ones: open it with more slots, or use a call");
        Failure::input(text).into()
    }

    fn full(&self) -> Fault {
        Fault::Full(self.client.slots())
    }
}

fn refused(slot: &Slot, refusal: Refusal) -> Failure {
    let reason = if refusal == Refusal::KeyLimit { Reason::Limit } else { Reason::Service };
    match &slot.key.private {
        Private::Stored(name) => Failure::new(reason, format!("key {name:?}: {}", refusal.message())),
        _ => Failure::new(reason, refusal.message()),
    }
}
