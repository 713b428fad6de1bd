//! The cells of all tables as functions of the changing parameters.

use super::{AS_GOOD, Fit, Fitted, Free, Progress, SPREAD, Target, factors, set};
use crate::compare::{Cell, Cells};
use crate::engine::Random;
use crate::estimate::Effort;
use crate::plan::PlanError;
use levenberg_marquardt::LeastSquaresProblem;
use nalgebra::storage::Owned;
use nalgebra::{DMatrix, DVector, Dyn};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Factor on a parameter for its derivative, as a logarithm: well above the effect of a seed, well below a change of
/// regime.
const STEP: f64 = 0.05;
/// Above this, an error counts by its size and no longer by its square; a logarithm.
const LARGE: f64 = 0.05;
/// Error of a cell if the parameters are impossible, as a logarithm.
const IMPOSSIBLE: f64 = 5.0;

/// The problem for the fit's method. Parameters are logarithms.
pub(super) struct Problem<'a> {
    targets: &'a [Target<'a>],
    cells: Vec<Cells<'a>>,
    free: Vec<Free>,
    effort: &'a Effort,
    progress: Progress<'a>,
    at: DVector<f64>,
    evaluations: AtomicUsize,
    stopped: AtomicBool,
    best: Mutex<Option<End>>,
}

/// The evaluation with the least sum.
pub(super) struct End {
    pub(super) sum: f64,
    pub(super) at: DVector<f64>,
    errors: Vec<f64>,
}

impl<'a> Problem<'a> {
    pub(super) fn new(
        targets: &'a [Target<'a>],
        free: Vec<Free>,
        effort: &'a Effort,
        progress: Progress<'a>,
    ) -> Result<Self, PlanError> {
        let cells = targets.iter().map(Target::cells).collect::<Result<_, _>>()?;
        let at = DVector::from_iterator(free.len(), free.iter().map(|free| free.value.ln()));
        let (evaluations, stopped, best) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(None));
        Ok(Self { targets, cells, free, effort, progress, at, evaluations, stopped, best })
    }

    /// Begins at the plans' values, or near them. A value beyond its limits is nearer.
    pub(super) fn begin(&mut self, start: u32) {
        let mut random = Random::new(self.effort.seed.wrapping_add(u64::from(start)));
        for (at, free) in self.at.iter_mut().zip(&self.free) {
            let mut by = if start == 0 { 0.0 } else { SPREAD.ln() * (2.0 * random.uniform() - 1.0) };
            let accepts = |value: f64| {
                let of = |target: &usize| self.cells[*target].settings.accepts(&free.name, &free.text(value)).is_ok();
                free.targets.iter().all(of)
            };
            while by.abs() > 1e-3 && !accepts(free.value * by.exp()) {
                by /= 2.0;
            }
            *at = free.value.ln() + by;
        }
        *self.best.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn end(&self) -> Option<End> {
        self.best.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Absolute errors at these values, as fractions of the published ones.
    pub(super) fn sizes(&self, values: &[f64]) -> Option<Vec<f64>> {
        let at = DVector::from_iterator(values.len(), values.iter().map(|value| value.ln()));
        Some(self.errors(&at)?.into_iter().map(|error| error.exp_m1().abs()).collect())
    }

    pub(super) fn first(&self) -> Result<Vec<f64>, PlanError> {
        let none = || PlanError::in_file(&self.targets[0].published.path, None, "not every cell is predicted");
        self.errors(&self.at).ok_or_else(none)
    }

    pub(super) fn check(&self, cells: usize) -> Result<(), PlanError> {
        let (parameters, path) = (self.free.len(), &self.targets[0].published.path);
        let few = format!("{cells} cells cannot fix {parameters} parameters: name fewer with --vary, or add tables");
        if cells > parameters { Ok(()) } else { Err(PlanError::in_file(path, None, few)) }
    }

    /// Errors of all cells as logarithms of predicted over published; `None` if the parameters are impossible or the
    /// fit was stopped.
    pub(super) fn errors(&self, at: &DVector<f64>) -> Option<Vec<f64>> {
        let mut errors = Vec::new();
        for (number, cells) in self.cells.iter().enumerate() {
            let found = self.run(number, cells, at)?;
            errors.extend(found.iter().map(|cell| (cell.predicted / cell.published).ln()));
        }
        let done = self.evaluations.fetch_add(1, Relaxed) + 1;
        if (self.progress)(done, (super::EVALUATIONS_PER_PARAMETER + 1) * (self.free.len() + 1)).is_break() {
            self.stopped.store(true, Relaxed);
        }
        let sum = errors.iter().map(|error| counted(*error).powi(2)).sum();
        let mut best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        if best.as_ref().is_none_or(|best| sum < best.sum) {
            *best = Some(End { sum, at: at.clone(), errors: errors.clone() });
        }
        Some(errors)
    }

    fn run(&self, number: usize, cells: &Cells<'_>, at: &DVector<f64>) -> Option<Vec<Cell>> {
        if self.stopped.load(Relaxed) {
            return None;
        }
        let mut settings = cells.settings.clone();
        for (free, value) in self.free.iter().zip(at.iter()).filter(|(free, _)| free.targets.contains(&number)) {
            set(&mut settings, free, value.exp()).ok()?;
        }
        let go = &mut |_, _| ControlFlow::Continue(());
        let found = cells.compare(&settings, self.effort, go).ok()?.cells;
        (found.len() == cells.names().count()).then_some(found)
    }

    /// Derivatives of these errors by each parameter; 0 for one that can change neither up nor down. `None`: the fit
    /// was stopped.
    fn derivatives(&self, errors: &[f64]) -> Option<DMatrix<f64>> {
        let moved = |parameter: usize| {
            let mut at = self.at.clone();
            at[parameter] += STEP;
            // At the upper limit of a parameter the derivative is taken downwards.
            let (found, step) = if let Some(found) = self.errors(&at) {
                (found, STEP)
            } else {
                at[parameter] -= 2.0 * STEP;
                (self.errors(&at)?, -STEP)
            };
            Some(found.iter().zip(errors).map(|(moved, before)| (moved - before) / step).collect::<Vec<f64>>())
        };
        let still = || vec![0.0; errors.len()];
        let columns = (0..self.free.len()).into_par_iter().map(|parameter| moved(parameter).unwrap_or_else(still));
        let columns: Vec<Vec<f64>> = columns.collect();
        if self.stopped.load(Relaxed) {
            return None;
        }
        Some(DMatrix::from_fn(errors.len(), columns.len(), |cell, parameter| columns[parameter][cell]))
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    pub(super) fn found(mut self, before: Vec<f64>, ends: &[End], is_free: impl Fn(&Free) -> bool) -> Fit {
        if let Some(best) = ends.first() {
            self.at.copy_from(&best.at);
        }
        let (at, errors) = (self.at.clone(), ends.first().map_or_else(|| before.clone(), |best| best.errors.clone()));
        let is_as_good = |end: &&End| end.sum <= ends[0].sum * AS_GOOD;
        let as_good: Vec<&End> = ends.iter().filter(is_as_good).collect();
        let between = |number: usize| {
            let values = as_good.iter().map(|end| end.at[number].exp()).chain([at[number].exp()]);
            values.fold([f64::INFINITY, 0.0], |[least, most]: [f64; 2], value| [least.min(value), most.max(value)])
        };
        let derivatives = self.derivatives(&errors);
        let left = DVector::from_vec(errors.clone());
        let moved: Vec<usize> = (0..self.free.len()).filter(|number| is_free(&self.free[*number])).collect();
        let intervals = derivatives.as_ref().map(|found| factors(&found.select_columns(&moved), &left));
        let factor = |number: usize| {
            let place = moved.iter().position(|moved| *moved == number)?;
            intervals.as_ref().map(|factors| factors[place])
        };
        let fitted = |(number, free): (usize, &Free)| Fitted {
            free: free.clone(),
            value: at[number].exp(),
            factor: factor(number),
            ends: between(number),
            effects: derivatives.as_ref().map_or(Vec::new(), |found| {
                found.column(number).iter().map(|slope| (slope * 1.1_f64.ln()).exp_m1()).collect()
            }),
        };
        let parameters = self.free.iter().enumerate().map(fitted).collect();
        let relative = |errors: Vec<f64>| errors.into_iter().map(f64::exp_m1).collect();
        let stopped = self.stopped.load(Relaxed);
        let errors = [relative(before), relative(errors)];
        Fit { parameters, errors, cells: self.names(), as_good: as_good.len(), stopped }
    }

    fn names(&self) -> Vec<String> {
        let names = |(cells, target): (&Cells<'_>, &Target<'_>)| {
            let file = target.published.name();
            cells.names().map(|name| format!("{file}: {name}")).collect::<Vec<_>>()
        };
        self.cells.iter().zip(self.targets).flat_map(names).collect()
    }
}

/// Weight of an error: its square is twice the pseudo-Huber loss.
fn counted(error: f64) -> f64 {
    let part = error / LARGE;
    LARGE * (2.0 * ((1.0 + part * part).sqrt() - 1.0)).sqrt() * error.signum()
}

fn counted_slope(error: f64) -> f64 {
    let part = error / LARGE;
    let counted = counted(error) / LARGE;
    if counted.abs() < 1e-9 { 1.0 } else { part / ((1.0 + part * part).sqrt() * counted) }
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Problem<'_> {
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;
    type ParameterStorage = Owned<f64, Dyn>;

    fn set_params(&mut self, at: &DVector<f64>) {
        self.at.copy_from(at);
    }

    fn params(&self) -> DVector<f64> {
        self.at.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        let found = self.errors(&self.at);
        if found.is_none() && self.stopped.load(Relaxed) {
            return None;
        }
        let cells = self.cells.iter().map(|cells| cells.names().count()).sum();
        let found = found.unwrap_or_else(|| vec![IMPOSSIBLE; cells]);
        Some(DVector::from_iterator(found.len(), found.into_iter().map(counted)))
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let errors = self.errors(&self.at)?;
        let mut found = self.derivatives(&errors)?;
        for (mut row, error) in found.row_iter_mut().zip(errors) {
            row *= counted_slope(error);
        }
        Some(found)
    }
}
