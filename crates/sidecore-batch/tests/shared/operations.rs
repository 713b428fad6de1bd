//! How many random operations are compared.

/// So many, or as many as `SIDECORE_RANDOM_OPERATIONS` says, where somebody has the time.
pub(crate) fn operations(usual: u64) -> u64 {
    let said = std::env::var("SIDECORE_RANDOM_OPERATIONS").ok();
    said.map_or(usual, |count| count.parse().expect("SIDECORE_RANDOM_OPERATIONS is a whole number"))
}
