//! Parameters fitted to published tables, and their influence.

use super::compare::percent;
use super::output::{Members, STOPPED, progress, show};
use super::tables;
use crate::args::{self, Plans};
use crate::error::LabError;
use crate::report::{Grid, digits};
use sidecore_measure::export;
use sidecore_sim::compare::{Published, median};
use sidecore_sim::estimate::Effort;
use sidecore_sim::fit::{self, FIXED, Fitted, Free, LeftOut, Target, Which};
use sidecore_sim::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

pub(super) fn run(args: &args::Fit) -> Result<bool, LabError> {
    let plans = tables::read(&args.plans, &args.set)?;
    let published = read(&args.to)?;
    let targets = pairs(&plans, &published)?;
    let which = if args.vary.is_empty() { Which::Fitted } else { Which::Named(&args.vary) };
    let free = fit::free(&targets, which)?;
    let effort = Effort { seed: args.seed, runs: args.seeds, precision: 0.0 };
    let progress = progress("fit")?;
    let found = fit::fit(&targets, free, &effort, args.starts, &progress)?;
    for (path, text) in args.write.iter().flat_map(|path| files(&found, &plans, path, &names(&args.to))) {
        export::write(Some(&path), &text)?;
    }
    let left_out = if args.leave_out && !found.stopped {
        fit::leave_out(&targets, &found, &effort, args.starts, &progress)?
    } else {
        Vec::new()
    };
    drop(progress);
    let title = format!("{}, fitted", plans[0].title);
    let starts = if args.starts == 1 { String::new() } else { format!(" --starts {}", args.starts) };
    let leave = if args.leave_out { " --leave-out" } else { "" };
    let command = format!("fit {} --to {} --seeds {}{starts}{leave}", names(&args.plans), names(&args.to), args.seeds);
    let mut grids = vec![grid(&title, &found, args.starts)];
    grids.extend((!left_out.is_empty()).then(|| predictions(&left_out)));
    show(&args.output, &lines(&found), (&title, &command), &grids)
}

pub(super) fn sensitivity(plans: &[Plan], args: &Plans) -> Result<bool, LabError> {
    let [plan] = plans else { return Err(LabError::usage("--sensitivity takes one plan")) };
    let effort = Effort { precision: 0.0, ..args.effort.effort() };
    let effort = Effort { runs: effort.runs.min(SENSITIVITY_RUNS), ..effort };
    let published = match &args.compare {
        Some(path) => Published::read(path)?,
        None => Published::of_plan(plan, &effort)?,
    };
    let targets = [Target { plan, published: &published }];
    let free = fit::free(&targets, Which::All)?;
    let progress = progress("sensitivity")?;
    let found = fit::sensitivity(&targets, free, &effort, &progress)?;
    drop(progress);
    let title = format!("{}: what a tenth more of each parameter changes", plan.title);
    let command = format!("{} --sensitivity {}", args.files[0].display(), args.effort.arguments());
    let grid = influences(&title, &found, args.compare.is_some());
    show(&args.output, &lines(&found), (&title, &command), &[grid])
}

const SENSITIVITY_RUNS: u32 = 4;
/// Effects below this part of a cell count as negligible.
const HARDLY: f64 = 0.005;

fn read(files: &[PathBuf]) -> Result<Vec<Published>, LabError> {
    files.iter().map(|file| Ok(Published::read(file)?)).collect()
}

fn pairs<'a>(plans: &'a [Plan], published: &'a [Published]) -> Result<Vec<Target<'a>>, LabError> {
    let (many, tables) = (plans.len(), published.len());
    if many != 1 && many != tables {
        let why = format!("{many} plans and {tables} tables: give --to one table for each plan, or name one plan");
        return Err(LabError::Usage(why));
    }
    let target = |(at, published)| Target { plan: &plans[at % many], published };
    Ok(published.iter().enumerate().map(target).collect())
}

fn names(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" ")
}

fn sizes(errors: &[f64]) -> (f64, f64) {
    let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    (median(sizes.clone()) * 100.0, sizes.into_iter().fold(0.0, f64::max) * 100.0)
}

/// The factor up and down that bounds a value, in words; `none` if it is unknown.
fn sure(factor: Option<f64>, none: &str) -> String {
    let Some(factor) = factor else { return none.to_owned() };
    match factor {
        _ if factor <= FIXED => format!("x/ {factor:.2}"),
        _ if factor < 100.0 => format!("x/ {factor:.1}, hardly fixed"),
        _ => "not fixed".to_owned(),
    }
}

/// The interval of a fitted value; none is claimed for one that the tables do not determine.
fn interval(fitted: &Fitted) -> String {
    let [least, most] = fitted.ends.map(digits);
    match fitted.factor {
        None => "-".to_owned(),
        Some(_) if !fitted.is_determined() && least != most => format!("not determined: {least} to {most}"),
        Some(factor) if factor <= FIXED => format!("x/ {factor:.2}"),
        Some(_) => "not determined".to_owned(),
    }
}

/// Errors of prediction.
fn predictions(left_out: &[LeftOut]) -> Grid {
    let mut grid = Grid::new("Predicted by a fit to the others", &["left out", "cells", "median error", "worst", "at"]);
    for LeftOut { name, cells, errors, alone } in left_out {
        let worst = errors.iter().zip(cells).max_by(|a, b| a.0.total_cmp(b.0));
        let (median, most, at) = match worst {
            Some((_, cell)) => {
                let (median, most) = sizes(errors);
                (format!("{median:.1} %"), format!("{most:.1} %"), cell.clone())
            }
            None => ("-".to_owned(), "-".to_owned(), format!("it alone determines {}", alone.join(", "))),
        };
        grid.push([name.clone(), cells.len().to_string(), median, most, at]);
    }
    for (kind, what) in [("table ", "tables"), ("column ", "columns")] {
        let of = left_out.iter().filter(|part| part.name.starts_with(kind));
        let errors: Vec<f64> = of.flat_map(|part| part.errors.iter().copied()).collect();
        let (median, most) = sizes(&errors);
        let text = format!(
            "Error of prediction by left-out {what}: median {median:.1} %, worst {most:.1} %, {} cells",
            errors.len()
        );
        grid.notes.extend((!errors.is_empty()).then_some(text));
    }
    grid
}

fn grid(title: &str, found: &fit::Fit, starts: u32) -> Grid {
    let mut grid = Grid::new(title, &["parameter", "unit", "before", "fitted", "95 %", "+10 % moves a cell by"]);
    for fitted @ Fitted { free, value, effects, .. } in &found.parameters {
        let effect = if effects.is_empty() { "-".to_owned() } else { format!("{:.1} %", sizes(effects).1) };
        let figures = [digits(free.value), digits(*value), interval(fitted), effect];
        grid.push([free.name.clone(), free.unit.to_owned()].into_iter().chain(figures));
    }
    let [before, after] = found.errors.each_ref().map(|errors| sizes(errors));
    grid.notes.push(format!(
        "{} cells: median error {:.1} % before and {:.1} % now, worst {:.1} % and {:.1} %",
        found.cells.len(),
        before.0,
        after.0,
        before.1,
        after.1
    ));
    let mut worst: Vec<(&String, f64)> = found.cells.iter().zip(found.errors[1].iter().copied()).collect();
    worst.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let worst: Vec<String> = worst.iter().take(5).map(|(cell, error)| format!("{cell} {}", percent(*error))).collect();
    grid.notes.push(format!("The largest: {}", worst.join("; ")));
    grid.notes.push(
        "95 %: the factor up and down within which the value lies, if the model is correct; the last column is the cell \
         that is moved most"
            .to_owned(),
    );
    let open: Vec<&str> =
        found.parameters.iter().filter(|it| !it.is_determined()).map(|it| it.free.name.as_str()).collect();
    let open = (!open.is_empty()).then(|| format!("Not determined by the tables: {}", open.join(", ")));
    grid.notes.extend(open);
    let ends = (starts > 1).then(|| format!("{} of {starts} starts end as well as the best one", found.as_good));
    grid.notes.extend(ends);
    grid.notes.extend(found.stopped.then(|| STOPPED.to_owned()));
    grid
}

fn influences(title: &str, found: &fit::Fit, is_published: bool) -> Grid {
    let fixed: &[&str] = if is_published { &["fixed by the table"] } else { &[] };
    let headings = ["parameter", "value", "unit", "median cell", "most", "where"];
    let mut grid = Grid::new(title, &[&headings[..], fixed].concat());
    let mut by_effect: Vec<&Fitted> = found.parameters.iter().filter(|it| !it.effects.is_empty()).collect();
    by_effect.sort_by(|a, b| sizes(&b.effects).1.total_cmp(&sizes(&a.effects).1));
    let (moving, idle): (Vec<&Fitted>, Vec<&Fitted>) =
        by_effect.into_iter().partition(|it| sizes(&it.effects).1 >= HARDLY * 100.0);
    for it in moving {
        let most = it.effects.iter().zip(&found.cells).max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
        let (most, cell) = most.map_or((0.0, ""), |(effect, cell)| (*effect, cell.as_str()));
        let cell = cell.split_once(": ").map_or(cell, |(_, cell)| cell).to_owned();
        let typical = format!("{:.1} %", sizes(&it.effects).0);
        let own =
            [it.free.name.clone(), it.free.text(it.free.value), it.free.unit.to_owned(), typical, percent(most), cell];
        grid.push(own.into_iter().chain(is_published.then(|| sure(it.factor, "not fitted"))));
    }
    if !idle.is_empty() {
        let names: Vec<&str> = idle.iter().map(|it| it.free.name.as_str()).collect();
        grid.notes.push(format!("No cell is moved by {:.1} % by {}", HARDLY * 100.0, names.join(", ")));
    }
    grid.notes.push("Numbers that count things, such as cores, are not moved: set them with --set".to_owned());
    let meaning = "Fixed by the table: the factor up and down within which a fitted parameter lies (95 %), if those that are not fitted are right";
    grid.notes.extend(is_published.then(|| meaning.to_owned()));
    grid.notes.extend((!is_published).then(|| "With --compare FILE: which parameters that table fixes".to_owned()));
    grid.notes.extend(found.stopped.then(|| STOPPED.to_owned()));
    grid
}

fn lines(found: &fit::Fit) -> Vec<Members<7>> {
    let line = |Fitted { free, value, factor, effects, .. }: &Fitted| {
        Members([
            ("parameter", free.name.as_str().into()),
            ("unit", free.unit.into()),
            ("before", free.value.into()),
            ("fitted", (*value).into()),
            ("factor", factor.filter(|factor| factor.is_finite()).into()),
            ("most", (sizes(effects).1 / 100.0).into()),
            ("stopped", found.stopped.into()),
        ])
    };
    found.parameters.iter().map(line).collect()
}

/// One file; or one for each plan, where plans have values of their own under the same name.
fn files(found: &fit::Fit, plans: &[Plan], path: &Path, tables: &str) -> Vec<(PathBuf, String)> {
    let names: BTreeSet<&str> = found.parameters.iter().map(|it| it.free.name.as_str()).collect();
    if names.len() == found.parameters.len() {
        return vec![(path.to_owned(), file(&found.parameters.iter().collect::<Vec<_>>(), tables))];
    }
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let of = |(number, plan): (usize, &Plan)| {
        let own: Vec<&Fitted> = found.parameters.iter().filter(|it| it.free.is_of(number)).collect();
        (path.with_file_name(format!("{}-{}.toml", stem(path), stem(&plan.path))), file(&own, tables))
    };
    plans.iter().enumerate().map(of).collect()
}

fn file(found: &[&Fitted], tables: &str) -> String {
    let mut parts = BTreeMap::<&str, Vec<(&str, &Fitted)>>::new();
    for fitted in found {
        let (part, name) = fitted.free.name.split_once('.').unwrap_or(("", &fitted.free.name));
        parts.entry(part).or_default().push((name, fitted));
    }
    let mut text = format!("# Found by `sidecore sim fit` from {tables}.\n");
    for (part, parameters) in parts {
        _ = writeln!(text, "\n[{part}]");
        for (name, Fitted { free: free @ Free { unit, meaning, .. }, value, .. }) in parameters {
            let meaning = meaning.replace(['"', '\\'], "'");
            let value = free.text(significant(*value));
            _ = writeln!(
                text,
                "{name} = {{ value = {value}, unit = \"{unit}\", origin = \"fitted\", meaning = \"{meaning}\" }}"
            );
        }
    }
    text
}

/// Three digits are more than the precision of any fit.
fn significant(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_beyond_the_third_are_dropped() {
        assert_eq!([123.456, 0.012_345, 9.999].map(|value| significant(value).to_string()), ["123", "0.0123", "10"]);
    }
}
