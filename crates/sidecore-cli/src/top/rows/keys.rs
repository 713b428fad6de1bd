//! The stored keys: what they are asked for.

use super::{Rows, View};
use crate::top::units::{count, quantiles};
use sidecore::core::stage::Stage;
use sidecore::counters::KeyCounter;
use std::cmp::Reverse;

/// Keys: how much they are used, where the time goes, and what is asked for. The most used is first.
pub(in crate::top) fn keys(view: &View) -> Rows {
    let mut order: Vec<usize> = (0..view.total.keys.len()).collect();
    let rank = |index: &usize| (Reverse(view.recent.keys[*index].get(KeyCounter::Submitted)), *index);
    order.sort_by_key(rank);
    Rows {
        columns: &[
            ("KEY", false),
            ("REQ/S", true),
            ("FLIGHT", true),
            ("QUEUE p50/p99", true),
            ("DEVICE p50/p99", true),
            ("HOST p50/p99", true),
            ("REFUSED", true),
            ("FAILED", true),
            ("SIGN/S", true),
            ("DECRYPT/S", true),
            ("DERIVE/S", true),
            ("PUBLIC/S", true),
            ("DONE", true),
        ],
        cells: order.into_iter().map(|index| cells(view, index)).collect(),
    }
}

fn cells(view: &View, index: usize) -> Vec<String> {
    let (total, recent, times) = (&view.total.keys[index], &view.recent.keys[index], &view.times().keys[index]);
    let rate = |counter| view.rate(recent.get(counter));
    let sum = |counter| count(total.get(counter));
    let stage = |stage: Stage| quantiles(&times.stages[stage as usize].summary());
    vec![
        total.name.clone(),
        rate(KeyCounter::Submitted),
        sum(KeyCounter::InFlight),
        stage(Stage::Queue),
        stage(Stage::Device),
        stage(Stage::Host),
        sum(KeyCounter::Refused),
        sum(KeyCounter::Failed),
        rate(KeyCounter::Sign),
        rate(KeyCounter::Decrypt),
        rate(KeyCounter::Derive),
        rate(KeyCounter::Public),
        sum(KeyCounter::Done),
    ]
}
