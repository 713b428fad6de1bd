//! The module's dependencies, from cargo.

use sidecore_testing::tree::holds_no_private_key;

#[test]
fn the_process_of_an_application_holds_no_code_that_uses_a_private_key() {
    holds_no_private_key("sidecore-pkcs11", &["ring"]);
}
