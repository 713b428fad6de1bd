//! Whether the time of an operation depends on its secret: Welch's t over times with two secrets in random order, as in
//! "Dude, is my code constant time?" (Reparaz, Balasch, Verbauwhede, 2017). It complements `tests/secrets`, which decide:
//! a time also has caches, frequencies and other programs in it.
//!
//! `cargo bench -p sidecore-batch --bench timing -- 100000`: that many measurements of each operation. Each prints the
//! largest |t| over several limits of outliers. Below 4.5 no difference was found, and the last row must be above.

use std::hint::black_box;
use std::time::Instant;

use sidecore_batch::rsa::{self, Key, Parts};
use sidecore_batch::{MOST, cbc, p256};

const MEASUREMENTS: usize = 50_000;
/// |t| above which times differ, by the paper.
const DIFFERENT: f64 = 4.5;
/// Shares of the shortest times that count, in percent: the longest are those of interrupts.
const KEPT: [usize; 6] = [50, 75, 90, 95, 99, 100];

fn main() {
    // `cargo bench` passes an option of its own.
    let count = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(MEASUREMENTS);
    println!("|operation|secrets|measurements|ns, median|largest \\|t\\||\n|---|---|---|---|---|");
    if rsa::is_here() {
        let keys = [key(3), key(151)];
        measure("RSA-1024, one of a batch", "two keys", count, &keys, |key| {
            let (input, mut output) = ([1; 128], [0; 128]);
            let mut jobs = [rsa::Job { key, input: &input, output: &mut output, good: false }];
            black_box(rsa::private(&mut jobs));
        });
    }
    if p256::is_here() {
        let secrets = [([1; p256::LEN], [0xfe; p256::LEN]), ([0xf0; p256::LEN], [3; p256::LEN])];
        measure("ECDSA P-256, one of a batch", "two keys and nonces", count, &secrets, |(private, nonce)| {
            let (digest, mut output) = (&[7; p256::LEN], [0; 2 * p256::LEN]);
            let mut jobs = [p256::Job { private, nonce, digest, output: &mut output, good: false }];
            black_box(p256::sign(&mut jobs));
        });
    }
    if cbc::Unit::Fours.is_here() {
        let secrets = [[0x55; 32], [0xfe; 32]].map(|secret| (cbc::Key::new(&secret), [secret[0]; 16 * cbc::BLOCK]));
        measure("AES-256-CBC, a batch", "two keys and messages", count, &secrets, |(key, input)| {
            let (Some(key), mut outputs) = (key, [[0; 16 * cbc::BLOCK]; MOST]) else { return };
            let job = |output| cbc::Job { key, vector: &[0; 16], input: &input[..], output };
            let mut jobs: Vec<cbc::Job<'_>> = outputs.iter_mut().map(|output| job(&mut output[..])).collect();
            black_box(cbc::encrypt_by(cbc::Unit::Fours, &mut jobs));
        });
    }
    measure("a planted branch", "1000 and 1010 rounds", count, &[1_000, 1_010], |rounds| {
        black_box((0..*rounds).fold(7_u64, |sum, round| black_box(sum ^ round)));
    });
}

fn measure<T>(operation: &str, secrets: &str, count: usize, both: &[T; 2], mut work: impl FnMut(&T)) {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        // Marsaglia's xorshift64.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let class = (random >> 63) as usize;
        let began = Instant::now();
        work(&both[class]);
        times.push((class, began.elapsed().as_nanos() as u64));
    }
    let mut sorted: Vec<u64> = times.iter().map(|(_, ns)| *ns).collect();
    sorted.sort_unstable();
    let at = |percent: usize| sorted[(count * percent / 100).min(count - 1)];
    let largest = KEPT.map(|percent| welch(&times, at(percent)).abs()).into_iter().fold(0.0, f64::max);
    let verdict = if largest < DIFFERENT { "" } else { ", differs" };
    println!("|{operation}|{secrets}|{count}|{}|{largest:.1}{verdict}|", at(50));
}

/// Welch's t of the times up to `limit`, ns.
fn welch(times: &[(usize, u64)], limit: u64) -> f64 {
    let of = |class: usize| {
        let kept = times.iter().filter(move |(of, ns)| *of == class && *ns <= limit).map(|(_, ns)| *ns as f64);
        let (count, sum) = kept.clone().fold((0.0, 0.0), |(count, sum), ns| (count + 1.0, sum + ns));
        let mean = sum / f64::max(count, 1.0);
        let variance = kept.map(|ns| (ns - mean).powi(2)).sum::<f64>() / f64::max(count - 1.0, 1.0);
        (mean, variance / f64::max(count, 1.0))
    };
    let ((one, error), (other, more)) = (of(0), of(1));
    (one - other) / f64::max(error + more, f64::MIN_POSITIVE).sqrt()
}

/// Numbers in the form of a key of RSA-1024, made from a seed. They belong to no key: the work is the same.
fn key(seed: u8) -> Key {
    let number = |at: u8, len: usize| {
        let mut bytes: Vec<u8> = (0..len).map(|byte| (byte as u8).wrapping_mul(seed) ^ at.wrapping_mul(97)).collect();
        (bytes[0], bytes[len - 1]) = (bytes[0] | 0x80, bytes[len - 1] | 1);
        bytes
    };
    let [p, q, dp, dq, coefficient] = [1, 2, 3, 4, 5].map(|at| number(at, 64));
    let modulus = number(6, 128);
    let parts = Parts { modulus: &modulus, primes: [&p, &q], exponents: [&dp, &dq], coefficient: &coefficient };
    Key::new(&parts).expect("a key in form")
}
