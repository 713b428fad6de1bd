//! A queue of frames in memory of a fixed size.

use super::settings::MAX_FRAME;
use std::collections::VecDeque;
use std::ops::Range;

/// A ring of bytes. Each frame is contiguous: it starts at the beginning if it does not fit before the end.
pub(super) struct Store {
    bytes: Vec<u8>,
    frames: VecDeque<Range<usize>>,
    end: usize,
}

impl Store {
    pub(super) fn new(bytes: usize) -> Self {
        Self { bytes: vec![0; bytes.max(MAX_FRAME)], frames: VecDeque::with_capacity(4096), end: 0 }
    }

    /// Room for the next frame of any length; [`keep`](Self::keep) adds it. `None`: the store is full.
    pub(super) fn room(&mut self) -> Option<&mut [u8]> {
        let size = self.bytes.len();
        let (begin, limit) = match self.frames.front() {
            // An empty store always starts at the beginning, because that memory is still in the caches.
            None => (0, size),
            Some(oldest) if self.end <= oldest.start => (self.end, oldest.start),
            Some(_) if size - self.end >= MAX_FRAME => (self.end, size),
            Some(oldest) => (0, oldest.start),
        };
        if limit - begin < MAX_FRAME {
            return None;
        }
        self.end = begin;
        self.bytes.get_mut(begin..begin + MAX_FRAME)
    }

    /// `length` is not 0.
    pub(super) fn keep(&mut self, length: usize) {
        let begin = self.end;
        self.end = begin + length.min(MAX_FRAME);
        self.frames.push_back(begin..self.end);
    }

    pub(super) fn oldest(&self) -> Option<&[u8]> {
        self.bytes.get(self.frames.front()?.clone())
    }

    pub(super) fn forget(&mut self) {
        self.frames.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_sim::engine::Random;

    #[test]
    fn frames_come_out_as_they_came_whatever_their_lengths() {
        let mut random = Random::new(1);
        let mut store = Store::new(5 * MAX_FRAME + 1234);
        let mut kept = VecDeque::new();
        let mut full = 0;
        for number in 0..20_000_u64 {
            if random.below(100) < 52 {
                let length = 1 + random.below(MAX_FRAME as u64) as usize;
                match store.room() {
                    None => full += 1,
                    Some(room) => {
                        room[..length].fill(number as u8);
                        store.keep(length);
                        kept.push_back((length, number as u8));
                    }
                }
            } else if let Some((length, content)) = kept.pop_front() {
                let oldest = store.oldest().unwrap();
                assert_eq!((oldest.len(), oldest.iter().all(|byte| *byte == content)), (length, true), "{number}");
                store.forget();
            } else {
                assert_eq!(store.oldest(), None);
            }
        }
        assert!(full > 100, "{full}: it was never full");
    }

    #[test]
    fn it_is_full_when_the_largest_frame_does_not_fit_in_one_piece() {
        let mut store = Store::new(2 * MAX_FRAME);
        for _ in 0..2 {
            assert_eq!(store.room().unwrap().len(), MAX_FRAME);
            store.keep(MAX_FRAME);
        }
        assert!(store.room().is_none());
        store.forget();
        assert!(store.room().is_some());
    }
}
