//! A fault of the machine in one lane: nothing of that signature leaves, and the others are as without it.
//!
//! Each test fails without its defence: without [`release`]'s look at the outcome, the point's equation, or the
//! signature's.

use super::*;
use crate::p256::signing::faults::{Fault, Place};
use crate::sys::sign_with;

fn inputs() -> [Input; MOST] {
    std::array::from_fn(|lane| {
        // Below the order, whose first byte is ff, and not zero.
        let number = |seed: u8| -> [u8; LEN] {
            std::array::from_fn(|at| seed.wrapping_mul(37).wrapping_add(at as u8 * 3) & 0x7f | 1)
        };
        let (mut input, seed) = (Input::default(), lane as u8);
        RADIX.read(&number(seed % 7), &mut input.private);
        RADIX.read(&number(seed % 5), &mut input.nonce);
        RADIX.read(&number(seed % 3), &mut input.digest);
        input
    })
}

fn is_good(outcome: &Outcome) -> bool {
    outcome.faults.iter().all(is_none)
}

#[test]
fn a_turned_bit_at_any_step_is_found_in_its_lane_alone() {
    let Some(unit) = Ifma::here() else {
        println!("AVX-512-IFMA: missing, nothing is disturbed");
        return;
    };
    let inputs = inputs();
    let right = sign(unit, &inputs);
    assert!(right.iter().all(is_good));
    for place in Place::ALL {
        for lane in 0..MOST {
            let found = sign_with(unit, &inputs, Fault { place, lane });
            for (at, (found, right)) in found.iter().zip(&right).enumerate() {
                assert_eq!(is_good(found), at != lane, "{place:?} of lane {lane}: lane {at}");
                assert!(at == lane || found.numbers == right.numbers, "{place:?} of lane {lane} changes lane {at}");
            }
        }
    }
}

/// Each of the two tests of a signature finds what the other cannot.
#[test]
fn a_wrong_point_and_a_wrong_number_are_found_by_a_test_each() {
    let Some(unit) = Ifma::here() else { return };
    for place in Place::ALL {
        let [of_point, of_equation] = &sign_with(unit, &inputs(), Fault { place, lane: 5 })[5].faults;
        assert_eq!((is_none(of_point), is_none(of_equation)), (place == Place::Inverse, place != Place::Inverse));
    }
}

#[test]
fn only_signatures_without_a_fault_leave() {
    let (zero, number) = (Digits::default(), [7; 5]);
    let cases = [
        ([number, number], [zero, zero], true),
        ([number, number], [number, zero], false),
        ([number, number], [zero, number], false),
        ([zero, number], [zero, zero], false),
        ([number, zero], [zero, zero], false),
    ];
    for (lane, (numbers, faults, leaves)) in (0..MOST).flat_map(|lane| cases.map(|case| (lane, case))) {
        let outcomes = std::array::from_fn(|at| {
            let (numbers, faults) = if at == lane { (numbers, faults) } else { ([number; 2], [zero; 2]) };
            Outcome { numbers, faults }
        });
        let (secret, mut outputs) = ([1; LEN], [[0; 2 * LEN]; MOST]);
        let job = |output| Job { private: &secret, nonce: &secret, digest: &secret, output, good: false };
        let mut jobs: Vec<Job<'_>> = outputs.iter_mut().map(job).collect();
        release(&mut jobs, &outcomes);
        for (at, job) in jobs.iter().enumerate() {
            let is_there = at != lane || leaves;
            assert_eq!((job.good, *job.output != [0; 2 * LEN]), (is_there, is_there), "{faults:?}, lane {at}");
        }
    }
}
