//! AES in CBC mode side by side, against AWS-LC's and the example of NIST SP 800-38A.

#[path = "shared/operations.rs"]
mod operations;

use aws_lc_rs::cipher::{AES_128, AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use operations::operations;
use sidecore_batch::MOST;
use sidecore_batch::cbc::{self, BLOCK, Job, KEYS, Key, Unit};

struct Message {
    key: Vec<u8>,
    vector: [u8; BLOCK],
    input: Vec<u8>,
}

fn message(seed: u64, key: usize, blocks: usize) -> Message {
    let len = key + BLOCK + blocks * BLOCK;
    let bytes: Vec<u8> = (0..).flat_map(|at| digest(&[seed, at])).take(len).collect();
    let (key, rest) = bytes.split_at(key);
    let (vector, input) = rest.split_at(BLOCK);
    Message { key: key.to_vec(), vector: vector.try_into().unwrap(), input: input.to_vec() }
}

fn digest(of: &[u64]) -> Vec<u8> {
    let bytes: Vec<u8> = of.iter().flat_map(|word| word.to_le_bytes()).collect();
    aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &bytes).as_ref().to_vec()
}

fn theirs(message: &Message) -> Vec<u8> {
    let algorithm = if message.key.len() == 16 { &AES_128 } else { &AES_256 };
    let key = EncryptingKey::cbc(UnboundCipherKey::new(algorithm, &message.key).unwrap()).unwrap();
    let mut data = message.input.clone();
    key.less_safe_encrypt(&mut data, EncryptionContext::Iv128(FixedLength::from(message.vector))).unwrap();
    data
}

fn ours(unit: Unit, messages: &[Message]) -> Vec<Vec<u8>> {
    let keys: Vec<Key> = messages.iter().map(|message| Key::new(&message.key).unwrap()).collect();
    let mut outputs: Vec<Vec<u8>> = messages.iter().map(|message| vec![0; message.input.len()]).collect();
    let parts = messages.iter().zip(&keys).zip(&mut outputs);
    let mut jobs: Vec<Job<'_>> = parts
        .map(|((message, key), output)| Job { key, vector: &message.vector, input: &message.input, output })
        .collect();
    assert!(cbc::encrypt_by(unit, &mut jobs), "this machine cannot");
    outputs
}

fn compare(messages: &[Message]) {
    let expected: Vec<_> = messages.iter().map(theirs).collect();
    for unit in units() {
        for (at, (message, found)) in messages.iter().zip(ours(unit, messages)).enumerate() {
            let (of, len) = (messages.len(), message.input.len());
            assert_eq!(found, expected[at], "{unit:?}: message {at} of {of}, {len} bytes");
        }
    }
}

fn units() -> impl Iterator<Item = Unit> {
    Unit::ALL.into_iter().filter(|unit| unit.is_here())
}

fn is_here() -> bool {
    for unit in Unit::ALL.into_iter().filter(|unit| !unit.is_here()) {
        println!("{unit:?}: missing, nothing is compared");
    }
    cbc::is_here()
}

#[test]
fn the_examples_of_nist_come_out() {
    if !is_here() {
        return;
    }
    let of_hex = |text: &str| -> Vec<u8> {
        (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
    };
    let examples = [
        ("2b7e151628aed2a6abf7158809cf4f3c", "7649abac8119b246cee98e9b12e9197d"),
        ("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4", "f58c4c04d6e5f1ba779eabfb5f7bfbd6"),
    ];
    for (key, expected) in examples {
        let input = of_hex("6bc1bee22e409f96e93d7e117393172a");
        let vector = std::array::from_fn(|at| at as u8);
        let message = [Message { key: of_hex(key), vector, input }];
        units().for_each(|unit| assert_eq!(ours(unit, &message), [of_hex(expected)], "{unit:?}"));
    }
}

#[test]
fn messages_of_equal_and_of_mixed_lengths_are_those_of_aws_lc_at_each_fill_with_mixed_keys() {
    if !is_here() {
        return;
    }
    for key in KEYS {
        for fill in 1..=MOST {
            for lengths in [[5; MOST], [0, 1, 2, 3, 64, 64, 1, 0], [9, 0, 1, 7, 3, 200, 2, 2]] {
                let of = |at: usize| message((fill * MOST + at) as u64, key, lengths[at]);
                compare(&(0..fill).map(of).collect::<Vec<_>>());
            }
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
        let random = digest(&[done]);
        let (fill, key) = (u64::from(random[0]) % MOST as u64 + 1, KEYS[usize::from(random[1] & 1)]);
        let blocks = |at: u64| usize::from(random[2 + at as usize] % 20);
        compare(&(0..fill).map(|at| message(done + at, key, blocks(at))).collect::<Vec<_>>());
        done += fill;
    }
    println!("{done} operations as by AWS-LC");
}

#[test]
fn what_does_not_fit_together_is_not_begun_with() {
    if !is_here() {
        return;
    }
    assert!([0, 15, 17, 24, 33].into_iter().all(|len| Key::new(&vec![1; len]).is_none()));
    let keys = KEYS.map(|len| Key::new(&vec![1; len]).unwrap());
    let vector = [0; BLOCK];
    let refuses = |lengths: &[(usize, usize, usize)]| {
        let inputs: Vec<Vec<u8>> = lengths.iter().map(|(_, input, _)| vec![1; *input]).collect();
        let mut outputs: Vec<Vec<u8>> = lengths.iter().map(|(.., output)| vec![7; *output]).collect();
        let parts = lengths.iter().zip(&inputs).zip(&mut outputs);
        let mut jobs: Vec<Job<'_>> = parts
            .map(|(((key, ..), input), output)| Job { key: &keys[*key], vector: &vector, input, output })
            .collect();
        !cbc::encrypt(&mut jobs) && outputs.iter().flatten().all(|byte| *byte == 7)
    };
    assert!(refuses(&[(0, 16, 16), (1, 16, 16)]), "keys of two lengths");
    assert!(refuses(&[(0, 16, 16), (0, 17, 17)]), "a part of a block");
    assert!(refuses(&[(0, 16, 32)]), "an output of another length");
    assert!(refuses(&[(0, 16, 16); MOST + 1]), "more than side by side");
    assert!(!refuses(&[(0, 16, 16); MOST]));
}
