//! Collects the errors of a plan and of its files.

use super::PlanError;
use std::path::Path;

/// Limit of errors that are told one by one.
const MAX_TOLD: usize = 20;

#[derive(Default)]
pub(super) struct Errors(Vec<PlanError>);

impl Errors {
    pub(super) fn push(&mut self, error: PlanError) {
        self.0.push(error);
    }

    pub(super) fn note<T>(&mut self, found: Result<T, PlanError>) -> Option<T> {
        found.map_err(|error| self.push(error)).ok()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value, if there was no error. The errors of the plan's own file come first, each file's in the order of lines.
    pub(super) fn unless<T>(mut self, own: &Path, value: Option<T>) -> Result<T, PlanError> {
        if let (Some(value), true) = (value, self.is_empty()) {
            return Ok(value);
        }
        let place = |error: &PlanError| match error {
            PlanError::File { path, line, .. } => (path != own, path.clone(), line.unwrap_or(usize::MAX)),
            _ => (true, own.to_owned(), usize::MAX),
        };
        self.0.sort_by_cached_key(place);
        self.0.dedup();
        let more = self.0.len().saturating_sub(MAX_TOLD);
        self.0.truncate(MAX_TOLD);
        Err(if self.0.len() == 1 { self.0.remove(0) } else { PlanError::Several { first: self.0, more } })
    }
}
