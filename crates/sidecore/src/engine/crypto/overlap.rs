//! Where a request's input and output lie to each other in shared memory.

use crate::shm::span::Span;

/// Whether the two share bytes without starting at the same one: then a cipher would read what it already wrote, and
/// the request takes the private path. Same start or no common byte: it may run in place.
pub(super) fn partial(input: Span<'_>, output: Span<'_>) -> bool {
    let (from, to) = (input.as_ptr() as usize, output.as_ptr() as usize);
    from != to && from < to.saturating_add(output.len()) && to < from.saturating_add(input.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_shifted_overlap_is_partial() {
        let mut memory = [0u8; 64];
        let whole = Span::of(&mut memory);
        let at = |offset, len| whole.slice(offset, len).expect("inside");
        assert!(!partial(at(0, 16), at(0, 16)));
        assert!(!partial(at(0, 16), at(0, 32)));
        assert!(!partial(at(0, 16), at(16, 16)));
        assert!(!partial(at(32, 16), at(16, 16)));
        assert!(partial(at(0, 16), at(15, 16)));
        assert!(partial(at(16, 16), at(0, 17)));
    }
}
