//! Parameters found from published tables, and how well the tables fix them.
//!
//! Each cell of a table gives the plan's error: the logarithm of predicted over published. Parameters change by
//! factors until the sum over all cells is least. The method is that of Levenberg and Marquardt with differences for
//! derivatives; all runs use the same seeds, so that a difference comes from the parameter and not from the seed.
//! Large errors count by their size and not by its square (pseudo-Huber; Hartley and Zisserman, "Multiple View
//! Geometry", appendix 6.8), so one unexplained cell does not distort the others. The certainty of a fitted value
//! follows from the derivatives at the end and from the remaining errors (the covariance of least squares, as if these
//! were independent). It holds for one optimum only, so a fit may begin at several starts.

mod left_out;
mod problem;
#[cfg(test)]
mod tests;

use crate::compare::{Cells, Published};
use crate::estimate::Effort;
use crate::plan::{Plan, PlanError};
use crate::settings::{Origin, Parameter, SettingError, Settings, Source};
pub use left_out::{LeftOut, leave_out};
use levenberg_marquardt::LevenbergMarquardt;
use nalgebra::{DMatrix, DVector};
use problem::{End, Problem};
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::ops::{ControlFlow, Range};

/// Whole numbers below this are counts, such as cores: they are not changed by factors.
const COUNTED: f64 = 50.0;
/// Limit of a fit: evaluations of all cells per parameter.
const EVALUATIONS_PER_PARAMETER: usize = 12;
/// A smaller relative change of the sum or of the parameters ends a fit: runs are not exact.
const TOLERANCE: f64 = 1e-3;
/// Starts after the first have each parameter within this factor up and down.
const SPREAD: f64 = 2.0;
/// Ends of several starts are equally good up to this ratio of their sums.
const AS_GOOD: f64 = 1.1;
/// Equally good values further apart than this factor are not told apart.
const ALIKE: f64 = 1.25;
/// A parameter whose interval extends further than this factor up and down is not determined by the tables.
pub const FIXED: f64 = 1.5;

/// A plan and the table that it shall reproduce.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The table.
    pub published: &'a Published,
}

/// A parameter that the fit may change.
#[derive(Clone, Debug, PartialEq)]
pub struct Free {
    /// Its name.
    pub name: String,
    /// Its initial value.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Its meaning, in words.
    pub meaning: String,
    targets: Vec<usize>,
    is_whole: bool,
    is_fitted: bool,
}

/// A parameter with the fit's result.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The parameter.
    pub free: Free,
    /// Its final value.
    pub value: f64,
    /// Factor up and down that contains it with a probability of 95 %; infinite if the tables do not determine it.
    /// `None` if it was fixed while others changed, or the fit was stopped.
    pub factor: Option<f64>,
    /// Least and largest value at the end of the starts whose fit is as good.
    pub ends: [f64; 2],
    /// Relative change of each cell when the parameter grows by a tenth.
    pub effects: Vec<f64>,
}

/// Result of a fit.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The parameters in the order of the call.
    pub parameters: Vec<Fitted>,
    /// Absolute errors of the cells, before and after, as fractions of the published values.
    pub errors: [Vec<f64>; 2],
    /// Names of the cells, in the order of errors and effects.
    pub cells: Vec<String>,
    /// Number of starts whose fit is as good as the best one.
    pub as_good: usize,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

/// Selection of parameters to change.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// Those that the plans declare as fitted.
    Fitted,
    /// Those with these names.
    Named(&'a [String]),
    /// All that can.
    All,
}

/// Why a plan has no parameters to change.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FreeError {
    /// A name is unknown.
    #[error(transparent)]
    Unknown(#[from] SettingError),
    /// A named parameter is a count, or not a number above 0.
    #[error("{name} is {text}, which cannot be moved by factors: leave it out")]
    Fixed {
        /// Its name.
        name: String,
        /// Its value.
        text: String,
    },
    /// The plan marks none.
    #[error("no parameter of the plan is marked as fitted: name some with --vary")]
    None,
}

/// The parameters of these plans that may change. A parameter that two plans take from the same file is one.
///
/// # Errors
///
/// If a name is unknown, or its value is a count or not a number above 0; or if no parameter is left.
pub fn free(targets: &[Target<'_>], which: Which<'_>) -> Result<Vec<Free>, FreeError> {
    let mut all = Vec::<Free>::new();
    for (number, target) in targets.iter().enumerate() {
        let settings = &target.plan.settings;
        let named = if let Which::Named(names) = which { names } else { &[] };
        let named = named.iter().map(|name| settings.find(name)).collect::<Result<Vec<_>, _>>()?;
        for (index, (parameter, set)) in settings.iter().enumerate() {
            let Some((text, source)) = set else { continue };
            let is_wanted = match which {
                Which::Fitted => matches!(source, Source::Documented(Origin::Fitted, _)),
                Which::Named(_) => named.contains(&index),
                Which::All => true,
            };
            match Free::of(settings, parameter, (text, source), number) {
                _ if !is_wanted => {}
                Some(free) => match all.iter_mut().find(|known| known.is_same(&free)) {
                    Some(known) => known.targets.push(number),
                    None => all.push(free),
                },
                None if matches!(which, Which::Named(_)) => {
                    return Err(FreeError::Fixed { name: parameter.name.clone(), text: text.clone() });
                }
                None => {}
            }
        }
    }
    if all.is_empty() {
        return Err(FreeError::None);
    }
    Ok(all)
}

/// Called after each evaluation of all cells with the number of evaluations; `Break` ends the fit with its present
/// result.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) -> ControlFlow<()> + Sync);

/// Changes these parameters until the plans are as near to the tables as possible. `starts`: the number of starts, the
/// first at the plans' values and the others near them, by the effort's seed.
///
/// # Errors
///
/// If a table does not match its plan, or there are not more cells than parameters.
pub fn fit(
    targets: &[Target<'_>],
    free: Vec<Free>,
    effort: &Effort,
    starts: u32,
    progress: Progress<'_>,
) -> Result<Fit, PlanError> {
    let problem = Problem::new(targets, free, effort, progress)?;
    let before = problem.first()?;
    problem.check(before.len())?;
    let (problem, ends) = least(problem, 0..starts);
    Ok(problem.found(before, &ends, |_| true))
}

/// The ends of these starts, the best one first. Start 0 is at the parameters' values, others are near them.
fn least(mut problem: Problem<'_>, starts: Range<u32>) -> (Problem<'_>, Vec<End>) {
    let mut ends = Vec::new();
    for start in starts {
        problem.begin(start);
        let method = LevenbergMarquardt::new().with_patience(EVALUATIONS_PER_PARAMETER).with_tol(TOLERANCE);
        (problem, _) = method.minimize(problem);
        ends.extend(problem.end());
    }
    ends.sort_by(|a, b| a.sum.total_cmp(&b.sum));
    (problem, ends)
}

/// The effect of each of these parameters on each cell, and how well the tables determine the fitted ones, if the
/// others are right. No parameter changes.
///
/// # Errors
///
/// As [`fit`], except for the number of parameters.
pub fn sensitivity(
    targets: &[Target<'_>],
    free: Vec<Free>,
    effort: &Effort,
    progress: Progress<'_>,
) -> Result<Fit, PlanError> {
    let problem = Problem::new(targets, free, effort, progress)?;
    let errors = problem.first()?;
    let ends = problem.end().into_iter().collect::<Vec<_>>();
    Ok(problem.found(errors, &ends, |free| free.is_fitted))
}

/// Factors up and down that contain the parameters: from the derivatives of the cells' errors by the parameters'
/// logarithms, and from the errors.
fn factors(derivatives: &DMatrix<f64>, errors: &DVector<f64>) -> Vec<f64> {
    let (cells, parameters) = derivatives.shape();
    if parameters == 0 {
        return Vec::new();
    }
    let freedom = cells.saturating_sub(parameters) as f64;
    let Ok(student) = StudentsT::new(0.0, 1.0, freedom) else { return vec![f64::INFINITY; parameters] };
    let (quantile, variance) = (student.inverse_cdf(0.975), errors.norm_squared() / freedom);
    let decomposed = derivatives.clone().svd(false, true);
    let Some(rows) = decomposed.v_t else { return vec![f64::INFINITY; parameters] };
    let of = |parameter: usize| {
        let singular = decomposed.singular_values.iter().enumerate();
        // A direction without any effect does not matter to a parameter that has no part in it.
        let parts = singular.map(|(at, value)| (rows[(at, parameter)], value)).filter(|(part, _)| part.abs() > 1e-9);
        parts.map(|(part, value)| (part / value).powi(2)).sum::<f64>()
    };
    (0..parameters).map(|parameter| (quantile * (variance * of(parameter)).sqrt()).exp()).map(usable).collect()
}

fn usable(factor: f64) -> f64 {
    if factor.is_finite() { factor } else { f64::INFINITY }
}

fn set(settings: &mut Settings, free: &Free, value: f64) -> Result<(), SettingError> {
    settings.set(&free.name, &free.text(value), Source::Plan)
}

impl Free {
    /// `None`: its value is not a number that can change by factors.
    fn of(settings: &Settings, parameter: &Parameter, (text, source): (&str, &Source), target: usize) -> Option<Self> {
        let value = text.parse().ok().filter(|value: &f64| *value > 0.0)?;
        let is_whole = settings.accepts(&parameter.name, "1.5").is_err_and(|said| said.to_string().contains("whole"));
        let meaning = if let Source::Documented(_, meaning) = source { meaning.clone() } else { String::new() };
        let (name, unit) = (parameter.name.clone(), parameter.unit);
        let (targets, is_fitted) = (vec![target], matches!(source, Source::Documented(Origin::Fitted, _)));
        (!is_whole || value >= COUNTED).then_some(Self { name, value, unit, meaning, targets, is_whole, is_fitted })
    }

    /// Whether the target of this number has it.
    pub fn is_of(&self, target: usize) -> bool {
        self.targets.contains(&target)
    }

    fn is_same(&self, other: &Self) -> bool {
        let is_set_alike = self.value.total_cmp(&other.value).is_eq() && self.meaning == other.meaning;
        self.name == other.name && is_set_alike
    }

    /// The value in the format of plans.
    pub fn text(&self, value: f64) -> String {
        if self.is_whole { format!("{value:.0}") } else { value.to_string() }
    }
}

impl Fitted {
    /// Whether the tables determine its value.
    pub fn is_determined(&self) -> bool {
        let [least, most] = self.ends;
        most / least <= ALIKE && self.factor.is_none_or(|factor| factor <= FIXED)
    }
}

impl<'a> Target<'a> {
    fn cells(&self) -> Result<Cells<'a>, PlanError> {
        Cells::of(self.plan, self.published, &self.plan.set_by_hand())
    }
}
