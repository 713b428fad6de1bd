//! Parameters found from published tables, and how well the tables fix them.
//!
//! Each cell of a table says how far off the plan is: the logarithm of predicted over published. Parameters are moved, by
//! factors, until the sum over all cells is least: Levenberg and Marquardt's method with differences for derivatives, on
//! runs with the same seeds throughout, so that a difference is the parameter's and not the seed's. Large errors count by their
//! size and not by its square (pseudo-Huber; Hartley and Zisserman, "Multiple View Geometry", appendix 6.8), so one cell
//! that the model does not explain does not bend the others. How sure a fitted value is follows from the derivatives at
//! the end and from the errors that are left (the covariance of least squares, as if these were independent).

mod problem;
#[cfg(test)]
mod tests;

use crate::compare::{Cells, Published};
use crate::estimate::Effort;
use crate::plan::{Plan, PlanError};
use crate::settings::{Origin, Parameter, Settings, Source};
use levenberg_marquardt::LevenbergMarquardt;
use nalgebra::{DMatrix, DVector};
use problem::Problem;
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::ops::ControlFlow;

/// Whole numbers below this count things, such as cores: they are not moved by factors.
const COUNTED: f64 = 50.0;
/// Evaluations of all cells for each parameter, after which a fit ends.
const PATIENCE: usize = 12;
/// A change of the sum or of the parameters by a smaller part ends a fit: runs are not exact.
const TOLERANCE: f64 = 1e-3;
/// A parameter whose interval is wider than by this factor up and down is not fixed by the tables.
pub const FIXED: f64 = 1.5;

/// A plan and the table that it is to yield.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The table.
    pub published: &'a Published,
}

/// A parameter that may move.
#[derive(Clone, Debug, PartialEq)]
pub struct Free {
    /// Its name.
    pub name: String,
    /// Where it starts.
    pub value: f64,
    /// Its unit and its meaning.
    pub unit: &'static str,
    /// What it means, in words.
    pub meaning: String,
    /// The plans that have it, by the number of their targets: those that take it from the same file.
    targets: Vec<usize>,
    is_whole: bool,
    /// Whether the plan says that it was fitted.
    is_fitted: bool,
}

/// A parameter with what is known of it.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// What was free.
    pub free: Free,
    /// Where it came to rest.
    pub value: f64,
    /// Factor up and down within which it lies with a probability of 95 %; infinite where the tables say nothing of it, none
    /// where it was held while others were free, or the fit was stopped.
    pub factor: Option<f64>,
    /// By how much a tenth more of it changes each cell, as a part of the cell.
    pub effects: Vec<f64>,
}

/// What a fit came to.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The parameters in the order in which they were given.
    pub parameters: Vec<Fitted>,
    /// Sizes of the cells' errors, before and after, as parts of the published values.
    pub errors: [Vec<f64>; 2],
    /// Names of the cells, in the order of errors and effects.
    pub cells: Vec<String>,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

/// Which parameters may move.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// Those that the plans call fitted.
    Fitted,
    /// Those of these names.
    Named(&'a [String]),
    /// All that can.
    All,
}

/// The parameters of these plans that may move. One that two plans take from the same place is one.
///
/// # Errors
///
/// If a name is none, or its value counts things or is no number above 0; or if there is none at all.
pub fn free(targets: &[Target<'_>], which: Which<'_>) -> Result<Vec<Free>, String> {
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
                    return Err(format!(
                        "{} is {text}, which cannot be moved by factors: leave it out",
                        parameter.name
                    ));
                }
                None => {}
            }
        }
    }
    if all.is_empty() {
        return Err("no parameter of the plan is marked as fitted: name some with --vary".to_owned());
    }
    Ok(all)
}

/// Called after each evaluation of all cells with how many there were; `Break` ends the fit with what it has.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) -> ControlFlow<()> + Sync);

/// Moves these parameters until the plans come as near to the tables as they can.
///
/// # Errors
///
/// If a table is nothing that its plan knows, or there are not more cells than parameters.
pub fn fit(targets: &[Target<'_>], free: Vec<Free>, effort: &Effort, progress: Progress<'_>) -> Result<Fit, PlanError> {
    let problem = Problem::new(targets, free, effort, progress)?;
    let before = problem.first()?;
    problem.check(before.len())?;
    let method = LevenbergMarquardt::new().with_patience(PATIENCE).with_tol(TOLERANCE);
    let (problem, _) = method.minimize(problem);
    Ok(problem.found(before, |_| true))
}

/// How much each of these parameters moves each cell, and how well the tables fix those that were fitted, if the others are
/// right; none is changed.
///
/// # Errors
///
/// As [`fit`], but for the number of parameters.
pub fn sensitivity(
    targets: &[Target<'_>],
    free: Vec<Free>,
    effort: &Effort,
    progress: Progress<'_>,
) -> Result<Fit, PlanError> {
    let problem = Problem::new(targets, free, effort, progress)?;
    let errors = problem.first()?;
    Ok(problem.found(errors, |free| free.is_fitted))
}

/// Factors up and down within which the parameters lie: from the derivatives of the cells' errors by the parameters'
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
        // A direction in which nothing changes is of no matter to a parameter that has no part in it.
        let parts = singular.map(|(at, value)| (rows[(at, parameter)], value)).filter(|(part, _)| part.abs() > 1e-9);
        parts.map(|(part, value)| (part / value).powi(2)).sum::<f64>()
    };
    (0..parameters).map(|parameter| (quantile * (variance * of(parameter)).sqrt()).exp()).map(usable).collect()
}

fn usable(factor: f64) -> f64 {
    if factor.is_finite() { factor } else { f64::INFINITY }
}

/// The plan's cells with one parameter's value set.
fn set(settings: &mut Settings, free: &Free, value: f64) -> Result<(), String> {
    settings.set(&free.name, &free.text(value), Source::Plan)
}

impl Free {
    /// `None`: its value is no number that can be moved by factors.
    fn of(settings: &Settings, parameter: &Parameter, (text, source): (&str, &Source), target: usize) -> Option<Self> {
        let value = text.parse().ok().filter(|value: &f64| *value > 0.0)?;
        let is_whole = settings.accepts(&parameter.name, "1.5").is_err_and(|said| said.contains("whole"));
        let meaning = if let Source::Documented(_, meaning) = source { meaning.clone() } else { String::new() };
        let (name, unit) = (parameter.name.clone(), parameter.unit);
        let (targets, is_fitted) = (vec![target], matches!(source, Source::Documented(Origin::Fitted, _)));
        (!is_whole || value >= COUNTED).then_some(Self { name, value, unit, meaning, targets, is_whole, is_fitted })
    }

    /// Whether both are one parameter in two plans.
    fn is_same(&self, other: &Self) -> bool {
        let is_set_alike = self.value.total_cmp(&other.value).is_eq() && self.meaning == other.meaning;
        self.name == other.name && is_set_alike
    }

    /// The value as plans write it.
    pub fn text(&self, value: f64) -> String {
        if self.is_whole { format!("{value:.0}") } else { value.to_string() }
    }
}

impl<'a> Target<'a> {
    fn cells(&self) -> Result<Cells<'a>, PlanError> {
        Cells::of(self.plan, self.published, &self.plan.set_by_hand())
    }
}
