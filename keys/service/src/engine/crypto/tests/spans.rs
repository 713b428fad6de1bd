//! Shared memory gives the same results as private memory.

use proptest::prelude::*;

use super::*;
use crate::shm::span::Span;

struct Arena(Vec<u8>);

impl Arena {
    fn new(len: usize) -> Self {
        Self(vec![0; len])
    }

    fn span(&mut self) -> Span<'_> {
        Span::of(&mut self.0)
    }
}

fn offered(class: Class) -> bool {
    match class.op() {
        Op::Noop | Op::Digest => true,
        Op::Encrypt => !class.name().contains("rsa"),
        Op::Decrypt => !class.name().contains("gcm") && !class.name().contains("poly") && !class.name().contains("rsa"),
        Op::Sign => class.name().starts_with("hmac"),
        _ => false,
    }
}

fn payload_at(class: Class) -> usize {
    match class.algorithm() {
        Algorithm::Aes128Gcm | Algorithm::Aes256Gcm | Algorithm::ChaCha20Poly1305 => 12,
        Algorithm::TripleDesCbc => 8,
        _ => 16,
    }
}

#[test]
fn it_is_offered_where_nothing_is_verified() {
    for class in Class::all() {
        let sample = sample(class, 64, 1);
        let session = Session::open(&sample.spec).expect("a good spec");
        let mut arena = Arena::new(sample.input.len() + sample.output_len);
        let span = arena.span();
        span.copy_from(&sample.input);
        let input = span.slice(0, sample.input.len()).expect("inside");
        let output = span.slice(sample.input.len(), sample.output_len).expect("inside");
        let run = session.run_spans(sample.op, sample.head_len, input, output);
        assert_eq!(run.is_some(), offered(class), "{}", class.name());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn apart_and_in_place_give_what_private_memory_gives(size in 16usize..5000, seed: u64) {
        for class in Class::all().filter(|class| offered(*class)) {
            let sample = sample(class, size, seed);
            let session = Session::open(&sample.spec).expect("a good spec");
            let expected = run(&session, sample.op, 0, &sample.input).expect("a good sample");
            let len = sample.input.len();
            for at in [len, payload_at(class)] {
                let mut arena = Arena::new(len + sample.output_len);
                let span = arena.span();
                span.copy_from(&sample.input);
                let input = span.slice(0, len).expect("inside");
                let output = span.slice(at.min(len), sample.output_len).expect("inside");
                let run = session.run_spans(sample.op, 0, input, output);
                prop_assert_eq!(run, Some(Ok(expected.len())), "{}", class.name());
                let mut written = vec![0; expected.len()];
                output.copy_to(&mut written);
                prop_assert_eq!(&written, &expected, "{} at {}", class.name(), at);
            }
        }
    }
}

#[test]
fn a_partial_overlap_takes_the_private_path() {
    for name in ["aes-256-gcm", "aes-128-ctr", "aes-128-cbc-decrypt", "aes-128-xts", "aes-256-xts"] {
        let sample = sample(class(name), 160, 1);
        let session = Session::open(&sample.spec).expect("a good spec");
        let mut arena = Arena::new(1000);
        let span = arena.span();
        let input = span.slice(100, sample.input.len()).expect("inside");
        for at in [payload_at(class(name)) + 99, payload_at(class(name)) + 101] {
            let output = span.slice(at, sample.output_len).expect("inside");
            assert_eq!(session.run_spans(sample.op, 0, input, output), None, "{name}");
        }
    }
}

#[test]
fn long_associated_data_takes_the_private_path() {
    let sample = sample(class("aes-256-gcm"), 200, 1);
    let session = Session::open(&sample.spec).expect("a good spec");
    let mut arena = Arena::new(1000);
    let span = arena.span();
    span.copy_from(&sample.input);
    let input = span.slice(0, sample.input.len()).expect("inside");
    let output = span.slice(500, 152).expect("inside");
    assert_eq!(session.run_spans(Op::Encrypt, 65, input, output), None);
    assert_eq!(session.run_spans(Op::Encrypt, 64, input, output), Some(Ok(152)));
    let mut written = vec![0; 152];
    output.copy_to(&mut written);
    assert_eq!(run(&session, Op::Encrypt, 64, &sample.input), Ok(written));
}
