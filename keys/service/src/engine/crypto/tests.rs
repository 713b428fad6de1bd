//! Round trips, refusals and known answers of the sessions. Wycheproof's vectors run in `tests/wycheproof`.

mod known_answers;
mod refusals;
mod round_trips;
mod spans;
mod specs;

use sidecore_core::session::{Algorithm, Class, Op, Refusal};

use super::sample::{Sample, sample};
use super::{KeyMaterial, Scheme, Secret, Session, SessionSpec};

fn class(name: &str) -> Class {
    Class::from_name(name).expect("a class of that name")
}

fn open(scheme: Scheme, key: KeyMaterial) -> Session {
    Session::open(&SessionSpec { scheme, key }).expect("a good spec")
}

fn run(session: &Session, op: Op, head_len: usize, input: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut output = vec![0; session.output_len(op, head_len, input.len())?];
    let len = session.run(op, head_len, input, &mut output)?;
    output.truncate(len);
    Ok(output)
}

fn run_sample(sample: &Sample) -> Result<Vec<u8>, Refusal> {
    run(&Session::open(&sample.spec).expect("a good spec"), sample.op, sample.head_len, &sample.input)
}

fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<_> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pairs = digits.as_chunks::<2>().0;
    pairs.iter().map(|pair| u8::from_str_radix(str::from_utf8(pair).expect("ASCII"), 16).expect("hex")).collect()
}

fn symmetric(key: &[u8]) -> KeyMaterial {
    KeyMaterial::Symmetric(Secret::from(key))
}

fn private(key: &[u8]) -> KeyMaterial {
    KeyMaterial::Private(Secret::from(key))
}
