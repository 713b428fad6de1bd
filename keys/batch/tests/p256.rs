//! Signatures on P-256 side by side, against RFC 6979's, those of another implementation with the same nonce, and
//! AWS-LC's verification.

#[path = "shared/operations.rs"]
mod operations;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use operations::operations;
use p256::elliptic_curve::ops::Reduce;
use p256::elliptic_curve::point::AffineCoordinates;
use p256::elliptic_curve::sec1::ToEncodedPoint;
use p256::{ProjectivePoint, Scalar};
use sidecore_batch::MOST;
use sidecore_batch::p256::{self as lanes, Job, LEN, ORDER};

type Bytes = [u8; LEN];
type Signature = [u8; 2 * LEN];

type Input = (Bytes, Bytes, Bytes);

fn theirs((private, nonce, digest): &Input) -> Signature {
    let [private, nonce, digest] = [private, nonce, digest].map(reduced);
    let r = reduced(&(ProjectivePoint::GENERATOR * nonce).to_affine().x().into());
    let s = nonce.invert().unwrap() * (digest + r * private);
    [r.to_bytes(), s.to_bytes()].concat().try_into().unwrap()
}

fn reduced(number: &Bytes) -> Scalar {
    Scalar::reduce_bytes(&(*number).into())
}

fn ours(inputs: &[Input]) -> Vec<Option<Signature>> {
    let mut outputs = vec![[7; 2 * LEN]; inputs.len()];
    let parts = inputs.iter().zip(&mut outputs);
    let mut jobs: Vec<Job<'_>> =
        parts.map(|((private, nonce, digest), output)| Job { private, nonce, digest, output, good: false }).collect();
    assert!(lanes::sign(&mut jobs), "this machine cannot");
    let good: Vec<bool> = jobs.iter().map(|job| job.good).collect();
    for (output, good) in outputs.iter().zip(&good) {
        assert!(*good || *output == [0; 2 * LEN], "something leaves of a result that is not good");
    }
    outputs.into_iter().zip(good).map(|(output, good)| good.then_some(output)).collect()
}

fn is_here() -> bool {
    let is_here = lanes::is_here();
    println!("AVX-512-IFMA: {}", if is_here { "here" } else { "missing, nothing is compared" });
    is_here
}

fn random(seed: u64) -> Bytes {
    digest(&SHA256, &seed.to_le_bytes()).as_ref().try_into().unwrap()
}

fn scalar(seed: u64) -> Bytes {
    (0..16).map(|times: u64| random(seed ^ times << 48)).find(|number| *number < ORDER).unwrap()
}

fn input(seed: u64) -> Input {
    (scalar(3 * seed), scalar(3 * seed + 1), random(3 * seed + 2))
}

fn small(number: u8) -> Bytes {
    let mut bytes = [0; LEN];
    bytes[LEN - 1] = number;
    bytes
}

fn power(bit: usize) -> Bytes {
    let mut bytes = [0; LEN];
    bytes[LEN - 1 - bit / 8] = 1 << (bit % 8);
    bytes
}

fn minus(mut number: Bytes, less: &Bytes) -> Bytes {
    let mut borrow = false;
    for (byte, less) in number.iter_mut().zip(less).rev() {
        let (difference, first) = byte.overflowing_sub(*less);
        let (difference, second) = difference.overflowing_sub(borrow.into());
        (*byte, borrow) = (difference, first || second);
    }
    number
}

/// Edge cases: the least and the greatest number, powers of two, their predecessors, and the same from the order
/// down.
fn edges() -> Vec<Bytes> {
    let powers = (1..256).flat_map(|bit| [power(bit), minus(power(bit), &small(1))]);
    let low: Vec<Bytes> = (1..=70).map(small).chain(powers).collect();
    let high = low.iter().map(|number| minus(ORDER, number));
    low.iter().copied().chain(high).filter(|number| *number < ORDER && *number != [0; LEN]).collect()
}

fn hex<const N: usize>(number: &str) -> [u8; N] {
    std::array::from_fn(|at| u8::from_str_radix(&number[2 * at..2 * at + 2], 16).unwrap())
}

#[test]
fn signatures_are_those_of_the_rfc() {
    if !is_here() {
        return;
    }
    // RFC 6979, A.2.5, with SHA-256.
    let private = hex("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721");
    let sample = (
        private,
        hex("a6e3c57dd01abe90086538398355dd4c3b17aa873382b0f24d6129493d8aad60"),
        digest(&SHA256, b"sample").as_ref().try_into().unwrap(),
    );
    let test = (
        private,
        hex("d16b6ae827f17175e040871a1c7ec3500192c4c92677336ec2537acaee0008e0"),
        digest(&SHA256, b"test").as_ref().try_into().unwrap(),
    );
    let signatures = [
        "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
        "f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083",
    ];
    assert_eq!(ours(&[sample, test]), signatures.map(|signature| Some(hex(signature))));
}

#[test]
fn every_fill_with_keys_of_its_own_is_right_and_verifies() {
    if !is_here() {
        return;
    }
    for fill in 1..=MOST as u64 {
        let messages: Vec<Bytes> = (0..fill).map(|at| random(1000 * fill + at)).collect();
        let inputs: Vec<Input> = (0..fill)
            .zip(&messages)
            .map(|(at, message)| {
                let (private, nonce, _) = input(100 * fill + at);
                (private, nonce, digest(&SHA256, message).as_ref().try_into().unwrap())
            })
            .collect();
        for ((input, message), found) in inputs.iter().zip(&messages).zip(ours(&inputs)) {
            assert_eq!(found, Some(theirs(input)), "{fill} at once");
            let public = (ProjectivePoint::GENERATOR * reduced(&input.0)).to_encoded_point(false);
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public).verify(message, &found.unwrap()).unwrap();
        }
    }
    assert!(ours(&[]).is_empty());
}

#[test]
fn numbers_on_the_edge_are_signed_with() {
    if !is_here() {
        return;
    }
    let edges = edges();
    for some in edges.chunks(MOST) {
        let nonces: Vec<Input> = some.iter().map(|nonce| (scalar(1), *nonce, random(2))).collect();
        let keys: Vec<Input> = some.iter().map(|key| (*key, scalar(3), random(4))).collect();
        // As digests also numbers above the order.
        let digests: Vec<Input> = some.iter().map(|digest| (scalar(5), scalar(6), *digest)).collect();
        for inputs in [nonces, keys, digests] {
            let expected: Vec<_> = inputs.iter().map(|input| Some(theirs(input))).collect();
            assert_eq!(ours(&inputs), expected, "{inputs:x?}");
        }
    }
    for digest in [[0; LEN], ORDER, [0xff; LEN]] {
        let input = (scalar(7), scalar(8), digest);
        assert_eq!(ours(&[input]), [Some(theirs(&input))], "{digest:x?}");
    }
    println!("{} nonces, keys and digests", edges.len());
}

#[test]
fn the_one_nonce_whose_sum_is_of_equal_points_gives_no_result() {
    if !is_here() {
        return;
    }
    // Twice the last row's 15, minus the order: 30 · 2^252 - n, computed within 32 bytes as 14 · 2^252 + (2^256 - n).
    let mut fourteen = [0; LEN];
    fourteen[0] = 0xe0;
    let rest = minus([0xff; LEN], &minus(ORDER, &small(1)));
    let nonce: Bytes = std::array::from_fn(|at| fourteen[at] | rest[at]);
    let inputs = [nonce, minus(ORDER, &nonce), scalar(1)].map(|nonce| (scalar(1), nonce, random(2)));
    assert_eq!(ours(&inputs), [None, None, Some(theirs(&inputs[2]))]);
}

#[test]
fn keys_and_nonces_are_from_one_to_the_order() {
    let one_less = minus(ORDER, &small(1));
    assert!([small(1), power(255), one_less, scalar(1)].iter().all(lanes::is_in_range));
    assert!(![[0; LEN], ORDER, [0xff; LEN]].iter().any(lanes::is_in_range));
}

#[test]
fn a_number_that_is_zero_gives_no_result() {
    if !is_here() {
        return;
    }
    let (private, nonce, digest) = input(1);
    let inputs = [(private, [0; LEN], digest), (private, nonce, digest)];
    assert_eq!(ours(&inputs), [None, Some(theirs(&inputs[1]))]);
    // With z = n - r d the sum, and so s, is zero.
    let r = reduced(theirs(&inputs[1]).first_chunk().unwrap());
    let digest = (-(r * reduced(&private))).to_bytes().into();
    assert_eq!(ours(&[(private, nonce, digest)]), [None]);
}

/// As for RSA's: `SIDECORE_RANDOM_OPERATIONS=1000000 cargo test --release -p sidecore-batch random` takes some
/// minutes.
#[test]
fn random_signatures_are_those_of_other_code_at_random_fills() {
    if !is_here() {
        return;
    }
    let operations = operations(2000);
    let mut done = 0u64;
    while done < operations {
        let fill = u64::from(random(done)[0]) % MOST as u64 + 1;
        let inputs: Vec<Input> = (done..done + fill).map(input).collect();
        for (input, found) in inputs.iter().zip(ours(&inputs)) {
            assert_eq!(found, Some(theirs(input)), "from operation {done} on");
        }
        done += fill;
    }
    println!("{done} operations as by other code");
}

#[test]
fn more_jobs_than_lanes_are_not_begun_with() {
    let (number, mut outputs) = ([9; LEN], [[1; 2 * LEN]; MOST + 1]);
    let job = |output| Job { private: &number, nonce: &number, digest: &number, output, good: true };
    let mut jobs: Vec<Job<'_>> = outputs.iter_mut().map(job).collect();
    assert!(!lanes::sign(&mut jobs) && jobs.iter().all(|job| !job.good));
    assert_eq!(outputs, [[0; 2 * LEN]; MOST + 1]);
}
