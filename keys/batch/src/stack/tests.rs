//! Residue of keys below the frames of each kind of work.

use super::DEPTH;
use crate::sys::residue::{find, residue};
use crate::{MOST, cbc, p256};

/// Runs in a thread of its own, so that residue of other work is not found. The work knows its secrets before it
/// begins.
fn left(work: impl FnOnce() -> Vec<Vec<u8>> + Send + 'static) -> Vec<usize> {
    let thread = std::thread::spawn(|| {
        let secrets = work();
        let left = residue::<{ 4 * DEPTH }>();
        secrets.iter().filter_map(|secret| find(&left, secret)).collect()
    });
    thread.join().unwrap()
}

fn bytes<const LEN: usize>(seed: u8) -> [u8; LEN] {
    std::array::from_fn(|at| (at as u8).wrapping_mul(151) ^ seed)
}

#[test]
fn what_is_left_on_the_stack_is_found() {
    #[inline(never)]
    fn careless() {
        std::hint::black_box(&mut [bytes::<64>(7); 64]);
    }
    let found = left(|| {
        let secrets = vec![bytes::<64>(7).to_vec()];
        careless();
        secrets
    });
    assert!(!found.is_empty());
}

#[test]
fn no_round_key_is_left() {
    for unit in cbc::Unit::ALL.into_iter().filter(|unit| unit.is_here()) {
        for fill in 1..=MOST {
            let found = left(move || {
                let key = cbc::Key::new(&bytes::<32>(1)).unwrap();
                let secrets = key.round_keys();
                let mut outputs = [[0; 64]; MOST];
                let job = |output| cbc::Job { key: &key, vector: &[9; 16], input: &[3; 64], output };
                let mut jobs: Vec<_> = outputs[..fill].iter_mut().map(|output| job(&mut output[..])).collect();
                assert!(cbc::encrypt_by(unit, &mut jobs));
                secrets
            });
            assert_eq!(found, [], "{unit:?}, {fill} messages");
        }
    }
}

#[test]
fn no_private_number_is_left() {
    if p256::is_here() {
        let found = left(|| {
            let (private, nonce, mut output) = (bytes(3), bytes(4), [0; 2 * p256::LEN]);
            let secrets = [private, nonce].map(|number| digits(&number)).to_vec();
            let job =
                p256::Job { private: &private, nonce: &nonce, digest: &[7; 32], output: &mut output, good: false };
            assert!(p256::sign(&mut [job]));
            secrets
        });
        assert_eq!(found, []);
    }
}

/// The lowest digits of 52 bits of a number, as bytes in memory.
fn digits(number: &[u8; 32]) -> Vec<u8> {
    let low = u128::from_be_bytes(*number.last_chunk().unwrap());
    let mask = (1 << 52) - 1;
    [low & mask, low >> 52 & mask].iter().flat_map(|digit| (*digit as u64).to_le_bytes()).collect()
}
