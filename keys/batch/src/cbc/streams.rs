//! Several messages under encryption: all continue until the shortest of them ends, then the others.

use std::arch::x86_64::{__m128i, _mm_set_epi32};

use super::job::{BLOCK, Job, Key};
use crate::MOST;
use crate::sys::registers::load;

type Block = [u8; BLOCK];

pub(super) struct Stream<'a> {
    key: &'a Key,
    /// The previous ciphertext block, or the vector.
    pub(super) chained: __m128i,
    pub(super) input: &'a [Block],
    pub(super) output: &'a mut [Block],
}

impl Stream<'_> {
    #[target_feature(enable = "sse2")]
    #[inline]
    pub(super) fn key(&self, round: usize) -> __m128i {
        let words = |at: usize| self.key.schedule[4 * round + at].cast_signed();
        _mm_set_epi32(words(3), words(2), words(1), words(0))
    }

    /// Takes off `blocks` encrypted blocks; `chained` is the last of them.
    pub(super) fn advance(&mut self, blocks: usize, chained: __m128i) {
        self.chained = chained;
        self.input = &self.input[blocks..];
        self.output = &mut std::mem::take(&mut self.output)[blocks..];
    }
}

/// Encrypts messages: `go_on` does the given number of blocks of each remaining one.
pub(super) fn encrypt(jobs: &mut [Job<'_>], go_on: impl Fn(&mut [Stream<'_>], usize)) {
    let mut streams = Vec::with_capacity(MOST);
    streams.extend(jobs.iter_mut().map(|job| Stream {
        key: job.key,
        chained: load(job.vector),
        input: job.input.as_chunks().0,
        output: job.output.as_chunks_mut().0,
    }));
    streams.sort_by_key(|stream| std::cmp::Reverse(stream.input.len()));
    while let Some(shortest) = streams.last().map(|stream| stream.input.len()) {
        go_on(&mut streams, shortest);
        streams.retain(|stream| !stream.input.is_empty());
    }
}
