//! Results that their destination cannot hold.

#[derive(Debug, thiserror::Error)]
pub(crate) enum ResultError {
    #[error("the result {0} is too large for its length")]
    TooLarge(String),
    #[error("the result {0} has several lines: take it without --lines, or with --to DIR")]
    SeveralLines(String),
}
