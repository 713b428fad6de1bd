//! A queue between one producer and one consumer that do not trust each other, in shared memory.
//!
//! A slot is one cache line: seven words of message and a sequence word. Message `n` (counted from 0) goes to slot `n
//! mod capacity`, and is published by storing `n + 1` in the slot's sequence word. The consumer knows the number of
//! its next message, so one cache-line transfer carries message and publication together, and no cursor is shared.
//!
//! The ring does not report free slots to the producer; the protocol does. At most `capacity` requests are in flight,
//! and a completion frees a submission slot. A peer that breaks this rule only overwrites its own messages.
//!
//! Indices and capacity are private to each side. A peer's writes can delay or garble messages, but never make an
//! access leave the slots.
//!
//! Source of the idea: sequence numbers in slots as in D. Vyukov's bounded queue, reduced to one producer and
//! consumer.

use crate::sync::{Ordering, Reliance};
use crate::words::{LINE_WORDS, Line};

/// Words of one message.
pub const MESSAGE_WORDS: usize = LINE_WORDS - 1;
/// Content of one slot.
pub type Message = [u64; MESSAGE_WORDS];

const SEQUENCE: usize = MESSAGE_WORDS;

/// The sending side's private state. The slots are passed to each call.
#[derive(Debug)]
pub struct Producer {
    next: u64,
}

/// The receiving side's private state. The slots are passed to each call.
#[derive(Debug)]
pub struct Consumer {
    next: u64,
}

/// The words of a message that is being written or taken. The peer may change them at any time.
#[derive(Debug)]
pub struct Words<'s>(&'s Line);

impl Words<'_> {
    /// Reads the word of that number, below [`MESSAGE_WORDS`]. Read it once.
    #[inline]
    pub fn at(&self, number: usize) -> u64 {
        self.0.0[..SEQUENCE][number].load(Ordering::Relaxed)
    }

    /// Writes the word of that number, below [`MESSAGE_WORDS`].
    #[inline]
    pub fn put(&self, number: usize, value: u64) {
        self.0.0[..SEQUENCE][number].store(value, Ordering::Relaxed);
    }
}

#[inline]
fn slot(slots: &[Line], number: u64) -> &Line {
    debug_assert!(slots.len().is_power_of_two());
    &slots[number as usize & (slots.len() - 1)]
}

impl Producer {
    /// A producer for a fresh, zeroed ring.
    pub fn new() -> Self {
        Self { next: 0 }
    }

    /// Writes a message into the next slot and publishes it. The caller keeps the rule of the in-flight limit:
    /// the slot's previous message was answered. Of a message that is shorter than a slot the other words are
    /// undefined.
    #[inline]
    pub fn push<const N: usize>(&mut self, slots: &[Line], message: &[u64; N]) {
        const { assert!(N <= MESSAGE_WORDS, "longer than a slot") };
        self.push_words(slots, |words| {
            message.iter().enumerate().for_each(|(number, value)| words.put(number, *value));
        });
    }

    /// As [`Producer::push`], for a message written directly into the slot. A core keeps few stores waiting for a
    /// slot's line, and a copy of the message would take some of them.
    #[inline]
    pub fn push_words(&mut self, slots: &[Line], write: impl FnOnce(Words<'_>)) {
        let line = slot(slots, self.next);
        write(Words(line));
        self.next += 1;
        // Release: a consumer that sees the sequence number sees its message.
        line.0[SEQUENCE].store(self.next, Reliance::RingPublish.ordering(Ordering::Release));
    }

    /// Messages pushed since the ring was made.
    #[inline]
    pub fn pushed(&self) -> u64 {
        self.next
    }
}

impl Consumer {
    /// A consumer for a fresh, zeroed ring.
    pub fn new() -> Self {
        Self { next: 0 }
    }

    /// Whether the next message has arrived. Reads one word.
    #[inline]
    pub fn ready(&self, slots: &[Line]) -> bool {
        self.look(slots).is_some()
    }

    #[inline]
    fn look<'s>(&self, slots: &'s [Line]) -> Option<&'s Line> {
        let line = slot(slots, self.next);
        // Acquire: pairs with the release in `push`.
        let look = Reliance::RingLook.ordering(Ordering::Acquire);
        (line.0[SEQUENCE].load(look) == self.next + 1).then_some(line)
    }

    /// Takes the next message, if it has arrived. Each word is read once, into private memory.
    #[inline]
    pub fn pop(&mut self, slots: &[Line]) -> Option<Message> {
        self.pop_words(slots, |words| core::array::from_fn(|number| words.at(number)))
    }

    /// As [`Consumer::pop`], for a message with only some words of interest, each read once.
    #[inline]
    pub fn pop_words<T>(&mut self, slots: &[Line], read: impl FnOnce(Words<'_>) -> T) -> Option<T> {
        let read = read(Words(self.look(slots)?));
        self.next += 1;
        Some(read)
    }

    /// Messages taken since the ring was made.
    #[inline]
    pub fn popped(&self) -> u64 {
        self.next
    }
}

impl Default for Producer {
    fn default() -> Self {
        Self::new()
    }
}

impl Default for Consumer {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn slots(capacity: usize) -> Vec<Line> {
        (0..capacity).map(|_| Line::default()).collect()
    }

    proptest! {
        /// Any order of pushes and pops within the in-flight limit behaves as a queue.
        #[test]
        fn is_a_queue(operations in proptest::collection::vec(any::<bool>(), 1..400), log in 1u32..6) {
            let slots = slots(1 << log);
            let (mut producer, mut consumer) = (Producer::new(), Consumer::new());
            let mut oracle = VecDeque::new();
            for (i, push) in operations.into_iter().enumerate() {
                if push && oracle.len() < slots.len() {
                    let message = [i as u64; MESSAGE_WORDS];
                    producer.push(&slots, &message);
                    oracle.push_back(message);
                } else if !push {
                    prop_assert_eq!(consumer.pop(&slots), oracle.pop_front());
                }
            }
            prop_assert_eq!(producer.pushed() - consumer.popped(), oracle.len() as u64);
        }

        /// For any writes of a peer, a message appears exactly where it writes the next sequence number, and the
        /// consumer never moves alone.
        #[test]
        fn hostile_words_do_no_harm(writes in proptest::collection::vec((0usize..4, word(), value()), 0..300)) {
            let slots = slots(4);
            let mut consumer = Consumer::new();
            for (line, word, value) in writes {
                slots[line].0[word].store(value, Ordering::Relaxed);
                let before = consumer.popped();
                let words: [u64; LINE_WORDS] =
                    core::array::from_fn(|i| slots[before as usize % 4].0[i].load(Ordering::Relaxed));
                let expected = (words[SEQUENCE] == before + 1).then_some(&words[..SEQUENCE]);
                let got = consumer.pop(&slots);
                prop_assert_eq!(got.as_ref().map(|message| &message[..]), expected);
                prop_assert_eq!(consumer.popped(), before + u64::from(got.is_some()));
            }
        }
    }

    /// A word of a slot: the sequence word every second time.
    fn word() -> impl Strategy<Value = usize> {
        prop_oneof![Just(SEQUENCE), 0..LINE_WORDS]
    }

    /// A sequence number that is or was or will be the next, or anything.
    fn value() -> impl Strategy<Value = u64> {
        prop_oneof![3 => 0u64..8, 1 => any::<u64>()]
    }

    #[test]
    fn a_stale_or_future_sequence_is_not_a_message() {
        let slots = slots(4);
        let mut consumer = Consumer::new();
        for sequence in [0, 2, 5, u64::MAX] {
            slots[0].0[SEQUENCE].store(sequence, Ordering::Relaxed);
            assert_eq!(consumer.pop(&slots), None);
        }
        slots[0].0[SEQUENCE].store(1, Ordering::Relaxed);
        assert!(consumer.pop(&slots).is_some());
    }
}
