//! Harnesses for hostile input: each takes any bytes and panics if a property does not hold.
//!
//! `cargo test -p sidecore-fuzz` runs all of them on some thousand inputs. For a longer search, with a nightly
//! compiler and cargo-fuzz installed:
//!
//! ```text
//! cargo +nightly fuzz run submission -- -max_total_time=10
//! ```
//!
//! To add one: a function here, a file in `fuzz_targets`, a `[[bin]]` in `Cargo.toml` and a property in `tests`.

mod ring;

pub use ring::ring;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sidecore::config::{Config, Setting};
use sidecore::control::{Reply, Request, decode, encode};
use sidecore::keys::uri::Uri;
use sidecore_core::policy::notify::Notify;
use sidecore_core::ring::{Consumer, MESSAGE_WORDS, Message, Producer};
use sidecore_core::wire::{Completion, Extent, MAX_EXTENTS, Submission};
use sidecore_core::words::Line;
use std::fmt::Debug;
use std::str;

/// The `main` of a fuzz target. Built without cargo-fuzz, it runs its harness on the files named as arguments, so that
/// a crash can be repeated with any compiler and debugger.
#[macro_export]
macro_rules! target {
    ($harness:ident) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::$harness(data));

        #[cfg(not(fuzzing))]
        fn main() -> std::io::Result<()> {
            std::env::args_os().skip(1).try_for_each(|file| std::fs::read(file).map(|data| $crate::$harness(&data)))
        }
    };
}

/// The next word; zeros after the end of the data.
fn next_word(data: &mut &[u8]) -> u64 {
    let (head, rest) = data.split_at(data.len().min(size_of::<u64>()));
    *data = rest;
    let mut bytes = [0; size_of::<u64>()];
    bytes[..head.len()].copy_from_slice(head);
    u64::from_le_bytes(bytes)
}

fn next_message(data: &mut &[u8]) -> Message {
    let mut words = [0; MESSAGE_WORDS];
    words.fill_with(|| next_word(data));
    words
}

fn end(extent: Extent) -> u64 {
    u64::from(extent.offset) + u64::from(extent.len)
}

/// A word with the arena's length in its low half, then the words of a slot. An accepted submission lies inside the
/// arena, and survives another round trip over the wire.
pub fn submission(mut data: &[u8]) {
    let arena = next_word(&mut data) as u32;
    let Ok(got) = Submission::parse(&next_message(&mut data), arena) else { return };
    assert!(got.inputs().chain(got.outputs()).all(|extent| end(extent) <= u64::from(arena)));
    assert!(got.inputs().len() + got.outputs().len() <= MAX_EXTENTS);
    assert!(u64::from(got.head_len()) <= got.input_len());
    assert_eq!(Submission::parse(got.words(), arena), Ok(got));
}

/// The words of a slot. An accepted completion survives another round trip over the wire.
pub fn completion(mut data: &[u8]) {
    let (words, slots) = (next_message(&mut data), [Line::default(), Line::default()]);
    let (mut producer, mut consumer) = (Producer::new(), Consumer::new());
    producer.push(&slots, &words);
    let received = Completion::receive(&mut consumer, &slots);
    let Ok(got) = received.expect("a message is there") else { return };
    assert_eq!(got.tag, words[0] as u32);
    match &got.stamps {
        Some(stamps) => producer.push(&slots, &Completion::sampled_words(got.tag, got.status, stamps)),
        None => producer.push(&slots, &Completion::words(got.tag, got.status)),
    }
    assert_eq!(Completion::receive(&mut consumer, &slots), Some(Ok(got)));
}

/// A control word, and the same bytes as a spelling. An accepted policy is the same by word and by spelling; any other
/// text gets an answer with the accepted spellings.
pub fn notify(data: &[u8]) {
    let word = next_word(&mut { data });
    if let Some(policy) = Notify::from_word(word) {
        assert_eq!(policy.to_word(), word);
        assert_eq!(Notify::parse(&policy.to_string()), Ok(policy));
    }
    let Ok(text) = str::from_utf8(data) else { return };
    match Notify::parse(text) {
        Ok(policy) => {
            assert_eq!(Notify::from_word(policy.to_word()), Some(policy));
            assert_eq!(Notify::parse(&policy.to_string()), Ok(policy));
        }
        Err(error) => assert!(error.to_string().contains("break-even")),
    }
}

/// A packet of the control socket, as a client's and as a service's. A decoded message survives another round trip.
pub fn control(data: &[u8]) {
    round_trip::<Request>(data);
    round_trip::<Reply>(data);
}

fn round_trip<M: Serialize + DeserializeOwned + PartialEq + Debug>(packet: &[u8]) {
    let Ok(message) = decode::<M>(packet) else { return };
    let mut buffer = vec![0; packet.len() + 64];
    let again = encode(&message, &mut buffer).expect("no longer than it came");
    assert_eq!(decode::<M>(again).expect("just encoded"), message);
}

/// A configuration file, and a setting: any text is accepted, or refused in one line with its place.
pub fn config(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    if let Err(error) = Config::parse(text) {
        assert!(!error.to_string().is_empty());
    }
    if let Err(error) = Setting::parse(text) {
        assert!(!error.to_string().is_empty());
    }
}

/// A key's URI, bare, in DER and in PEM. An accepted one survives another round trip, and DER has one spelling.
pub fn uri(data: &[u8]) {
    if let Ok(uri) = Uri::from_der(data) {
        assert_eq!(uri.to_der(), data);
        assert_eq!(Uri::from_pem(uri.to_pem().as_bytes()), Ok(uri));
    }
    if let Ok(uri) = Uri::from_pem(data) {
        assert_eq!(Uri::from_pem(uri.to_pem().as_bytes()), Ok(uri));
    }
    let Ok(text) = str::from_utf8(data) else { return };
    if let Ok(uri) = Uri::parse(text) {
        assert_eq!(uri.to_string(), text);
        assert_eq!(Uri::from_der(&uri.to_der()), Ok(uri));
    }
}
