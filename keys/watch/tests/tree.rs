//! The dependencies of the live view and the exporter, from cargo.

use sidecore_testing::tree::holds_no_private_key;

#[test]
fn what_reads_counters_holds_no_code_that_uses_a_private_key() {
    holds_no_private_key("sidecore-watch", &["sidecore-client"]);
}
