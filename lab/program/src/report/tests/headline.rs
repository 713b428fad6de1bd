//! Headlines of the laboratory's scenarios.

use super::{sample, section};
use crate::report::{Row, column};
use sidecore_measure::headline::typical_ratio;

#[test]
fn each_scenario_has_its_headline() {
    let headlines = sample().headlines();
    assert_eq!(headlines.len(), 6);
    assert_eq!(headlines[0].value, "17.2 M/s");
    assert_eq!(headlines[0].detail, "pipelined");
}

#[test]
fn the_typical_ratio_names_its_range() {
    let row = |ratio: f64| Row::new("crypto", "v").with(column::RATIO, ratio);
    let (a, b, c) = (row(2.0), row(0.5), row(0.9));
    let headline = typical_ratio("crypto", &[&a, &b, &c]).unwrap();
    assert_eq!((headline.value.as_str(), headline.detail.as_str()), ("0.90 x", "0.50 x to 2.00 x over 3 rows"));
}

#[test]
fn without_data_there_is_none() {
    for name in ["lane", "crypto", "ocf", "notify", "balance", "scaling", "net-where"] {
        assert_eq!((section(name).headline)(name, &[&Row::new(name, "v")]), None);
    }
}
