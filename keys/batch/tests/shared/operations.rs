//! Number of random operations to compare.

/// `usual`, or the number in `SIDECORE_RANDOM_OPERATIONS`, for longer runs.
pub(crate) fn operations(usual: u64) -> u64 {
    let said = std::env::var("SIDECORE_RANDOM_OPERATIONS").ok();
    said.map_or(usual, |count| count.parse().expect("SIDECORE_RANDOM_OPERATIONS is a whole number"))
}
