//! The cheapest hardware and policies that keep a tail under a bound, as tables and a picture.

use super::output::{self, Members, STOPPED, progress};
use super::{plots, tables};
use crate::args;
use crate::error::LabError;
use crate::export::print;
use crate::report::plot::{Axis, Line, Scale, lines, on_white};
use crate::report::{Grid, digits};
use serde_json::Value;
use sidecore_sim::choose::{Answer, Candidate, Question, Verdict, choose};
use sidecore_sim::plan::{Choice, Plan};

/// Candidates are drawn up to this multiple of the bound.
const NEAR: f64 = 3.0;
const GREY: usize = 9;

/// Returns `false` if no candidate keeps the bound.
pub(super) fn run(args: &args::Choose) -> Result<bool, LabError> {
    let plans = tables::read(std::slice::from_ref(&args.plan), &args.set)?;
    let plan = &plans[0];
    let question = question(plan, args)?;
    let mut progress = progress("choose")?;
    let found = choose(plan, &question, &mut progress);
    drop(progress);
    let answer = found?;
    let mut grids = [answer_grid(plan, &question, &answer), frontier_grid(plan, &answer)];
    grids[0].notes.extend(plan.system.note(&plan.settings));
    let text: String = grids.iter().map(|grid| grid.to_text() + "\n").collect();
    let printed = print(&text);
    let (file, svg) = picture(plan, &question, &answer);
    let tables: Vec<String> = grids.iter().map(Grid::to_markdown).collect();
    let drawn = "Each point is a way that carries the load, without those at more than three times the bound, which the dashed line is; along \
                 the other lie those that nothing beats in both cost and tail.";
    let body = format!("{}\n![cost and tail]({file})\n\n{drawn}\n\n{}", tables[0], tables[1]);
    let command = command(args);
    let title = format!("{}: what to choose", plan.title);
    output::write(&args.output, &json(&answer), &output::page(&title, &command, &body), &[(file, svg)])?;
    printed?;
    Ok(answer.best.is_some())
}

fn command(args: &args::Choose) -> String {
    let given = [("set", &args.set), ("over", &args.over), ("cost", &args.cost)];
    let given =
        given.into_iter().flat_map(|(name, values)| values.iter().map(move |value| format!(" --{name} {value}")));
    let (plan, given) = (args.plan.display(), given.collect::<Vec<_>>().concat());
    format!("choose {plan} --load {} --p99 {}{given} {}", args.load, args.p99, args.effort.arguments())
}

fn question(plan: &Plan, args: &args::Choose) -> Result<Question, LabError> {
    let none =
        || LabError::Usage(format!("{} has no [choose] section: docs/simulator.md shows one", plan.path.display()));
    let mut choice: Choice = plan.choice.clone().ok_or_else(none)?;
    for over in &args.over {
        let wrong = |why: String| LabError::failed(format!("--over {over}"), why);
        let (name, values) = over.split_once('=').ok_or_else(|| wrong("write NAME=VALUE,…".to_owned()))?;
        let name = plan.full_name(name.trim()).map_err(|why| wrong(why.to_string()))?;
        let values = list(values);
        values.iter().try_for_each(|value| plan.accepts(&name, value)).map_err(|why| wrong(why.to_string()))?;
        choice.over.retain(|(known, _)| *known != name);
        choice.over.push((name, values));
    }
    if !args.cost.is_empty() {
        choice.cost = args.cost.iter().map(|cost| price(cost)).collect::<Result<_, _>>()?;
    }
    Ok(Question { load: args.load, bound: args.p99, choice, effort: args.effort.effort() })
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

fn answer_grid(plan: &Plan, question: &Question, answer: &Answer) -> Grid {
    let asked =
        format!("{} requests/s with a 99th percentile of at most {} us", digits(question.load), digits(question.bound));
    let mut grid = Grid::new(format!("{}: {asked}", plan.title), &["choice", ""]);
    let mut row = |what: &str, said: String| grid.push([what.to_owned(), said]);
    let Some(best) = answer.best.map(|best| &answer.candidates[best]) else {
        row("answer", "nothing that may be chosen keeps the bound for certain".to_owned());
        let quickest = answer.candidates.iter().filter(|it| it.verdict != Verdict::Overloaded);
        let quickest = quickest.min_by(|a, b| a.tail.mean.total_cmp(&b.tail.mean));
        row(
            "nearest",
            quickest.map_or("nothing carries the load".to_owned(), |it| format!("{}: {}", name(plan, it), tail(it))),
        );
        grid.notes.extend(notes(answer));
        return grid;
    };
    row("answer", name(plan, best));
    row("cost", digits(best.cost));
    row("99th percentile", tail(best));
    row("margin in time", format!("{:.0} % of the bound are left", (1.0 - best.tail.mean / question.bound) * 100.0));
    row("limited by", best.limit.clone());
    if let Some(margin) = &answer.margin {
        let (from, to) = &margin.carries;
        let carries = match to {
            Some(to) => format!(
                "from {} to {} requests/s, {:.2} x what is asked",
                digits(*from),
                digits(*to),
                from / question.load
            ),
            None => format!("more than {} requests/s", digits(*from)),
        };
        row("carries at most", format!("{carries}; then limited by {}", margin.limit));
        if let (Some((tail, verdict)), Some(error)) = (margin.at_error, question.choice.error) {
            let (percent, tail) = (error * 100.0, digits(tail));
            let said = match verdict {
                Verdict::Meets => {
                    format!("holds: {tail} us with {percent:.0} % more load, the plan's worst known error")
                }
                Verdict::Overloaded => {
                    format!("not sure: {percent:.0} % more load, the plan's worst known error, is too much for it")
                }
                _ => format!("not sure: {tail} us with {percent:.0} % more load, the plan's worst known error"),
            };
            row("if the plan is wrong", said);
            let safe = margin.safe.map(|safe| &answer.candidates[safe]);
            let said = safe.map(|safe| format!("{}, at a cost of {}", name(plan, safe), digits(safe.cost)));
            row("to be safe from that", said.unwrap_or("nothing that may be chosen".to_owned()));
        } else {
            row("if the plan is wrong", "the plan states no error of its own: try the answer by a run".to_owned());
        }
    }
    grid.notes.extend(notes(answer));
    grid
}

fn notes(answer: &Answer) -> Vec<String> {
    let (tried, impossible) = (answer.candidates.len(), answer.impossible);
    let mut notes =
        vec![format!("{tried} ways that differ were tried; {impossible} combinations contradict themselves")];
    notes.extend(answer.stopped.then(|| STOPPED.to_owned()));
    notes
}

fn name(plan: &Plan, candidate: &Candidate) -> String {
    let own = if plan.variants.is_empty() { "" } else { tables::OWN };
    let variant = candidate.variant.as_deref().unwrap_or(own).to_owned();
    let set = candidate.set.iter().map(|(name, value)| format!("{} {value}", name.trim_end_matches(".count")));
    [variant].into_iter().filter(|name| !name.is_empty()).chain(set).collect::<Vec<_>>().join(", ")
}

fn tail(candidate: &Candidate) -> String {
    let within = candidate.tail.within;
    let half = if within.is_finite() { format!(" +- {} (95 %)", digits(within)) } else { String::new() };
    format!("{} us{half}", digits(candidate.tail.mean))
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Meets => "yes",
        Verdict::Unsure => "not sure",
        Verdict::TooSlow => "no",
        Verdict::Overloaded => "overloaded",
    }
}

fn frontier_grid(plan: &Plan, answer: &Answer) -> Grid {
    let headings = ["cost", "what", "99th percentile", "keeps the bound", "limited by"];
    let mut grid = Grid::new("What nothing beats in both cost and tail", &headings);
    for number in answer.frontier() {
        let it = &answer.candidates[number];
        let figures = [digits(it.cost), name(plan, it), tail(it), word(it.verdict).to_owned(), it.limit.clone()];
        grid.push(figures);
    }
    grid
}

fn picture(plan: &Plan, question: &Question, answer: &Answer) -> (String, String) {
    let point = |number: usize| (answer.candidates[number].cost, answer.candidates[number].tail.mean);
    let points: Vec<(f64, f64)> = answer.frontier().into_iter().map(point).collect();
    let near = answer.candidates.iter().filter(|it| it.verdict != Verdict::Overloaded).map(|it| it.cost);
    let (from, to) = near
        .chain(points.iter().map(|(cost, _)| *cost))
        .fold((f64::MAX, f64::MIN), |(from, to), cost| (from.min(cost), to.max(cost)));
    let bound = vec![(from, question.bound), (to.max(from * 1.01), question.bound)];
    let is_near = |it: &&Candidate| it.verdict != Verdict::Overloaded && it.tail.mean <= NEAR * question.bound;
    let others = answer.candidates.iter().filter(is_near).map(|it| vec![(it.cost, it.tail.mean)]);
    let others = others.map(|points| Line { colour: GREY, points, ..Line::default() });
    let lines_of =
        [Line { points, ..Line::default() }, Line { colour: 1, dashed: true, points: bound, ..Line::default() }];
    let drawn: Vec<Line> = others.chain(lines_of).collect();
    let across = Axis::new("cost", Scale::Linear, digits);
    let up = Axis::new("99th percentile, us", Scale::Linear, digits);
    (format!("{}-choose.svg", plots::stem(plan)), on_white(&lines(plots::SIZE, &across, &up, &drawn)))
}

fn json(answer: &Answer) -> Vec<Members<9>> {
    let frontier = answer.frontier();
    let line = |(number, it): (usize, &Candidate)| {
        let set = it.set.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        Members([
            ("variant", it.variant.as_deref().unwrap_or(tables::OWN).into()),
            ("settings", Value::Object(set.collect())),
            ("cost", it.cost.into()),
            ("p99_us", it.tail.mean.into()),
            ("within_us", it.tail.within.is_finite().then_some(it.tail.within).into()),
            ("ops_per_s", it.rate.mean.into()),
            ("keeps", word(it.verdict).into()),
            ("limit", it.limit.as_str().into()),
            ("place", place(answer, number, &frontier).into()),
        ])
    };
    answer.candidates.iter().enumerate().map(line).collect()
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
    fn a_price_is_a_number_from_0() {
        assert_eq!(price("card.count=3.5").unwrap(), ("card.count".to_owned(), 3.5));
        assert!(price("card.count").is_err() && price("card.count=-1").is_err() && price("card=nan").is_err());
    }
}
