//! A ring against a peer that writes anything at any time.

use crate::{next_message, next_word};
use sidecore_core::ring::{Consumer, MESSAGE_WORDS, Message, Producer};
use sidecore_core::sync::Ordering;
use sidecore_core::words::{LINE_WORDS, Line};

const SLOTS: usize = 8;

/// A ring, and the expected words of its slots.
struct Model {
    slots: [Line; SLOTS],
    words: [[u64; LINE_WORDS]; SLOTS],
    producer: Producer,
    consumer: Consumer,
}

/// Interprets events of one byte each, with their operands: writes by the peer, pushes and pops. A pop succeeds if and
/// only if the next slot has the next number; it returns the slot's content; nothing else changes.
pub fn ring(mut data: &[u8]) {
    let mut model = Model {
        slots: Default::default(),
        words: [[0; LINE_WORDS]; SLOTS],
        producer: Producer::new(),
        consumer: Consumer::new(),
    };
    while let Some((&event, rest)) = data.split_first() {
        data = rest;
        // The low six bits name a word of the ring.
        let (slot, word) = (usize::from(event >> 3 & 7), usize::from(event & 7));
        match event >> 6 {
            0 => model.pop(),
            1 => model.push(&next_message(&mut data)),
            2 => model.write(slot, word, next_word(&mut data)),
            // A number near the expected one, which random bytes would rarely hit.
            _ => model.write(slot, MESSAGE_WORDS, model.consumer.popped().wrapping_add(word as u64).wrapping_sub(3)),
        }
        model.check();
    }
}

impl Model {
    fn pop(&mut self) {
        let popped = self.consumer.popped();
        let line = &self.words[popped as usize % SLOTS];
        let expected: Option<Message> = (line[MESSAGE_WORDS] == popped + 1).then(|| std::array::from_fn(|i| line[i]));
        assert_eq!(self.consumer.ready(&self.slots), expected.is_some());
        assert_eq!(self.consumer.pop(&self.slots), expected);
        assert_eq!(self.consumer.popped(), popped + u64::from(expected.is_some()));
    }

    fn push(&mut self, message: &Message) {
        let pushed = self.producer.pushed();
        let line = &mut self.words[pushed as usize % SLOTS];
        line[..MESSAGE_WORDS].copy_from_slice(message);
        line[MESSAGE_WORDS] = pushed + 1;
        self.producer.push(&self.slots, message);
        assert_eq!(self.producer.pushed(), pushed + 1);
    }

    fn write(&mut self, slot: usize, word: usize, value: u64) {
        self.words[slot][word] = value;
        self.slots[slot].0[word].store(value, Ordering::Relaxed);
    }

    fn check(&self) {
        for (line, words) in self.slots.iter().zip(&self.words) {
            assert!(line.0.iter().map(|word| word.load(Ordering::Relaxed)).eq(words.iter().copied()));
        }
    }
}
