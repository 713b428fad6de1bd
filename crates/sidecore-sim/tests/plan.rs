//! Correct plans, and the errors for incorrect ones.

use sidecore_sim::compare::{Published, compare};
use sidecore_sim::estimate::Effort;
use sidecore_sim::plan::Plan;
use sidecore_sim::settings::{Origin, Source};
use sidecore_sim::table;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const GOOD: &str = r#"
system = "queue"
title = "A queue"
include = ["servers.toml"]

[arrivals]
load = 0.8
count = 20_000

[table]
cell = "wait_us"
rows = { count = [1, 2] }
columns = { load = { from = 0.2, to = 0.8, step = 0.2 } }

[[variant]]
name = "constant"
set = { distribution = "constant" }

[[heading]]
says = "two servers"
set = { "server.count" = 2 }

[[heading]]
says = "{} us each"
set = { time_us = "{}" }
"#;

const SERVERS: &str = r#"
[server]
count = 1
time_us = { value = 10, unit = "us", origin = "assumed", meaning = "one request" }
distribution = "exponential"
"#;

fn written(plan: &str, servers: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    fs::write(&path, plan).unwrap();
    fs::write(folder.path().join("servers.toml"), servers).unwrap();
    (folder, path)
}

fn good() -> Plan {
    // `count` alone is ambiguous.
    let (folder, path) = written(&GOOD.replace("{ count =", "{ \"server.count\" ="), SERVERS);
    let plan = Plan::read(&path).unwrap();
    drop(folder);
    plan
}

fn error(plan: &str, servers: &str) -> String {
    let (folder, path) = written(plan, servers);
    let error = Plan::read(&path).unwrap_err().to_string();
    error.replace(&format!("{}/", folder.path().display()), "")
}

fn wrong(from: &str, to: &str) -> String {
    let plan = GOOD.replace("{ count =", "{ \"server.count\" =");
    assert!(plan.contains(from) || SERVERS.contains(from), "{from}");
    error(&plan.replace(from, to), &SERVERS.replace(from, to))
}

#[test]
fn a_plan_is_read_with_all_it_says() {
    let plan = good();
    assert_eq!((plan.title.as_str(), plan.system.name), ("A queue", "queue"));
    assert_eq!((plan.shape.rows.labels.len(), plan.shape.columns.title()), (2, "load"));
    assert!(plan.shape.columns.labels.len() == 4 && !plan.shape.columns.is_metrics());
    let time = plan.settings.iter().find(|(parameter, _)| parameter.name == "server.time_us").unwrap().1;
    let documented = Source::Documented(Origin::Assumed, "one request".to_owned());
    assert_eq!(time, Some(&("10".to_owned(), documented)));
}

#[test]
fn what_is_wrong_is_said_with_file_line_and_remedy() {
    let cases = [
        ("unit = \"us\"", "unit = \"ms\"", "servers.toml:4: server.time_us is in us: convert the value"),
        ("origin = \"assumed\"", "origin = \"guess\"", "servers.toml:4: unknown origin `guess`; there are datasheet"),
        (", meaning = \"one request\"", "", "servers.toml:4: server.time_us has no `meaning`"),
        ("value = 10", "value = 0", "servers.toml:4: `0` is no value for server.time_us: write a number from 0.1 to"),
        ("[server]", "[sever]", "servers.toml:2: unknown part `sever`; did you mean `server`?"),
        (
            "\"exponential\"",
            "\"exponental\"",
            "servers.toml:5: `exponental` is no value for server.distribution: write",
        ),
        ("load = 0.8", "lod = 0.8", "plan.toml:7: unknown parameter `arrivals.lod`; did you mean `arrivals.load`?"),
        ("count = 20_000", "count = 2.5", "plan.toml:8: `2.5` is no value for arrivals.count: write a whole number"),
        ("system = \"queue\"", "system = \"queu\"", "plan.toml:2: unknown system `queu`; did you mean `queue`?"),
        ("\"queue\"", "\"nic\"", "plan.toml:2: there is no system `nic` any more: measured by sidecore net link"),
        (
            "\"queue\"",
            "\"streams\"",
            "plan.toml:2: there is no system `streams` any more: measured by sidecore bench sockets",
        ),
        ("wait_us", "wait_ms", "plan.toml:11: unknown metric `wait_ms`; did you mean `wait_us`?"),
        ("step = 0.2", "step = 0.0001", "plan.toml:13: the range has more than 1024 values: widen its step"),
        ("step = 0.2", "step = 0", "plan.toml:13: a range has either a `step` above 0 or a `factor` above 1"),
        ("to = 0.8", "to = 1.2", "plan.toml:13: `1` is no value for arrivals.load"),
        ("[1, 2]", "[]", "plan.toml:12: an axis has 1 to 1024 values, this one 0"),
        ("\"server.count\" = [1", "count = [1", "plan.toml:12: `count` is short for arrivals.count and server.count"),
        ("cell = \"wait_us\"\n", "", "plan.toml:10: the table does not say what is in a cell"),
        ("distribution = \"constant\"", "distribution = 3", "plan.toml:17: `3` is no value for server.distribution"),
        ("title = \"A queue\"", "title = [", "plan.toml:"),
        ("{} us each", "us each", "plan.toml:24: heading \"us each\" sets a number but has no {}"),
        ("servers.toml", "server.toml", "server.toml: cannot be read"),
        ("time_us = {", "times_us = {", "servers.toml:4: unknown parameter `server.times_us`; did you mean"),
    ];
    for (from, to, message) in cases {
        let said = wrong(from, to);
        assert!(said.starts_with(message), "{to}: {said}");
    }
    let plan = GOOD.replace("{ count =", "{ \"server.count\" =");
    let missing = error(&plan.replace("[\"servers.toml\"]", "[]"), "");
    assert!(missing.starts_with("plan.toml: server.count has no value"), "{missing}");
}

#[test]
fn a_range_that_explodes_is_refused_before_the_run() {
    let many = "{ from = 0.01, to = 0.99, step = 0.01 }";
    let rows = "{ from = 1, to = 90, step = 1 }";
    let said = error(
        &GOOD
            .replace("{ count = [1, 2] }", &format!("{{ \"server.count\" = {rows} }}"))
            .replace("{ from = 0.2, to = 0.8, step = 0.2 }", many),
        SERVERS,
    );
    assert!(said.starts_with("plan.toml:10: the table has 8910 cells, at most 4096 are run"), "{said}");
}

#[test]
fn the_command_line_sets_parameters_and_is_told_what_is_wrong() {
    let mut plan = good();
    plan.set_all(&["load=0.5", "servers = 3"]).unwrap();
    assert_eq!((plan.settings.text("arrivals.load"), plan.settings.text("server.count")), (Some("0.5"), Some("3")));
    for (setting, message) in [
        ("load", "--set load: write NAME=VALUE"),
        ("load=2", "--set load=2: `2` is no value for arrivals.load: write a number from 0.01 to 0.99"),
        ("lod=0.5", "--set lod=0.5: unknown parameter `lod`; did you mean"),
        ("load=nan", "--set load=nan: `nan` is no value"),
    ] {
        let said = plan.set_all(&[setting]).unwrap_err().to_string();
        assert!(said.starts_with(message), "{setting}: {said}");
    }
}

fn go(_: usize, _: usize) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn a_table_has_a_run_for_each_case_and_the_same_ones_for_the_same_seed() {
    let plan = good();
    let run = |seed| table::run(&plan, &plan.settings, &plan.shape, &Effort::once(seed), &mut go).unwrap();
    let (first, again, other) = (run(1), run(1), run(2));
    assert_eq!(
        (first.runs.len(), &first.shape.rows.labels[..], first.shape.columns.labels[1].as_str()),
        (8, &["1".to_owned(), "2".to_owned()][..], "0.4")
    );
    let traces = |table: &table::Table| table.runs.iter().map(|run| run.outcome.trace).collect::<Vec<_>>();
    assert_eq!(traces(&first), traces(&again));
    assert_ne!(traces(&first), traces(&other));
    assert!(first.value(0, 3) > first.value(1, 3));
}

fn with_cases(rows: &str, more: &str) -> (tempfile::TempDir, Result<Plan, String>) {
    let plan = GOOD.replace("{ count = [1, 2] }", &format!("{{ case = [{rows}] }}"));
    let case = |name, count, load| {
        format!("[[case]]\nname = \"{name}\"\nset = {{ \"server.count\" = {count}, load = {load} }}\n")
    };
    let plan = plan.replace(
        "columns = { load = { from = 0.2, to = 0.8, step = 0.2 } }",
        "columns = { metric = [\"wait_us\", \"total_us\"] }",
    );
    let plan = plan.replace("cell = \"wait_us\"\n", "");
    let (folder, path) = written(&(plan + &case("calm", 2, 0.2) + &case("busy", 1, 0.8) + more), SERVERS);
    (folder, Plan::read(&path).map_err(|error| error.to_string()))
}

#[test]
fn an_axis_over_cases_sets_several_parameters_at_once() {
    let (_folder, plan) = with_cases("\"busy\", \"calm\"", "");
    let plan = plan.unwrap();
    let table = table::run(&plan, &plan.settings, &plan.shape, &Effort::once(1), &mut go).unwrap();
    let waits = [0, 1].map(|row| table.value(row, 0).unwrap());
    assert!((waits[0] - 40.0).abs() < 8.0 && waits[1] < 1.0, "{waits:?}");
    assert_eq!(table.runs[1].case, [("case".to_owned(), "calm".to_owned())]);
    let (_folder, found) = published("case,wait_us\nbusy,40\n");
    let comparison = compare(&plan, &found.unwrap(), &[], &Effort::once(1), &mut go).unwrap();
    assert_eq!((comparison.cells.len(), comparison.cells[0].row.as_str()), (1, "busy"));
    let (_folder, found) = published("case,wait_us\nbsy,40\n");
    let said = compare(&plan, &found.unwrap(), &[], &Effort::once(1), &mut go).unwrap_err().to_string();
    assert!(said.contains("unknown case `bsy`; did you mean `busy`?"), "{said}");
}

#[test]
fn wrong_cases_are_said() {
    let twice = "[[case]]\nname = \"calm\"\nset = { load = 0.5 }\n";
    for (rows, more, message) in [
        ("\"calmer\"", "", "plan.toml:11: unknown case `calmer`; did you mean `calm`?"),
        ("\"calm\"", twice, "there are two cases \"calm\": rename one"),
        ("\"calm\"", "[[case]]\nname = \"x\"\nset = { load = 7 }\n", "`7` is no value for arrivals.load"),
    ] {
        let said = with_cases(rows, more).1.unwrap_err();
        assert!(said.contains(message), "{said}");
    }
}

#[test]
fn a_stopped_table_keeps_what_it_has() {
    let plan = good();
    let mut stop = |done, _| if done == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let table = table::run(&plan, &plan.settings, &plan.shape, &Effort::once(1), &mut stop).unwrap();
    assert!(table.stopped && table.runs.len() == 3);
    assert!(table.value(0, 2).is_some() && table.value(0, 3).is_none());
}

fn published(text: &str) -> (tempfile::TempDir, Result<Published, String>) {
    let folder = tempfile::tempdir().unwrap();
    let path: &Path = &folder.path().join("published.csv");
    fs::write(path, text).unwrap();
    let published = Published::read(path).map_err(|error| error.to_string());
    (folder, published)
}

#[test]
fn a_published_table_is_compared_cell_by_cell() {
    let (_folder, found) = published(
        "# Two servers, of 20.5 us and 10 us each, of old\nmetric,0.5,0.8\nwait_us,3.33,\nutilisation,0.5,0.8\n",
    );
    let comparison = compare(&good(), &found.unwrap(), &[], &Effort::once(1), &mut go).unwrap();
    assert_eq!(comparison.understood, ["server.count=2", "server.time_us=10"]);
    let cells: Vec<(&str, &str)> = comparison.cells.iter().map(|c| (c.row.as_str(), c.column.as_str())).collect();
    assert_eq!(cells, [("wait_us", "0.5"), ("utilisation", "0.5"), ("utilisation", "0.8")]);
    assert!(comparison.worst().unwrap().error.abs() < 0.1 && comparison.median_error() < 0.05);
    let (_folder, found) = published("metric,0.5\nWait,10\ncolour,3\n");
    let comparison = compare(&good(), &found.unwrap(), &[], &Effort::once(1), &mut go).unwrap();
    assert_eq!((comparison.cells.len(), &comparison.left_out[..]), (1, &["colour".to_owned()][..]));
    let (_folder, found) = published("server.count,0.5\n1,10\n3,1.6\n");
    let comparison = compare(&good(), &found.unwrap(), &[], &Effort::once(1), &mut go).unwrap();
    assert_eq!(comparison.cells.len(), 2);
    assert!((comparison.cells[0].predicted - 10.0).abs() < 1.0, "{comparison:?}");
}

#[test]
fn a_published_table_that_does_not_fit_is_refused() {
    for (text, message) in [
        ("metric,0.5\nwait_us,three\n", "published.csv:2: `three` is no number"),
        ("# nothing\n", "published.csv: has no cells"),
        ("metric,0.5\nwait_us,1,2\n", "published.csv: cannot be read"),
    ] {
        let said = published(text).1.unwrap_err();
        assert!(said.contains(message), "{said}");
    }
    for (text, message) in [
        ("depth,0.5\n1,2\n", "unknown parameter `depth`"),
        ("metric,0.5\nwai,1\n", "no row is a metric of the plan: unknown metric `wai`; did you mean `wait_us`?"),
        ("server.count,high\n1,2\n", "`high` is no value for arrivals.load"),
        ("server.count,0.5\n0,2\n", "`0` is no value for server.count"),
        ("# 0 us each\nserver.count,0.5\n1,2\n", "its heading says: --set server.time_us=0: `0` is no value"),
    ] {
        let (_folder, found) = published(text);
        let said = compare(&good(), &found.unwrap(), &[], &Effort::once(1), &mut go).unwrap_err().to_string();
        assert!(said.contains(message), "{said}");
    }
}

#[test]
fn all_errors_come_together_in_the_order_of_lines() {
    let plan = GOOD.replace("{ count =", "{ \"server.count\" =");
    let plan = plan.replace("count = 20_000", "count = 2.5").replace("\"wait_us\"", "\"wait_ms\"");
    let plan = plan.replace("distribution = \"constant\"", "distribution = 3").replace("step = 0.2", "step = 0");
    let said = error(&plan, &SERVERS.replace("[server]", "[sever]\n[server]").replace("\"us\"", "\"ms\""));
    let places: Vec<&str> = said.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(
        places,
        ["plan.toml:8", "plan.toml:11", "plan.toml:13", "plan.toml:17", "servers.toml:2", "servers.toml:5"],
        "{said}"
    );
    // Twenty are told, and the number of the others.
    let many = (0..30).map(|number| format!("unknown{number} = 1\n")).collect::<Vec<_>>().concat();
    let said = error(&plan.replace("count = 2.5\n", &many), SERVERS);
    assert_eq!(said.lines().count(), 21, "{said}");
    assert!(said.lines().next().unwrap().starts_with("plan.toml:8: unknown parameter `arrivals.unknown0`"), "{said}");
    assert_eq!(said.lines().last(), Some("and 13 more errors"), "{said}");
}

#[test]
fn what_follows_from_another_error_is_not_told() {
    let plan = GOOD.replace("{ count =", "{ \"server.count\" =");
    for (plan, servers, said) in [
        // No parameter has a meaning without a system, nor a parameter of a file that is missing.
        (
            plan.replace("\"queue\"", "\"moon\"").replace("load = 0.8", "lod = 0.8"),
            SERVERS,
            "plan.toml:2: unknown system",
        ),
        (
            plan.replace("servers.toml", "server.toml").replace("load = 0.8", "lod = 0.8"),
            SERVERS,
            "server.toml: cannot",
        ),
        // The unknown name stands for the value that is missing, and a wrong value for none.
        (plan.replace("load = 0.8", "lod = 0.8"), SERVERS, "plan.toml:7: unknown parameter `arrivals.lod`"),
        (plan.replace("load = 0.8", "load = 8"), SERVERS, "plan.toml:7: `8` is no value for arrivals.load"),
        (plan.replace("title = \"A queue\"", ""), SERVERS, "plan.toml:1: has no `title`: add it"),
    ] {
        let error = error(&plan, servers);
        assert!(error.starts_with(said) && error.lines().count() == 1, "{error}");
    }
}
