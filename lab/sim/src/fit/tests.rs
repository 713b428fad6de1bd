//! Fits of a queue whose answers are known in closed form.

use super::*;
use std::path::Path;

const GO: Progress<'_> = &|_, _| ControlFlow::Continue(());

/// One memoryless server and a fixed number of requests, each of which waits for all others.
fn plan(time: &str) -> Plan {
    let text = format!(
        "system = \"pool\"\ntitle = \"one server\"\n[requests]\nclients = 5\ncount = 40000\n[work.op]\n[device.d]\nwork = \"exponential\"\n\
         op = {{ us = {{ value = {time}, unit = \"us\", origin = \"fitted\", meaning = \"one request\" }} }}\n[table]\n\
         cell = \"mean_us\"\nrows = {{ engines = [1] }}\ncolumns = {{ clients = [5] }}\n"
    );
    Plan::parse(Path::new("one.toml"), &text).unwrap()
}

fn published(rows: &str) -> (tempfile::TempDir, Published) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    std::fs::write(&path, format!("engines,2,5,8\n{rows}")).unwrap();
    let published = Published::read(&path).unwrap();
    (folder, published)
}

/// Two, five and eight requests at one server take as many times 10 us.
const EXACT: &str = "1,20,50,80\n";

#[test]
fn a_time_is_found_again_with_an_interval_that_holds_it() {
    let (_folder, published) = published(EXACT);
    let plan = plan("4");
    let targets = [Target { plan: &plan, published: &published }];
    let free = free(&targets, Which::Fitted).unwrap();
    assert_eq!(free.iter().map(|free| free.name.as_str()).collect::<Vec<_>>(), ["device.d.op.us"]);
    let found = fit(&targets, free, &Effort { seed: 1, runs: 4, precision: 0.0 }, 1, GO).unwrap();
    let time = &found.parameters[0];
    assert!(
        (time.value / 10.0).ln().abs() < time.factor.unwrap().ln().max(0.02) && time.factor < Some(1.2),
        "{time:?}"
    );
    let worst = |errors: &[f64]| errors.iter().fold(0.0, |worst: f64, error| worst.max(error.abs()));
    assert!(worst(&found.errors[0]) > 0.5 && worst(&found.errors[1]) < 0.05, "{:?}", found.errors);
    // Times are proportional to the time.
    assert!(time.effects.iter().all(|effect| (effect - 0.1).abs() < 0.01), "{time:?}");
    assert_eq!(found.cells, ["table: 1 2", "table: 1 5", "table: 1 8"]);
}

#[test]
fn what_the_table_does_not_tell_is_not_fixed() {
    let (_folder, published) = published(EXACT);
    let plan = plan("10");
    let targets = [Target { plan: &plan, published: &published }];
    let names = ["us".to_owned(), "requests.count".to_owned()];
    let found = sensitivity(&targets, free(&targets, Which::Named(&names)).unwrap(), &Effort::once(1), GO).unwrap();
    let factor = |name: &str| found.parameters.iter().find(|it| it.free.name == name).unwrap().factor;
    assert!(factor("device.d.op.us") < Some(FIXED) && factor("requests.count").is_none(), "{:?}", found.parameters);
    // A second free parameter is found to be one that the table does not determine.
    let both = fit(&targets, free(&targets, Which::Named(&names)).unwrap(), &Effort::once(1), 1, GO).unwrap();
    assert!(both.parameters.iter().any(|it| it.free.name == "requests.count" && it.factor > Some(FIXED)), "{both:?}");
}

#[test]
fn what_two_plans_take_from_one_place_is_one_parameter() {
    let (_folder, published) = published(EXACT);
    let (a, b, other) = (plan("4"), plan("4"), plan("5"));
    let targets = [&a, &b, &other].map(|plan| Target { plan, published: &published });
    let free = free(&targets, Which::Fitted).unwrap();
    assert_eq!(free.iter().map(|free| free.targets.clone()).collect::<Vec<_>>(), [vec![0, 1], vec![2]]);
}

#[test]
fn what_cannot_be_fitted_is_said() {
    let (_folder, published) = published("1,20,,\n");
    let plan = plan("4");
    let targets = [Target { plan: &plan, published: &published }];
    let said = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        free(&targets, Which::Named(&names)).unwrap_err().to_string()
    };
    assert!(said(&["engines"]).contains("device.d.engines is 1, which cannot be moved by factors"));
    assert!(said(&["submt_us"]).contains("did you mean `host.submit_us`?"));
    let few = fit(&targets, free(&targets, Which::Fitted).unwrap(), &Effort::once(1), 1, GO).unwrap_err().to_string();
    assert!(few.contains("1 cells cannot fix 1 parameters"), "{few}");
}

#[test]
fn a_fit_that_is_stopped_keeps_the_best_that_it_had() {
    let (_folder, published) = published(EXACT);
    let plan = plan("4");
    let targets = [Target { plan: &plan, published: &published }];
    let after = |evaluations: usize| {
        let stop: Progress<'_> =
            &move |done, _| if done >= evaluations { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        fit(&targets, free(&targets, Which::Fitted).unwrap(), &Effort::once(1), 1, stop).unwrap()
    };
    let (first, later) = (after(1), after(6));
    assert!(first.stopped && later.stopped);
    let sum = |errors: &[f64]| errors.iter().map(|error| error.ln_1p().abs()).sum::<f64>();
    assert!(
        sum(&first.errors[1]) >= sum(&later.errors[1]) && sum(&later.errors[1]) < sum(&later.errors[0]),
        "{later:?}"
    );
}

#[test]
fn starts_end_at_one_place_where_the_table_determines_it() {
    let (_folder, published) = published(EXACT);
    let plan = plan("8");
    let targets = [Target { plan: &plan, published: &published }];
    let of = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        fit(&targets, free(&targets, Which::Named(&names)).unwrap(), &Effort::once(1), 3, GO).unwrap()
    };
    let one = of(&["us"]);
    assert!(one.as_good == 3 && one.parameters[0].is_determined(), "{one:?}");
    let two = of(&["us", "requests.count"]);
    let count = two.parameters.iter().find(|it| it.free.name == "requests.count").unwrap();
    assert!(!count.is_determined(), "{two:?}");
    let again = of(&["us", "requests.count"]);
    assert!(two.parameters[0].ends.iter().zip(again.parameters[0].ends).all(|(a, b)| a.total_cmp(&b).is_eq()));
}

#[test]
fn what_is_left_out_is_predicted_from_the_rest() {
    // The last cell is twice what the others tell.
    let (_folder, published) = published("1,20,50,160\n");
    let plan = plan("4");
    let targets = [Target { plan: &plan, published: &published }];
    let free = free(&targets, Which::Fitted).unwrap();
    let effort = Effort { seed: 1, runs: 4, precision: 0.0 };
    let all = fit(&targets, free, &effort, 1, GO).unwrap();
    let found = leave_out(&targets, &all, &effort, 1, GO).unwrap();
    assert_eq!(found.iter().map(|part| part.name.as_str()).collect::<Vec<_>>(), ["column 2", "column 5", "column 8"]);
    assert!(found[2].cells == ["table: 1 8"] && (found[2].errors[0] - 0.5).abs() < 0.05, "{found:?}");
}
