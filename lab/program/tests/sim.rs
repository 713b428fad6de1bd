//! `sidecore sim` as users run it.

use sidecore_testing::skipped;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sidecore-lab")).arg("sim").args(arguments).current_dir(root()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn between<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    text.split_once(from).unwrap().1.split_once(to).unwrap().0
}

/// Queues whose mean times are known, as a plan in this folder.
fn queue(folder: &Path) -> String {
    let plan = "system = \"pool\"\ntitle = \"A queue\"\n[requests]\nrate_per_s = 50_000\ncount = 20_000\n[work.op]\n\
                [device.server]\nwork = \"exponential\"\nop = { us = 10 }\n[table]\ncell = \"mean_us\"\n\
                rows = { engines = [1, 2, 4, 8] }\ncolumns = { \"requests.rate_per_s\" = [20_000, 50_000, 80_000] }\n";
    let path = folder.join("queue.toml");
    fs::write(&path, plan).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_plan_is_run_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let plan = queue(folder.path());
    let (json, page) = (folder.path().join("rows.json"), folder.path().join("page.md"));
    let files = ["--json", json.to_str().unwrap(), "--markdown", page.to_str().unwrap()];
    let done = sim(&[&[plan.as_str(), "--set", "requests.count=20000", "--seed", "3"], &files[..]].concat());
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(text(&done.stdout).contains("engines \\ rate_per_s"), "{}", text(&done.stdout));
    let rows = fs::read_to_string(json).unwrap();
    assert_eq!(rows.lines().count(), 12);
    let row: serde_json::Value = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
    assert_eq!((row["scenario"].as_str(), row["seed"].as_u64()), (Some("queue"), Some(3)));
    assert_eq!(row["settings"]["device.server.engines"].as_str(), Some("1"));
    assert!(row["metrics"]["mean_us"].as_f64().unwrap() > 0.0);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("](queue.svg)") && folder.path().join("queue.svg").exists(), "{page}");
}

#[test]
fn a_published_table_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let (table, json) = (folder.path().join("published.csv"), folder.path().join("cells.json"));
    fs::write(&table, "# closed form\nengines,50000\n1,20\n2,10.667\n").unwrap();
    let plan = queue(folder.path());
    let file = ["--compare", table.to_str().unwrap(), "--json", json.to_str().unwrap()];
    let done = sim(&[&[plan.as_str(), "--set", "requests.count=200000"], &file[..]].concat());
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(text(&done.stdout).contains("2 cells: median error"), "{}", text(&done.stdout));
    let cells = fs::read_to_string(json).unwrap();
    let cell: serde_json::Value = serde_json::from_str(cells.lines().next().unwrap()).unwrap();
    assert_eq!((cell["row"].as_str(), cell["column"].as_str()), (Some("1"), Some("50000")));
    let [published, predicted, error] = ["published", "predicted", "error"].map(|key| cell[key].as_f64().unwrap());
    assert!((error - (predicted - published) / published).abs() < 1e-12 && error.abs() < 0.02, "{cell}");
}

#[test]
fn figures_say_how_sure_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let (table, json) = (folder.path().join("published.csv"), folder.path().join("cells.json"));
    fs::write(&table, "# closed form\nengines,50000,80000\n1,20,50\n2,10.667,11.905\n").unwrap();
    let file = ["--compare", table.to_str().unwrap(), "--json", json.to_str().unwrap()];
    let plan = queue(folder.path());
    let done = sim(&[&[plan.as_str()], &file[..]].concat());
    let said = text(&done.stdout);
    assert!(said.contains("95 % interval around the mean of") && said.contains("The simplest rule"), "{said}");
    for line in fs::read_to_string(&json).unwrap().lines() {
        let cell: serde_json::Value = serde_json::from_str(line).unwrap();
        let [published, predicted, within] =
            ["published", "predicted", "within"].map(|key| cell[key].as_f64().unwrap());
        assert!(within > 0.0 && within < 0.2 * predicted && cell["rule"].as_f64().is_some(), "{cell}");
        // An exact value almost never misses twice the interval.
        assert!((published - predicted).abs() < 2.0 * within + 0.01 * published, "{cell}");
    }
    let once = sim(&[&[plan.as_str(), "--seeds", "1"], &file[..]].concat());
    assert!(once.status.success() && !text(&once.stdout).contains("interval"), "{}", text(&once.stdout));
}

#[test]
fn a_parameter_is_found_from_a_table_and_written_for_a_plan() {
    let folder = tempfile::tempdir().unwrap();
    let (table, found) = (folder.path().join("published.csv"), folder.path().join("found.toml"));
    fs::write(&table, "engines,10000,25000,40000\n1,25,40,100\n").unwrap();
    let (table, written) = (table.to_str().unwrap(), found.to_str().unwrap());
    let plan = queue(folder.path());
    let named = ["--vary", "device.server.op.us", "--set", "requests.count=30000", "--write", written];
    let done = sim(&[&["fit", plan.as_str(), "--to", table], &named[..]].concat());
    let said = text(&done.stdout);
    assert!(done.status.success() && said.contains("device.server.op.us"), "{said}{}", text(&done.stderr));
    let parameters = fs::read_to_string(&found).unwrap();
    let time: f64 = between(&parameters, "us = { value = ", ",").parse().unwrap();
    assert!((time / 20.0 - 1.0).abs() < 0.1, "{time}");
    let matter = sim(&[plan.as_str(), "--set", "requests.count=5000", "--sensitivity", "--compare", table]);
    let said = text(&matter.stdout);
    assert!(
        said.contains("fixed by the table") && said.contains("requests.rate_per_s"),
        "{said}{}",
        text(&matter.stderr)
    );
    // A bus of 67 bit does not exist: such a parameter stays, and the others are still reported.
    let card = ["plans/ocf-hifn7751x4.toml", "--sensitivity", "--compare", "docs/published/ocf_hifn7751x4.csv"];
    let said = text(&sim(&[&card[..], &["--seeds", "1"]].concat()).stdout);
    let moved = said.lines().find(|line| line.starts_with("card.per_byte_ns")).unwrap();
    assert!(moved.contains("x/ 1.") && said.contains("bus.width_bits"), "{said}");
}

#[test]
fn found_values_are_read_back_by_the_plans() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let queue = fs::read_to_string(queue(folder.path())).unwrap();
    let own = |us: u32| {
        let time = "unit = \"us\", origin = \"fitted\", meaning = \"one request\" }";
        queue.replace("op = { us = 10 }", &format!("op.us = {{ value = {us}, {time}"))
    };
    fs::write(path("table.csv"), "engines,10000,25000,40000\n1,25,40,100\n").unwrap();
    for (name, us) in [("a", 10), ("b", 10), ("c", 12)] {
        fs::write(path(&format!("{name}.toml")), own(us)).unwrap();
    }
    // Two plans with one value have one file, and two with a value each have a file each.
    for (plans, written) in [(["a", "b"], ["found", "found"]), (["a", "c"], ["found-a", "found-c"])] {
        let files = plans.map(|plan| path(&format!("{plan}.toml")));
        let (table, found) = (path("table.csv"), path("found.toml"));
        let to = ["--to", &table, &table, "--seeds", "1", "--starts", "2", "--leave-out", "--write", &found];
        let done = sim(&[&["fit", &files[0], &files[1]], &to[..]].concat());
        let said = text(&done.stdout);
        assert!(done.status.success() && said.contains("Error of prediction by left-out columns"), "{said}");
        for name in written {
            let plan = queue.replace("[requests]", &format!("include = [\"{name}.toml\"]\n[requests]"));
            fs::write(path("again.toml"), plan.replace("op = { us = 10 }\n", "")).unwrap();
            let listed = sim(&["explain", &path("again.toml")]);
            let shown = text(&listed.stdout);
            let line = shown.lines().find(|line| line.starts_with("device.server.op.us "));
            assert!(line.is_some_and(|line| line.contains("fitted")), "{shown}{}", text(&listed.stderr));
            let file = fs::read_to_string(path(&format!("{name}.toml"))).unwrap();
            assert_eq!(file.matches("{ value = ").count(), 1, "{file}");
        }
    }
}

#[test]
fn what_to_choose_is_answered_with_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let (json, page) = (folder.path().join("ways.json"), folder.path().join("page.md"));
    let files = ["--json", json.to_str().unwrap(), "--markdown", page.to_str().unwrap()];
    let ask = |bound: &str| {
        let asked =
            ["--load", "3000", "--p99", bound, "--over", "card.count=1,2", "--set", "threads=4", "--seeds", "6"];
        sim(&[&["choose", "plans/ocf-hifn7751x4.toml"], &asked[..], &files[..]].concat())
    };
    let done = ask("3000");
    let said = text(&done.stdout);
    assert!(done.status.success() && said.contains("margin in time") && said.contains("limited by"), "{said}");
    assert!(said.contains("if the plan is wrong") && said.contains("to be safe from that"), "{said}");
    assert!(said.contains("3000 requests/s with p99_us of at most 3000 us"), "{said}");
    assert!(
        said.contains("how sure") && said.contains("95 % interval from") && said.contains("next cheaper"),
        "{said}"
    );
    let ways = fs::read_to_string(&json).unwrap();
    assert_eq!(ways.lines().filter(|line| line.contains("\"place\":\"choice\"")).count(), 1, "{ways}");
    assert!(fs::read_to_string(&page).unwrap().contains("](ocf-hifn7751x4-choose.svg)"));
    assert!(folder.path().join("ocf-hifn7751x4-choose.svg").exists());
    let none = ask("10");
    assert_eq!(none.status.code(), Some(1), "{}", text(&none.stdout));
    assert!(text(&none.stdout).contains("nothing that may be chosen keeps the bound"), "{}", text(&none.stdout));
}

#[test]
fn parameters_are_listed_and_nothing_is_run() {
    let done = sim(&["explain", "plans/pool-card.toml", "--set", "interrupt_us=0.7"]);
    let shown = text(&done.stdout);
    let line = shown.lines().find(|line| line.starts_with("host.interrupt_us")).unwrap();
    assert!(line.contains("0.7") && line.contains("command line") && shown.contains("p99_us"), "{shown}");
    let done = sim(&["explain", "pool", "ring"]);
    let shown = text(&done.stdout);
    let line = shown.lines().find(|line| line.starts_with("device.KIND.ring")).unwrap();
    assert!(line.contains("64") && line.contains("requests that one device holds"), "{shown}");
    assert!(!shown.contains("device.KIND.engines") && !shown.contains("rate_per_s"), "{shown}");
}

#[test]
fn a_plan_of_own_hardware_is_written_run_and_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let file = path.to_str().unwrap();
    let card = "engines=8,ring=64,latency_us=60,rate_per_s=100000";
    let batch = "batch_max=512,launch_us=500,linger_us=100,us=2.5";
    let hardware = ["--op", "rsa-2048", "--us", "197", "--cores", "8", "--card", card, "--batch", batch];
    let new = [&["new", file], &hardware[..]].concat();
    let done = sim(&new);
    let said = text(&done.stdout);
    assert!(done.status.success(), "{said}{}", text(&done.stderr));
    let written = fs::read_to_string(&path).unwrap();
    for line in said.lines().filter_map(|line| line.strip_prefix("  sidecore sim ")) {
        let fewer = ["--seeds", "1", "--set", "requests.count=20000"];
        let done = sim(&line.split_whitespace().chain(fewer).collect::<Vec<_>>());
        assert!(done.status.success(), "{line}: {}{}", text(&done.stdout), text(&done.stderr));
    }
    assert_eq!(said.lines().filter(|line| line.starts_with("  sidecore sim ")).count(), 2, "{said}");
    let again = sim(&new);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("exists and is not changed"), "{}", text(&again.stderr));
    assert_eq!(fs::read_to_string(&path).unwrap(), written);
    let (other, wrong) = (folder.path().join("other.toml"), "engine=8,rate_per_s=5");
    let done = sim(&["new", other.to_str().unwrap(), "--us", "5", "--card", wrong]);
    assert!(text(&done.stderr).contains("did you mean `device.card.engines`?"), "{}", text(&done.stderr));
    assert!(done.status.code() == Some(2) && !other.exists());
}

#[test]
fn a_choice_names_its_metric_and_its_load() {
    let folder = tempfile::tempdir().unwrap();
    let path = queue(folder.path());
    let plan = fs::read_to_string(&path).unwrap();
    let choose = "[choose]\nload = \"requests.rate_per_s\"\nlatency = \"mean_us\"\nrate = \"rate_per_s\"\n\
                  over = { engines = [1, 2, 4, 8] }\ncost = { \"device.server.engines\" = 1 }\n";
    fs::write(&path, plan + "\n" + choose).unwrap();
    let ask = |more: &[&str]| sim(&[&["choose", path.as_str(), "--load", "50000"], more].concat());
    let said = text(&ask(&["--bound", "12"]).stdout);
    assert!(said.contains("50000 requests/s with mean_us of at most 12.0 us"), "{said}");
    // M/M/c takes 20, 10.7 and 10.0 us at this rate.
    let line = |name: &str| said.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(line("answer").contains("engines 2") && line("next cheaper").contains("engines 1"), "{said}");
    assert!(line("why not that").contains("too slow"), "{said}");
    assert!(said.contains("2 combinations were not run: they cost more than the answer"), "{said}");
    let done = ask(&["--p99", "4"]);
    assert!(text(&done.stderr).contains("bounds mean_us: write --bound VALUE in us"), "{}", text(&done.stderr));
    let done = ask(&["--bound", "0.001", "--seconds", "0.000001", "--over", "engines=1..9"]);
    let said = text(&done.stdout);
    assert!(done.status.code() == Some(2) && said.contains("Stopped after 0.000001 s"), "{said}");
    let untried =
        "combinations were not tried, from a cost of 2.00 on: device.server.engines 2; device.server.engines 3;";
    assert!(said.contains(untried), "{said}");
}

#[test]
fn wrong_input_is_usage_and_says_what_to_do() {
    let cases: [(&[&str], &str); 24] = [
        (&[], "Usage: sidecore sim"),
        (&["no-plan.toml"], "no-plan.toml: cannot be read"),
        (&["plans/pool-card.toml", "--set", "interupt_us=1"], "did you mean `host.interrupt_us`?"),
        (&["plans/pool-card.toml", "--compare", "nothing.csv"], "nothing.csv: cannot be read"),
        (&["plans/zvm.toml", "--compare", "rows.json"], "are predicted by a plan of `bench calibrate`"),
        (&["plans/pool-card.toml", "plans/pool-card.toml", "--compare", "a.csv"], "--compare takes one plan"),
        (&["faults", "--sabotage", "nothing"], "run cargo xtask faults --seeds N in the source"),
        (&["gather", "--single-us", "391"], "sim gather is a plan now: run sidecore sim plans/pool-batch.toml"),
        (&["waiting"], "run cargo test -p sidecore-sim --test waiting in the source"),
        (&["plans/pool-card.toml", "--seeds", "0"], "write a whole number from 1 to 1000"),
        (&["plans/pool-card.toml", "--precision", "0"], "a percentage from 0.01 to 100"),
        (&["plans/pool-card.toml", "plans/zvm.toml", "--sensitivity"], "--sensitivity takes one plan"),
        (&["fit", "plans/zvm.toml", "plans/zvm.toml", "--to", "docs/published/lhcb.csv"], "2 plans and 1 tables"),
        (
            &["choose", "plans/pool-batch.toml", "--load", "1", "--p99", "1"],
            "plans/pool-batch.toml has no [choose] section",
        ),
        (&["choose", "plans/zvm.toml", "--load=-1", "--p99", "1"], "a number above 0"),
        (&["choose", "plans/zvm.toml", "--load", "1", "--p99", "1", "--bound", "1"], "cannot be used with"),
        (&["plans/pool-card.toml", "--parameters"], "sim --parameters is a command now: run sidecore sim explain PLAN"),
        (&["explain", "pol"], "pol is neither a file nor a system: systems are pool, machine"),
        (&["explain", "pool", "rings"], "pool has no `rings`"),
        (&["new", "no-folder/x.toml"], "there is no directory"),
        (
            &["choose", "plans/zvm.toml", "--load", "1", "--p99", "1", "--over", "host.mod=x"],
            "did you mean `host.mode`?",
        ),
        (&["choose", "plans/zvm.toml", "--load", "1", "--p99", "1", "--cost", "adapter.count"], "write NAME=PRICE"),
        (
            &["replay", "plans/pool-card.toml", "--devices", "2"],
            "plans/pool-card.toml: this is no record of this version",
        ),
        (&["replay", "plans/pool-card.toml"], "plans/pool-card.toml: this is no record of this version"),
    ];
    for (arguments, message) in cases {
        let done = sim(arguments);
        let said = text(&done.stderr);
        assert!(said.contains(message), "{arguments:?}: {said}");
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {said}");
    }
}

#[test]
fn this_machine_is_measured_and_predicted() {
    let folder = tempfile::tempdir().unwrap();
    let (plan, rows, json) = ("machine.toml", "rows.json", "cells.json");
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_sidecore-lab")).args(arguments).current_dir(&folder).output().unwrap()
    };
    let cores = std::thread::available_parallelism().unwrap().get();
    let measured = run(&["bench", "calibrate", "--plan", plan]);
    if cores < 2 {
        assert_eq!(measured.status.code(), Some(2));
        assert!(text(&measured.stderr).contains("calibrate needs two cores"), "{}", text(&measured.stderr));
        return skipped("there is one core");
    }
    assert!(measured.status.success(), "{}", text(&measured.stderr));
    let beside = run(&["bench", "calibrate", "scaling"]);
    assert_eq!(beside.status.code(), Some(2));
    let why = "run it alone, or with notify, between whose cases it measures";
    assert!(text(&beside.stderr).contains(why), "{}", text(&beside.stderr));
    let row = r#"{"scenario":"crypto","variant":"sidecore","op":"sha-256","notify":"spin","clients":1,"size":16384,"ops_per_s":1e5}"#;
    let other = r#"{"scenario":"crypto","variant":"sidecore","op":"sha-256","notify":"spin","clients":4,"size":64,"ops_per_s":1e5}"#;
    fs::write(folder.path().join(rows), format!("{row}\n{other}\n")).unwrap();
    let compared = run(&["sim", plan, "--compare", rows, "--json", json]);
    let said = text(&compared.stdout);
    assert!(compared.status.success() && said.contains("1 rows are left out"), "{said}{}", text(&compared.stderr));
    let cells = fs::read_to_string(folder.path().join(json)).unwrap();
    let cell: serde_json::Value = serde_json::from_str(cells.trim()).unwrap();
    // Independent of the machine's load, a sidecore does nothing faster than the operation itself, nor a hundred times
    // slower, because for 16 KiB the operation dominates.
    let written = fs::read_to_string(folder.path().join(plan)).unwrap();
    let op_ns: f64 = between(between(&written, "[sha-256]\n", "\n["), "at_16384_ns = { value = ", ",").parse().unwrap();
    let predicted = cell["predicted"].as_f64().unwrap();
    assert!((0.01e9..=1e9).contains(&(predicted * op_ns)), "{cell}, {op_ns} ns");
    // An open load is driven at the rate that the bench offered, independent of the plan's capacity.
    let open = r#"{"scenario":"notify","variant":"open","op":"sha-256","notify":"park","clients":1,"size":16384,"load":0.5,"ops_per_s":1e3,"sent_per_s":1e3,"total_p50_us":9.0}"#;
    fs::write(folder.path().join(rows), open).unwrap();
    let compared = run(&["sim", plan, "--compare", rows, "--json", json]);
    let cells = fs::read_to_string(folder.path().join(json)).unwrap();
    let cell: serde_json::Value = serde_json::from_str(cells.trim()).unwrap();
    let predicted = cell["predicted"].as_f64().unwrap();
    assert!((950.0..1050.0).contains(&predicted), "{cell} {}", text(&compared.stderr));
    fs::write(folder.path().join(rows), "no row\n").unwrap();
    let wrong = run(&["sim", plan, "--compare", rows]);
    assert!(text(&wrong.stderr).contains("rows.json:1: is no row of a bench"), "{}", text(&wrong.stderr));
}

#[test]
fn the_plan_of_the_page_about_the_simulator_runs() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulator.md")).unwrap();
    let block = between(&page, "```toml\n", "```");
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("parameters")).unwrap();
    fs::write(folder.path().join("parameters/card.toml"), "").unwrap();
    let plan = folder.path().join("plan.toml");
    fs::write(&plan, block).unwrap();
    let done = sim(&[plan.to_str().unwrap(), "--set", "requests.count=2000"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let said = text(&done.stdout);
    assert!(said.contains("rate_per_s \\ ring") && said.contains("priced"), "{said}");
}

#[test]
fn rows_of_one_worker_are_compared_with_a_pool() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.json");
    let row = |op: &str, rate: f64, p50: f64| {
        format!(
            r#"{{"scenario":"pool","variant":"open","op":"{op}","notify":"spin","clients":1,"size":32,"load":0.5,"ops_per_s":{rate},"sent_per_s":{rate},"total_us":{{"p50":{p50}}}}}"#
        )
    };
    // The worker needs 197 us for a signature, and is used for half of the time.
    let lines = [row("rsa-2048-sign", 2_538.0, 230.0), row("sha-256", 1e4, 1.0)];
    fs::write(&rows, lines.join("\n")).unwrap();
    let done = sim(&["plans/pool-worker.toml", "--compare", rows.to_str().unwrap()]);
    let said = text(&done.stdout);
    assert!(done.status.success(), "{said}{}", text(&done.stderr));
    for part in [
        "rates under random arrivals: 1 of 1 within 3 %",
        "medians: 1 of 1 within 15 %",
        "1 rows are left out: their operation",
    ] {
        assert!(said.contains(part), "{said}");
    }
}
