//! Correct plans, and the errors for incorrect ones.

use proptest::collection::vec;
use proptest::prelude::*;
use sidecore_sim::compare::{Published, compare};
use sidecore_sim::estimate::Effort;
use sidecore_sim::plan::{MAX_CELLS, Plan};
use sidecore_sim::settings::{Origin, Source};
use sidecore_sim::table;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const GOOD: &str = r#"
system = "pool"
title = "A queue"
include = ["servers.toml"]

[requests]
rate_per_s = 80_000
count = 20_000

[table]
cell = "mean_us"
rows = { count = [1, 2] }
columns = { "requests.rate_per_s" = { from = 20_000, to = 80_000, step = 20_000 } }

[[variant]]
name = "constant"
set = { work = "constant" }

[[heading]]
says = "two servers"
set = { engines = 2 }

[[heading]]
says = "{} us each"
set = { us = "{}" }
"#;

const SERVERS: &str = r#"
[work.op]
[device.d]
engines = 1
work = "exponential"
[device.d.op]
us = { value = 10, unit = "us", origin = "assumed", meaning = "one request" }
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
    let (folder, path) = written(&GOOD.replace("{ count =", "{ engines ="), SERVERS);
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
    let plan = GOOD.replace("{ count =", "{ engines =");
    assert!(plan.contains(from) || SERVERS.contains(from), "{from}");
    error(&plan.replace(from, to), &SERVERS.replace(from, to))
}

#[test]
fn a_plan_is_read_with_all_it_says() {
    let plan = good();
    assert_eq!((plan.title.as_str(), plan.system.name), ("A queue", "pool"));
    assert_eq!((plan.shape.rows.labels.len(), plan.shape.columns.title()), (2, "rate_per_s"));
    assert!(plan.shape.columns.labels.len() == 4 && !plan.shape.columns.is_metrics());
    let time = plan.settings.iter().find(|(parameter, _)| parameter.name == "device.d.op.us").unwrap().1;
    let documented = Source::Documented(Origin::Assumed, "one request".to_owned());
    assert_eq!(time, Some(&("10".to_owned(), documented)));
}

#[test]
fn what_is_wrong_is_said_with_file_line_and_remedy() {
    let cases = [
        ("unit = \"us\"", "unit = \"ms\"", "servers.toml:7: device.d.op.us is in us: convert the value"),
        ("origin = \"assumed\"", "origin = \"guess\"", "servers.toml:7: unknown origin `guess`; there are datasheet"),
        (", meaning = \"one request\"", "", "servers.toml:7: device.d.op.us has no `meaning`"),
        ("value = 10", "value = -1", "servers.toml:7: `-1` is no value for device.d.op.us: write a number from 0 to"),
        ("[work.op]", "[wrk.op]", "servers.toml:2: unknown part `wrk`; did you mean `work`?"),
        ("\"exponential\"", "\"exponental\"", "servers.toml:5: `exponental` is no value for device.d.work: write"),
        (
            "rate_per_s = 80_000",
            "rate_pers = 8",
            "plan.toml:7: unknown parameter `requests.rate_pers`; did you mean `requests.rate_per_s`?",
        ),
        ("count = 20_000", "count = 2.5", "plan.toml:8: `2.5` is no value for requests.count: write a whole number"),
        ("system = \"pool\"", "system = \"pol\"", "plan.toml:2: unknown system `pol`; did you mean `pool`?"),
        (
            "\"pool\"",
            "\"queue\"",
            "plan.toml:2: there is no system `queue` any more: a device of the system `pool` is one",
        ),
        ("\"pool\"", "\"nic\"", "plan.toml:2: there is no system `nic` any more: measured by sidecore net link"),
        (
            "\"pool\"",
            "\"streams\"",
            "plan.toml:2: there is no system `streams` any more: measured by sidecore bench sockets",
        ),
        ("mean_us", "mean_ms", "plan.toml:11: unknown metric `mean_ms`; did you mean `mean_us`?"),
        ("step = 20_000", "step = 1", "plan.toml:13: the range has more than 1024 values: widen its step"),
        ("step = 20_000", "step = 0", "plan.toml:13: a range has either a `step` above 0 or a `factor` above 1"),
        ("from = 20_000", "from = -20_000", "plan.toml:13: `-20000` is no value for requests.rate_per_s"),
        ("[1, 2]", "[]", "plan.toml:12: an axis has 1 to 1024 values, this one 0"),
        ("{ engines = [1", "{ count = [1", "plan.toml:12: `count` is short for device.d.count and requests.count"),
        ("cell = \"mean_us\"\n", "", "plan.toml:10: the table does not say what is in a cell"),
        ("work = \"constant\"", "work = 3", "plan.toml:17: `3` is no value for device.d.work"),
        ("title = \"A queue\"", "title = [", "plan.toml:"),
        ("{} us each", "us each", "plan.toml:24: heading \"us each\" sets a number but has no {}"),
        ("servers.toml", "server.toml", "server.toml: cannot be read"),
        ("us = { value", "uss = { value", "servers.toml:7: unknown parameter `device.d.op.uss`; did you mean"),
    ];
    for (from, to, message) in cases {
        let said = wrong(from, to);
        assert!(said.starts_with(message), "{to}: {said}");
    }
    let bare = "system = \"farm\"\ntitle = \"A farm\"\n[table]\ncell = \"ops_per_s\"\nrows = { pull = [1] }\ncolumns = { tries = [1] }\n";
    let missing = error(bare, "");
    assert!(missing.starts_with("plan.toml: hand.balance has no value"), "{missing}");
}

#[test]
fn a_range_that_explodes_is_refused_before_the_run() {
    let many = "{ from = 1000, to = 99_000, step = 1000 }";
    let rows = "{ from = 1, to = 90, step = 1 }";
    let said = error(
        &GOOD
            .replace("{ count = [1, 2] }", &format!("{{ engines = {rows} }}"))
            .replace("{ from = 20_000, to = 80_000, step = 20_000 }", many),
        SERVERS,
    );
    assert!(said.starts_with("plan.toml:10: the table has 8910 cells, at most 4096 are run"), "{said}");
}

#[test]
fn the_command_line_sets_parameters_and_is_told_what_is_wrong() {
    let mut plan = good();
    plan.set_all(&["requests.rate_per_s=50000", "device.ds = 3"]).unwrap();
    assert_eq!(
        ["requests.rate_per_s", "device.d.count"].map(|name| plan.settings.text(name)),
        [Some("50000"), Some("3")]
    );
    for (setting, message) in [
        ("engines", "--set engines: write NAME=VALUE"),
        ("engines=0", "--set engines=0: `0` is no value for device.d.engines: write a whole number from 1 to 4096"),
        ("engins=5", "--set engins=5: unknown parameter `engins`; did you mean"),
        ("us=nan", "--set us=nan: `nan` is no value"),
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
        (8, &["1".to_owned(), "2".to_owned()][..], "40000")
    );
    let traces = |table: &table::Table| table.runs.iter().map(|run| run.outcome.trace).collect::<Vec<_>>();
    assert_eq!(traces(&first), traces(&again));
    assert_ne!(traces(&first), traces(&other));
    assert!(first.value(0, 3) > first.value(1, 3));
}

fn with_cases(rows: &str, more: &str) -> (tempfile::TempDir, Result<Plan, String>) {
    let plan = GOOD.replace("{ count = [1, 2] }", &format!("{{ case = [{rows}] }}"));
    let case = |name, count, load| {
        format!("[[case]]\nname = \"{name}\"\nset = {{ engines = {count}, \"requests.rate_per_s\" = {load} }}\n")
    };
    let plan = plan.replace(
        "columns = { \"requests.rate_per_s\" = { from = 20_000, to = 80_000, step = 20_000 } }",
        "columns = { metric = [\"mean_us\", \"p99_us\"] }",
    );
    let plan = plan.replace("cell = \"mean_us\"\n", "");
    let (folder, path) = written(&(plan + &case("calm", 2, 20_000) + &case("busy", 1, 80_000) + more), SERVERS);
    (folder, Plan::read(&path).map_err(|error| error.to_string()))
}

#[test]
fn an_axis_over_cases_sets_several_parameters_at_once() {
    let (_folder, plan) = with_cases("\"busy\", \"calm\"", "");
    let plan = plan.unwrap();
    let table = table::run(&plan, &plan.settings, &plan.shape, &Effort::once(1), &mut go).unwrap();
    let waits = [0, 1].map(|row| table.value(row, 0).unwrap());
    assert!((waits[0] - 50.0).abs() < 8.0 && waits[1] < 11.0, "{waits:?}");
    assert_eq!(table.runs[1].case, [("case".to_owned(), "calm".to_owned())]);
    let (_folder, found) = published("case,mean_us\nbusy,50\n");
    let comparison = compare(&plan, &found.unwrap(), &[], &Effort::once(1), &mut go).unwrap();
    assert_eq!((comparison.cells.len(), comparison.cells[0].row.as_str()), (1, "busy"));
    let (_folder, found) = published("case,mean_us\nbsy,50\n");
    let said = compare(&plan, &found.unwrap(), &[], &Effort::once(1), &mut go).unwrap_err().to_string();
    assert!(said.contains("unknown case `bsy`; did you mean `busy`?"), "{said}");
}

#[test]
fn wrong_cases_are_said() {
    let twice = "[[case]]\nname = \"calm\"\nset = { engines = 2 }\n";
    for (rows, more, message) in [
        ("\"calmer\"", "", "plan.toml:11: unknown case `calmer`; did you mean `calm`?"),
        ("\"calm\"", twice, "there are two cases \"calm\": rename one"),
        ("\"calm\"", "[[case]]\nname = \"x\"\nset = { engines = 0 }\n", "`0` is no value for device.d.engines"),
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
        "# Two servers, of 20.5 us and 10 us each, of old\nmetric,100000,160000\nmean_us,13.33,\ndevice_use,0.5,0.8\n",
    );
    let comparison = compare(&good(), &found.unwrap(), &[], &Effort::once(1), &mut go).unwrap();
    assert_eq!(comparison.understood, ["device.d.engines=2", "device.d.op.us=10"]);
    let cells: Vec<(&str, &str)> = comparison.cells.iter().map(|c| (c.row.as_str(), c.column.as_str())).collect();
    assert_eq!(cells, [("mean_us", "100000"), ("device_use", "100000"), ("device_use", "160000")]);
    assert!(comparison.worst().unwrap().error.abs() < 0.1 && comparison.median_error() < 0.05);
    let (_folder, found) = published("metric,50000\nMean,20\ncolour,3\n");
    let comparison = compare(&good(), &found.unwrap(), &[], &Effort::once(1), &mut go).unwrap();
    assert_eq!((comparison.cells.len(), &comparison.left_out[..]), (1, &["colour".to_owned()][..]));
    let (_folder, found) = published("engines,50000\n1,20\n3,10.2\n");
    let comparison = compare(&good(), &found.unwrap(), &[], &Effort::once(1), &mut go).unwrap();
    assert_eq!(comparison.cells.len(), 2);
    assert!((comparison.cells[0].predicted - 20.0).abs() < 1.0, "{comparison:?}");
}

#[test]
fn a_published_table_that_does_not_fit_is_refused() {
    for (text, message) in [
        ("metric,0.5\nmean_us,three\n", "published.csv:2: `three` is no number"),
        ("# nothing\n", "published.csv: has no cells"),
        ("metric,0.5\nmean_us,1,2\n", "published.csv: cannot be read"),
    ] {
        let said = published(text).1.unwrap_err();
        assert!(said.contains(message), "{said}");
    }
    for (text, message) in [
        ("depth,50000\n1,2\n", "unknown parameter `depth`"),
        ("metric,50000\nmeen,1\n", "no row is a metric of the plan: unknown metric `meen`; did you mean `mean_us`?"),
        ("engines,high\n1,2\n", "`high` is no value for requests.rate_per_s"),
        ("engines,50000\n0,2\n", "`0` is no value for device.d.engines"),
        (
            "# 99999999999 us each\nengines,50000\n1,2\n",
            "its heading says: --set device.d.op.us=99999999999: `99999999999` is no value",
        ),
    ] {
        let (_folder, found) = published(text);
        let said = compare(&good(), &found.unwrap(), &[], &Effort::once(1), &mut go).unwrap_err().to_string();
        assert!(said.contains(message), "{said}");
    }
}

#[test]
fn all_errors_come_together_in_the_order_of_lines() {
    let plan = GOOD.replace("{ count =", "{ engines =");
    let plan = plan.replace("count = 20_000", "count = 2.5").replace("\"mean_us\"", "\"mean_ms\"");
    let plan = plan.replace("work = \"constant\"", "work = 3").replace("step = 20_000", "step = 0");
    let said = error(&plan, &SERVERS.replace("[work.op]", "[work.op]\nbites = 1").replace("\"us\"", "\"ms\""));
    let places: Vec<&str> = said.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(
        places,
        ["plan.toml:8", "plan.toml:11", "plan.toml:13", "plan.toml:17", "servers.toml:3", "servers.toml:8"],
        "{said}"
    );
    // Twenty are told, and the number of the others.
    let many = (0..30).map(|number| format!("unknown{number} = 1\n")).collect::<Vec<_>>().concat();
    let said = error(&plan.replace("count = 2.5\n", &many), SERVERS);
    assert_eq!(said.lines().count(), 21, "{said}");
    assert!(said.lines().next().unwrap().starts_with("plan.toml:8: unknown parameter `requests.unknown0`"), "{said}");
    assert_eq!(said.lines().last(), Some("and 13 more errors"), "{said}");
}

#[test]
fn what_follows_from_another_error_is_not_told() {
    let plan = GOOD.replace("{ count =", "{ engines =");
    let misspelt = plan.replace("rate_per_s = 80_000", "rate_pers = 80_000");
    for (plan, servers, said) in [
        // No parameter has a meaning without a system, nor a parameter of a file that is missing.
        (misspelt.replace("\"pool\"", "\"moon\""), SERVERS, "plan.toml:2: unknown system"),
        (misspelt.replace("servers.toml", "server.toml"), SERVERS, "server.toml: cannot"),
        // The unknown name stands for the value that is missing, and a wrong value for none.
        (misspelt, SERVERS, "plan.toml:7: unknown parameter `requests.rate_pers`"),
        (
            plan.replace("rate_per_s = 80_000", "rate_per_s = -8"),
            SERVERS,
            "plan.toml:7: `-8` is no value for requests.rate_per_s",
        ),
        (plan.replace("title = \"A queue\"", ""), SERVERS, "plan.toml:1: has no `title`: add it"),
    ] {
        let error = error(&plan, servers);
        assert!(error.starts_with(said) && error.lines().count() == 1, "{error}");
    }
}

/// A plan of a user, with all kinds of lines.
const POOL: &str = include_str!("../../../plans/pool-card.toml");

/// The text is accepted as a plan within its limits, or refused in words that begin with its path.
fn accepted_or_refused(text: &str) {
    match Plan::parse(Path::new("no-folder/plan.toml"), text) {
        Ok(plan) => assert!(plan.shape.rows.labels.len() * plan.shape.columns.labels.len() <= MAX_CELLS),
        Err(error) => assert!(error.to_string().starts_with("no-folder/"), "{error}"),
    }
}

/// The same, for the text alone and in place of one line of a plan.
fn accepted_or_refused_at(place: usize, text: &str) {
    accepted_or_refused(text);
    let mut lines: Vec<&str> = POOL.lines().collect();
    let place = place % lines.len();
    lines[place] = text;
    accepted_or_refused(&lines.join("\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn any_text_is_a_plan_or_an_error(
        place: usize,
        bytes in vec(any::<u8>(), 0..200),
        setting in "[a-z_.]{1,12} ?= ?[-0-9a-z'\"{}=, \\[\\]]{0,24}\n?",
    ) {
        accepted_or_refused_at(place, &String::from_utf8_lossy(&bytes));
        accepted_or_refused_at(place, &setting);
    }

    #[test]
    fn any_bytes_are_a_published_table_or_an_error(
        bytes in vec(any::<u8>(), 0..200),
        table in "#?[a-z, \"\n]{0,12}\n([-0-9.ea-z]{0,4}[,\n\"#]){0,12}",
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        for bytes in [&bytes, table.as_bytes()] {
            fs::write(&path, bytes).unwrap();
            match Published::read(&path) {
                Ok(published) => assert!(published.rows.len() * published.columns.len() <= MAX_CELLS),
                Err(error) => assert!(error.to_string().contains("table.csv"), "{error}"),
            }
        }
    }
}
