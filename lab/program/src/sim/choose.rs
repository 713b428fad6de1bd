//! The cheapest hardware and policies that keep a metric within a bound, as tables and a picture.

mod answer;

use super::output::{self, Members, progress};
use super::{plots, tables};
use crate::args;
use crate::error::LabError;
use crate::report::plot::{Axis, Line, Scale, lines, on_white};
use crate::report::{Grid, digits};
use answer::{End, Words, name};
use serde_json::Value;
use sidecore_measure::export::print;
use sidecore_sim::choose::{Answer, Candidate, Question, Untried, Verdict, choose};
use sidecore_sim::plan::{Changes, Choice, Plan, range};
use std::ops::ControlFlow;
use std::time::Instant;

/// Candidates are drawn up to this multiple of the bound.
const NEAR: f64 = 3.0;
const GREY: usize = 9;

/// Returns `false` if no candidate keeps the bound. A stop before an answer is an error.
pub(super) fn run(args: &args::Choose) -> Result<bool, LabError> {
    let plans = tables::read(std::slice::from_ref(&args.plan), &args.set)?;
    let plan = &plans[0];
    let question = question(plan, args)?;
    let (started, progress, mut is_late) = (Instant::now(), progress("choose")?, false);
    let found = choose(plan, &question, &mut |done, all| {
        is_late |= started.elapsed().as_secs_f64() >= args.seconds;
        if is_late { ControlFlow::Break(()) } else { progress(done, all) }
    });
    drop(progress);
    let answer = found?;
    let words = Words { plan, question: &question };
    let end = if is_late { End::Late(args.seconds) } else { End::Other };
    let mut grids = vec![words.answer(&answer, end)];
    grids[0].notes.extend(plan.system.note(&plan.settings));
    grids.extend(question.all.then(|| frontier_grid(&words, &answer)));
    let text: String = grids.iter().map(|grid| grid.to_text() + "\n").collect();
    let printed = print(&text);
    let page = page(&words, &answer, &grids);
    let title = format!("{}: what to choose", plan.title);
    let (text, picture) = (output::page(&title, &command(args), &page.0), page.1);
    output::write(&args.output, &json(&words, &answer), &text, picture.as_slice())?;
    printed?;
    if answer.best.is_none() && answer.stopped {
        return Err(LabError::Broken(
            "the search was stopped before an answer: give more --seconds, or fewer values".into(),
        ));
    }
    Ok(answer.best.is_some())
}

/// The page's text, and the name and content of its picture if there is something to draw.
fn page(words: &Words<'_>, answer: &Answer, grids: &[Grid]) -> (String, Option<(String, String)>) {
    let tables: Vec<String> = grids.iter().map(Grid::to_markdown).collect();
    if !words.question.all || answer.frontier().is_empty() {
        return (tables.join("\n"), None);
    }
    let (file, svg) = picture(words, answer);
    let drawn = "Each point is a way that carries the load, without those at more than three times the bound, which the dashed line is; along \
                 the other lie those that nothing beats in both cost and tail.";
    let (first, others) = tables.split_first().map_or(("", &tables[..]), |(first, others)| (first, others));
    (format!("{first}\n![cost and tail]({file})\n\n{drawn}\n\n{}", others.concat()), Some((file, svg)))
}

fn command(args: &args::Choose) -> String {
    let given = [("set", &args.set), ("over", &args.over), ("cost", &args.cost)];
    let given =
        given.into_iter().flat_map(|(name, values)| values.iter().map(move |value| format!(" --{name} {value}")));
    let (plan, given) = (args.plan.display(), given.collect::<Vec<_>>().concat());
    let bounds = [("p99", args.p99), ("bound", args.bound)];
    let bound = bounds.iter().filter_map(|(name, bound)| Some(format!(" --{name} {}", (*bound)?)));
    format!("choose {plan} --load {}{}{given} {}", args.load, bound.collect::<String>(), args.effort.arguments())
}

fn question(plan: &Plan, args: &args::Choose) -> Result<Question, LabError> {
    let none =
        || LabError::Usage(format!("{} has no [choose] section: docs/simulator.md shows one", plan.path.display()));
    let mut choice: Choice = plan.choice.clone().ok_or_else(none)?;
    for over in &args.over {
        let wrong = |why: String| LabError::failed(format!("--over {over}"), why);
        let (name, text) = over.split_once('=').ok_or_else(|| wrong("write NAME=VALUE,…".to_owned()))?;
        let name = plan.full_name(name.trim()).map_err(|why| wrong(why.to_string()))?;
        let values = values(text).map_err(wrong)?;
        values.iter().try_for_each(|value| plan.accepts(&name, value)).map_err(|why| wrong(why.to_string()))?;
        choice.over.retain(|(known, _)| *known != name);
        choice.over.push((name, values));
    }
    if !args.cost.is_empty() {
        choice.cost = args.cost.iter().map(|cost| price(cost)).collect::<Result<_, _>>()?;
    }
    let bound = bound(plan, args, choice.latency)?;
    let all = args.output.markdown.is_some();
    Ok(Question { load: args.load, bound, choice, effort: args.effort.effort(), all })
}

fn bound(plan: &Plan, args: &args::Choose, metric: usize) -> Result<f64, LabError> {
    let metric = &plan.system.metrics[metric];
    let is_p99 = metric.name.starts_with("p99");
    let bound = args.bound.or(args.p99.filter(|_| is_p99));
    bound.ok_or_else(|| {
        let unit = if metric.unit == "1" { String::new() } else { format!(" in {}", metric.unit) };
        let (plan, metric) = (plan.path.display(), metric.name);
        LabError::Usage(format!(
            "--p99 bounds a 99th percentile, and {plan} bounds {metric}: write --bound VALUE{unit}"
        ))
    })
}

/// Values between commas; `0..64` and `0..64..8` are ranges with a step of 1 and 8.
fn values(text: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for value in list(text) {
        let ends: Option<Vec<f64>> = value.split("..").map(|end| end.trim().parse().ok()).collect();
        let (from, to, step) = match ends.as_deref() {
            Some([from, to]) => (*from, *to, 1.0),
            Some([from, to, step]) => (*from, *to, *step),
            _ => {
                all.push(value);
                continue;
            }
        };
        let within = range(from, to, step).map_err(|why| why.to_string())?;
        if within.is_empty() {
            return Err(format!("{value} has no value: write FROM..TO with the lower one first"));
        }
        all.extend(within);
    }
    Ok(all)
}

fn price(text: &str) -> Result<(String, f64), LabError> {
    let wrong = || LabError::Usage(format!("--cost {text}: write NAME=PRICE with a price of 0 or more"));
    let (name, price) = text.split_once('=').ok_or_else(wrong)?;
    let price = price.trim().parse().ok().filter(|price: &f64| price.is_finite() && *price >= 0.0);
    Ok((name.trim().to_owned(), price.ok_or_else(wrong)?))
}

/// Splits at commas outside of brackets: `park,coalesce(4,50us)` are two values.
fn list(text: &str) -> Vec<String> {
    let (mut values, mut depth) = (vec![String::new()], 0);
    for letter in text.chars() {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        match (letter, values.last_mut()) {
            (',', _) if depth == 0 => values.push(String::new()),
            (_, Some(last)) => last.push(letter),
            (_, None) => {}
        }
    }
    values.into_iter().map(|value| value.trim().to_owned()).collect()
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Meets => "yes",
        Verdict::Unsure => "not sure",
        Verdict::TooSlow => "no",
        Verdict::Overloaded => "overloaded",
    }
}

fn frontier_grid(words: &Words<'_>, answer: &Answer) -> Grid {
    let headings = ["cost", "what", words.metric().name, "keeps the bound", "limited by"];
    let mut grid = Grid::new("What nothing beats in both cost and tail", &headings);
    for number in answer.frontier() {
        let it = &answer.candidates[number];
        let (what, figure) = (name(words.plan, it.variant.as_deref(), &it.set), words.figure(it));
        grid.push([digits(it.cost), what, figure, word(it.verdict).to_owned(), it.limit.clone()]);
    }
    grid
}

fn picture(words: &Words<'_>, answer: &Answer) -> (String, String) {
    let most = words.question.bound;
    let point = |number: usize| (answer.candidates[number].cost, answer.candidates[number].tail.mean);
    let points: Vec<(f64, f64)> = answer.frontier().into_iter().map(point).collect();
    let near = answer.candidates.iter().filter(|it| it.verdict != Verdict::Overloaded).map(|it| it.cost);
    let (from, to) = near
        .chain(points.iter().map(|(cost, _)| *cost))
        .fold((f64::MAX, f64::MIN), |(from, to), cost| (from.min(cost), to.max(cost)));
    let bound = vec![(from, most), (to.max(from * 1.01), most)];
    let is_near = |it: &&Candidate| it.verdict != Verdict::Overloaded && it.tail.mean <= NEAR * most;
    let others = answer.candidates.iter().filter(is_near).map(|it| vec![(it.cost, it.tail.mean)]);
    let others = others.map(|points| Line { colour: GREY, points, ..Line::default() });
    let lines_of =
        [Line { points, ..Line::default() }, Line { colour: 1, dashed: true, points: bound, ..Line::default() }];
    let drawn: Vec<Line> = others.chain(lines_of).collect();
    let across = Axis::new("cost", Scale::Linear, digits);
    let up = Axis::new(format!("{}, {}", words.metric().name, words.metric().unit), Scale::Linear, digits);
    (format!("{}-choose.svg", plots::stem(words.plan)), on_white(&lines(plots::SIZE, &across, &up, &drawn)))
}

fn json(words: &Words<'_>, answer: &Answer) -> Vec<Members<9>> {
    let frontier = answer.frontier();
    let settings = |set: &Changes| {
        let set = set.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        Value::Object(set.collect())
    };
    let (metric, within) = (words.metric(), if words.metric().unit == "us" { "within_us" } else { "within" });
    let line = |(number, it): (usize, &Candidate)| {
        Members([
            ("variant", it.variant.as_deref().unwrap_or(tables::OWN).into()),
            ("settings", settings(&it.set)),
            ("cost", it.cost.into()),
            (metric.name, it.tail.mean.into()),
            (within, it.tail.within.is_finite().then_some(it.tail.within).into()),
            ("ops_per_s", it.rate.mean.into()),
            ("keeps", word(it.verdict).into()),
            ("limit", it.limit.as_str().into()),
            ("place", place(answer, number, &frontier).into()),
        ])
    };
    let untried = |it: &Untried| {
        let variant = it.variant.as_deref().unwrap_or(tables::OWN).into();
        let mut members = [(); 9].map(|()| ("", Value::Null));
        members[0] = ("variant", variant);
        members[1] = ("settings", settings(&it.set));
        members[2] = ("cost", it.cost.into());
        members[3] = ("keeps", "not tried".into());
        Members(members)
    };
    let tried = answer.candidates.iter().enumerate().map(line);
    tried.chain(answer.untried.iter().map(untried)).collect()
}

fn place(answer: &Answer, number: usize, frontier: &[usize]) -> Option<&'static str> {
    let is_on = frontier.contains(&number).then_some("frontier");
    (answer.best == Some(number)).then_some("choice").or(is_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_brackets_separate_nothing() {
        assert_eq!(list("park,coalesce(4,50us), spin"), ["park", "coalesce(4,50us)", "spin"]);
    }

    #[test]
    fn ranges_stand_among_values() {
        assert_eq!(values("0..3,8, 16..32..8").unwrap(), ["0", "1", "2", "3", "8", "16", "24", "32"]);
        assert_eq!(values("coalesce(4,50us),0.5..1..0.25").unwrap(), ["coalesce(4,50us)", "0.5", "0.75", "1"]);
        assert!(values("3..0").unwrap_err().contains("the lower one first"));
        assert!(values("0..9..0").is_err() && values("0..1e9").unwrap_err().contains("more than 1024 values"));
    }

    #[test]
    fn a_price_is_a_number_from_0() {
        assert_eq!(price("card.count=3.5").unwrap(), ("card.count".to_owned(), 3.5));
        assert!(price("card.count").is_err() && price("card.count=-1").is_err() && price("card=nan").is_err());
    }
}
