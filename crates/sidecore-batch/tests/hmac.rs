//! HMAC with SHA-256 side by side, against AWS-LC's and the examples of RFC 4231.

#[path = "shared/operations.rs"]
mod operations;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac::{self as theirs, HMAC_SHA256};
use operations::operations;
use sidecore_batch::MOST;
use sidecore_batch::hmac::{self, Job, Key, TAG, Unit};

struct Message {
    key: Vec<u8>,
    input: Vec<u8>,
}

/// Bytes that look random.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let block = |at: u64| digest(&SHA256, &[seed.to_le_bytes(), at.to_le_bytes()].concat());
    (0..).flat_map(|at| block(at).as_ref().to_vec()).take(len).collect()
}

fn message(seed: u64, key: usize, len: usize) -> Message {
    Message { key: bytes(seed, key), input: bytes(!seed, len) }
}

fn ours(unit: Unit, messages: &[Message]) -> Vec<[u8; TAG]> {
    let keys: Vec<Key> = messages.iter().map(|message| Key::new(&message.key).unwrap()).collect();
    let mut tags = vec![[0; TAG]; messages.len()];
    let parts = messages.iter().zip(&keys).zip(&mut tags);
    let mut jobs: Vec<Job<'_>> =
        parts.map(|((message, key), output)| Job { key, input: &message.input, output }).collect();
    assert!(hmac::tags_by(unit, &mut jobs), "this machine cannot");
    tags
}

fn compare(messages: &[Message]) {
    let of = |message: &Message| theirs::sign(&theirs::Key::new(HMAC_SHA256, &message.key), &message.input);
    let expected: Vec<_> = messages.iter().map(of).collect();
    for unit in units() {
        for (at, found) in ours(unit, messages).iter().enumerate() {
            let (key, len) = (messages[at].key.len(), messages[at].input.len());
            assert_eq!(found, expected[at].as_ref(), "{unit:?}: {at} of {}, key {key}, {len} bytes", messages.len());
        }
    }
}

fn units() -> impl Iterator<Item = Unit> {
    Unit::ALL.into_iter().filter(|unit| unit.is_here())
}

/// Whether this machine has any unit; reports the missing ones.
fn is_here() -> bool {
    for unit in Unit::ALL.into_iter().filter(|unit| !unit.is_here()) {
        println!("{unit:?}: missing, nothing is compared");
    }
    hmac::is_here()
}

#[test]
fn the_examples_of_the_rfc_come_out() {
    if !is_here() {
        return;
    }
    let of_hex = |text: &str| -> Vec<u8> {
        (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
    };
    let examples: [(&[u8], &[u8], &str); 2] = [
        (b"Jefe", b"what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        (
            &[0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
    ];
    for (key, input, expected) in examples {
        let message = Message { key: key.to_vec(), input: input.to_vec() };
        for unit in units() {
            assert_eq!(ours(unit, std::slice::from_ref(&message))[0][..], of_hex(expected), "{unit:?}");
        }
    }
}

#[test]
fn every_length_around_blocks_has_the_tag_of_aws_lc_with_keys_shorter_and_longer_than_a_block() {
    if !is_here() {
        return;
    }
    let keys = [1, 16, 32, 63, 64, 65, 100, 200];
    for len in 0..=300 {
        let of = |at: usize| message((len * MOST + at) as u64, keys[at], len);
        compare(&(0..MOST).map(of).collect::<Vec<_>>());
    }
}

#[test]
fn messages_of_equal_and_of_mixed_lengths_are_those_of_aws_lc_at_each_fill() {
    if !is_here() {
        return;
    }
    for fill in 1..=MOST {
        let mixed = [[1024; MOST], [0, 1, 64, 1000, 5000, 63, 70_000, 128], [2000, 1024, 1025, 1500, 1983, 55, 56, 64]];
        for lengths in mixed {
            let of = |at: usize| message((fill * MOST + at) as u64, 32, lengths[at]);
            compare(&(0..fill).map(of).collect::<Vec<_>>());
        }
    }
}

#[test]
fn random_messages_are_those_of_aws_lc_at_random_fills() {
    if !is_here() {
        return;
    }
    let operations = operations(2000);
    let mut done = 0u64;
    while done < operations {
        let random = bytes(done, 1 + 3 * MOST);
        let fill = u64::from(random[0]) % MOST as u64 + 1;
        let of = |at: u64| {
            let [key, low, high] = [0, 1, 2].map(|part| usize::from(random[1 + 3 * at as usize + part]));
            message(done + at, key % 140, 256 * (high % 8) + low)
        };
        compare(&(0..fill).map(of).collect::<Vec<_>>());
        done += fill;
    }
    println!("{done} operations as by AWS-LC");
}

#[test]
fn more_than_fit_are_not_begun_with_and_none_are_soon_done() {
    if !is_here() {
        return;
    }
    let key = Key::new(&[1; 32]).unwrap();
    let mut tags = [[7; TAG]; MOST + 1];
    let mut jobs: Vec<Job<'_>> = tags.iter_mut().map(|output| Job { key: &key, input: &[], output }).collect();
    assert!(!hmac::tags(&mut jobs));
    assert!(hmac::tags(&mut jobs[..MOST]));
    assert!(hmac::tags(&mut []) && units().all(|unit| hmac::tags_by(unit, &mut [])));
    assert_eq!(tags[MOST], [7; TAG]);
}
