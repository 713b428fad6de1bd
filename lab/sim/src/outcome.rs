//! Results of runs.

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// One value per metric; not a number without a measurement.
    pub values: Vec<f64>,
    /// The limiting part, with its utilisation: `cpu 98 %`.
    pub limit: String,
    /// Hash of the run.
    pub trace: u64,
}
