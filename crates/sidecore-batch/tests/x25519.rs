//! Shared secrets by X25519 side by side, against AWS-LC's and RFC 7748's.

#[path = "shared/operations.rs"]
mod operations;

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use operations::operations;
use sidecore_batch::MOST;
use sidecore_batch::x25519::{self, Job, LEN};

type Bytes = [u8; LEN];

/// AWS-LC's result; zeros where it refuses the peer's key.
fn theirs(private: &Bytes, public: &Bytes) -> Bytes {
    let key = PrivateKey::from_private_key(&X25519, private).unwrap();
    let peer = UnparsedPublicKey::new(&X25519, &public[..]);
    agree(&key, peer, (), |secret| Ok(secret.try_into().unwrap())).unwrap_or_default()
}

/// The good secrets of keys with peers, with that lane disturbed.
fn ours(pairs: &[(Bytes, Bytes)], disturbed: Option<usize>) -> Vec<Option<Bytes>> {
    let mut outputs = vec![[7; LEN]; pairs.len()];
    let parts = pairs.iter().zip(&mut outputs).enumerate();
    let mut jobs: Vec<Job<'_>> = parts
        .map(|(at, ((private, public), output))| Job {
            private,
            public,
            output,
            good: false,
            disturb: disturbed == Some(at),
        })
        .collect();
    assert!(x25519::derive(&mut jobs), "this machine cannot");
    let good: Vec<bool> = jobs.iter().map(|job| job.good).collect();
    for (output, good) in outputs.iter().zip(&good) {
        assert!(*good || *output == [0; LEN], "something leaves of a result that is not good");
    }
    outputs.into_iter().zip(good).map(|(output, good)| good.then_some(output)).collect()
}

/// Whether this machine has the unit; reports it if not.
fn is_here() -> bool {
    let is_here = x25519::is_here();
    println!("AVX-512-IFMA: {}", if is_here { "here" } else { "missing, nothing is compared" });
    is_here
}

/// Bytes that look random.
fn random(seed: u64) -> Bytes {
    aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &seed.to_le_bytes()).as_ref().try_into().unwrap()
}

/// Coordinates of small order and other edge cases: small ones, those around the modulus, the largest of 255 and 256
/// bits, and the points of order eight.
fn edges() -> Vec<Bytes> {
    let mut edges: Vec<Bytes> = Vec::new();
    let mut put = |lowest: u8, middle: u8, highest: u8| {
        let mut bytes = [middle; LEN];
        (bytes[0], bytes[LEN - 1]) = (lowest, highest);
        edges.push(bytes);
    };
    for lowest in 0..=9 {
        put(lowest, 0, 0);
        put(lowest, 0, 0x80);
    }
    for lowest in 0xe0..=0xff {
        put(lowest, 0xff, 0x7f);
        put(lowest, 0xff, 0xff);
    }
    for point in [
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    ] {
        edges.push(of_hex(point));
    }
    edges
}

fn of_hex(text: &str) -> Bytes {
    std::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
}

#[test]
fn the_vectors_of_rfc_7748_come_out() {
    if !is_here() {
        return;
    }
    let pairs = [
        (
            "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
            "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
        ),
        (
            "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
            "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
        ),
    ];
    let expected = [
        "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
        "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
    ];
    let pairs = pairs.map(|(private, public)| (of_hex(private), of_hex(public)));
    assert_eq!(ours(&pairs, None), expected.map(|secret| Some(of_hex(secret))));
}

#[test]
fn a_thousand_rounds_of_rfc_7748_come_out() {
    if !is_here() {
        return;
    }
    let mut nine = [0; LEN];
    nine[0] = 9;
    let (mut scalar, mut point) = (nine, nine);
    for _ in 0..1000 {
        let secret = ours(&[(scalar, point)], None)[0].unwrap();
        (scalar, point) = (secret, scalar);
    }
    assert_eq!(scalar, of_hex("684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"));
}

#[test]
fn points_of_small_order_give_zeros_and_all_edges_what_aws_lc_gives() {
    if !is_here() {
        return;
    }
    let (edges, mut zeros) = (edges(), 0);
    for some in edges.chunks(MOST) {
        let pairs: Vec<(Bytes, Bytes)> = some.iter().map(|edge| (random(3), *edge)).collect();
        for ((private, public), found) in pairs.iter().zip(ours(&pairs, None)) {
            assert_eq!(found, Some(theirs(private, public)), "{public:?}");
            zeros += u32::from(found == Some([0; LEN]));
        }
    }
    // 0, 1, p - 1, p and p + 1, with the highest bit and without, and the two of order eight.
    assert_eq!(zeros, 12);
}

#[test]
fn a_fault_in_one_lane_leaves_no_result_and_the_others_are_right() {
    if !is_here() {
        return;
    }
    let pairs: Vec<(Bytes, Bytes)> = (0..MOST as u64).map(|at| (random(at), random(100 + at))).collect();
    for disturbed in 0..MOST {
        for (at, found) in ours(&pairs, Some(disturbed)).into_iter().enumerate() {
            let right = (at != disturbed).then(|| theirs(&pairs[at].0, &pairs[at].1));
            assert_eq!(found, right, "lane {disturbed} disturbed, lane {at}");
        }
    }
}

/// As for RSA's: `SIDECORE_RANDOM_OPERATIONS=10000000 cargo test --release -p sidecore-batch random` takes some
/// minutes.
#[test]
fn random_secrets_are_those_of_aws_lc_at_random_fills() {
    if !is_here() {
        return;
    }
    let operations = operations(2000);
    let mut done = 0u64;
    while done < operations {
        let fill = u64::from(random(done)[0]) % MOST as u64 + 1;
        let pairs: Vec<(Bytes, Bytes)> = (done..done + fill).map(|at| (random(2 * at), random(2 * at + 1))).collect();
        for ((private, public), found) in pairs.iter().zip(ours(&pairs, None)) {
            assert_eq!(found, Some(theirs(private, public)), "from operation {done} on");
        }
        done += fill;
    }
    println!("{done} operations as by AWS-LC");
}

#[test]
fn more_jobs_than_lanes_are_not_begun_with() {
    let (key, mut outputs) = ([9; LEN], [[1; LEN]; MOST + 1]);
    let job = |output| Job { private: &key, public: &key, output, good: true, disturb: false };
    let mut jobs: Vec<Job<'_>> = outputs.iter_mut().map(job).collect();
    assert!(!x25519::derive(&mut jobs) && jobs.iter().all(|job| !job.good));
    assert_eq!(outputs, [[0; LEN]; MOST + 1]);
}
