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

#[test]
fn a_plan_is_run_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let (json, page) = (folder.path().join("rows.json"), folder.path().join("page.md"));
    let files = ["--json", json.to_str().unwrap(), "--markdown", page.to_str().unwrap()];
    let done = sim(&[&["plans/queue.toml", "--set", "arrivals.count=20000", "--seed", "3"], &files[..]].concat());
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(text(&done.stdout).contains("count \\ load"), "{}", text(&done.stdout));
    let rows = fs::read_to_string(json).unwrap();
    assert_eq!(rows.lines().count(), 12);
    let row: serde_json::Value = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
    assert_eq!((row["scenario"].as_str(), row["seed"].as_u64()), (Some("queue"), Some(3)));
    assert_eq!(row["settings"]["server.count"].as_str(), Some("1"));
    assert!(row["metrics"]["wait_us"].as_f64().unwrap() > 0.0);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("](queue.svg)") && folder.path().join("queue.svg").exists(), "{page}");
}

#[test]
fn a_published_table_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let (table, json) = (folder.path().join("published.csv"), folder.path().join("cells.json"));
    fs::write(&table, "# closed form\nserver.count,0.5\n1,10\n2,3.333\n").unwrap();
    let arguments = ["plans/queue.toml", "--compare", table.to_str().unwrap(), "--json", json.to_str().unwrap()];
    let done = sim(&arguments);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(text(&done.stdout).contains("2 cells: median error"), "{}", text(&done.stdout));
    let cells = fs::read_to_string(json).unwrap();
    let cell: serde_json::Value = serde_json::from_str(cells.lines().next().unwrap()).unwrap();
    assert_eq!((cell["row"].as_str(), cell["column"].as_str()), (Some("1"), Some("0.5")));
    let [published, predicted, error] = ["published", "predicted", "error"].map(|key| cell[key].as_f64().unwrap());
    assert!((error - (predicted - published) / published).abs() < 1e-12 && error.abs() < 0.02, "{cell}");
}

#[test]
fn figures_say_how_sure_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let (table, json) = (folder.path().join("published.csv"), folder.path().join("cells.json"));
    fs::write(&table, "# closed form\nserver.count,0.5,0.8\n1,10,40\n2,3.333,17.78\n").unwrap();
    let file = ["--compare", table.to_str().unwrap(), "--json", json.to_str().unwrap()];
    let done = sim(&[&["plans/queue.toml", "--set", "arrivals.count=20000"], &file[..]].concat());
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
    let once = sim(&[&["plans/queue.toml", "--set", "arrivals.count=20000", "--seeds", "1"], &file[..]].concat());
    assert!(once.status.success() && !text(&once.stdout).contains("interval"), "{}", text(&once.stdout));
}

#[test]
fn a_parameter_is_found_from_a_table_and_written_for_a_plan() {
    let folder = tempfile::tempdir().unwrap();
    let (table, found) = (folder.path().join("published.csv"), folder.path().join("found.toml"));
    fs::write(&table, "server.count,0.2,0.5,0.8\n1,5,20,80\n").unwrap();
    let (table, written) = (table.to_str().unwrap(), found.to_str().unwrap());
    let named = ["--vary", "server.time_us", "--set", "arrivals.count=30000", "--write", written];
    let done = sim(&[&["fit", "plans/queue.toml", "--to", table], &named[..]].concat());
    let said = text(&done.stdout);
    assert!(done.status.success() && said.contains("server.time_us"), "{said}{}", text(&done.stderr));
    let parameters = fs::read_to_string(&found).unwrap();
    let time: f64 = between(&parameters, "time_us = { value = ", ",").parse().unwrap();
    assert!((time / 20.0 - 1.0).abs() < 0.1, "{time}");
    let matter = sim(&["plans/queue.toml", "--set", "arrivals.count=20000", "--sensitivity", "--compare", table]);
    let said = text(&matter.stdout);
    assert!(said.contains("fixed by the table") && said.contains("arrivals.load"), "{said}{}", text(&matter.stderr));
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/queue.toml");
    let queue = fs::read_to_string(root).unwrap().replace("1_000_000", "30000");
    let own = |us: u32| {
        let time = "unit = \"us\", origin = \"fitted\", meaning = \"one request\" }";
        queue.replace("time_us = 10", &format!("time_us = {{ value = {us}, {time}"))
    };
    fs::write(path("table.csv"), "server.count,0.2,0.5,0.8\n1,5,20,80\n").unwrap();
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
            let plan = queue.replace("[arrivals]", &format!("include = [\"{name}.toml\"]\n[arrivals]"));
            fs::write(path("again.toml"), plan.replace("time_us = 10\n", "")).unwrap();
            let listed = sim(&[&path("again.toml"), "--parameters"]);
            let shown = text(&listed.stdout);
            let line = shown.lines().find(|line| line.starts_with("server.time_us"));
            assert!(line.is_some_and(|line| line.contains("fitted")), "{shown}{}", text(&listed.stderr));
            assert_eq!(fs::read_to_string(path(&format!("{name}.toml"))).unwrap().matches("time_us").count(), 1);
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
    let done = sim(&["explain", "plans/queue.toml", "--set", "load=0.7"]);
    let shown = text(&done.stdout);
    let line = shown.lines().find(|line| line.starts_with("arrivals.load")).unwrap();
    assert!(line.contains("0.7") && line.contains("command line") && shown.contains("wait_us"), "{shown}");
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
    let path = folder.path().join("queue.toml");
    let plan = fs::read_to_string(root().join("plans/queue.toml")).unwrap();
    let choose = "[choose]\nload = \"arrivals.load\"\nlatency = \"wait_us\"\nrate = \"utilisation\"\n\
                  over = { \"server.count\" = [1, 2, 4, 8] }\ncost = { \"server.count\" = 1 }\n";
    fs::write(&path, plan + "\n" + choose).unwrap();
    let ask = |more: &[&str]| {
        let asked = ["choose", path.to_str().unwrap(), "--load", "0.5", "--set", "arrivals.count=30000"];
        sim(&[&asked[..], more].concat())
    };
    let said = text(&ask(&["--bound", "4"]).stdout);
    assert!(said.contains("arrivals.load 0.500 with wait_us of at most 4.00 us"), "{said}");
    // M/M/c at a load of 0.5 waits 10, 3.33, 0.87 us.
    let line = |name: &str| said.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(line("answer").contains("server 2") && line("next cheaper").contains("server 1"), "{said}");
    assert!(line("why not that").contains("too slow"), "{said}");
    assert!(said.contains("2 combinations were not run: they cost more than the answer"), "{said}");
    let done = ask(&["--p99", "4"]);
    assert!(text(&done.stderr).contains("bounds wait_us: write --bound VALUE in us"), "{}", text(&done.stderr));
    let done = ask(&["--bound", "0.001", "--seconds", "0.000001", "--over", "server.count=1..9"]);
    let said = text(&done.stdout);
    assert!(done.status.code() == Some(1) && said.contains("Stopped after 0.000001 s"), "{said}");
    assert!(said.contains("combinations were not tried, from a cost of 2.00 on: server 2; server 3;"), "{said}");
}

#[test]
fn wrong_input_is_usage_and_says_what_to_do() {
    let cases: [(&[&str], &str); 23] = [
        (&[], "Usage: sidecore sim"),
        (&["no-plan.toml"], "no-plan.toml: cannot be read"),
        (&["plans/queue.toml", "--set", "lod=1"], "did you mean `arrivals.load`?"),
        (&["plans/queue.toml", "--compare", "nothing.csv"], "nothing.csv: cannot be read"),
        (&["plans/queue.toml", "--compare", "rows.json"], "only a plan of `bench calibrate` predicts them"),
        (&["plans/queue.toml", "plans/queue.toml", "--compare", "a.csv"], "--compare takes one plan"),
        (&["faults", "--sabotage", "nothing"], "run cargo xtask faults --seeds N in the source"),
        (&["waiting"], "run cargo test -p sidecore-sim --test waiting in the source"),
        (&["plans/queue.toml", "--seeds", "0"], "write a whole number from 1 to 1000"),
        (&["plans/queue.toml", "--precision", "0"], "a percentage from 0.01 to 100"),
        (&["plans/queue.toml", "plans/zvm.toml", "--sensitivity"], "--sensitivity takes one plan"),
        (&["fit", "plans/zvm.toml", "plans/zvm.toml", "--to", "docs/published/lhcb.csv"], "2 plans and 1 tables"),
        (&["choose", "plans/queue.toml", "--load", "1", "--p99", "1"], "plans/queue.toml has no [choose] section"),
        (&["choose", "plans/zvm.toml", "--load=-1", "--p99", "1"], "a number above 0"),
        (&["choose", "plans/zvm.toml", "--load", "1", "--p99", "1", "--bound", "1"], "cannot be used with"),
        (&["plans/queue.toml", "--parameters"], "sim --parameters is a command now: run sidecore sim explain PLAN"),
        (&["explain", "pol"], "pol is neither a file nor a system: systems are pool, queue"),
        (&["explain", "queue", "rings"], "queue has no `rings`"),
        (&["new", "no-folder/x.toml"], "there is no directory"),
        (
            &["choose", "plans/zvm.toml", "--load", "1", "--p99", "1", "--over", "host.mod=x"],
            "did you mean `host.mode`?",
        ),
        (&["choose", "plans/zvm.toml", "--load", "1", "--p99", "1", "--cost", "adapter.count"], "write NAME=PRICE"),
        (&["replay", "plans/queue.toml", "--devices", "2"], "plans/queue.toml: this is no record of this version"),
        (&["replay", "plans/queue.toml"], "plans/queue.toml: this is no record of this version"),
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
            r#"{{"scenario":"pool","variant":"open","op":"{op}","notify":"spin","clients":1,"size":32,"load":0.5,"ops_per_s":{rate},"sent_per_s":{rate},"total_p50_us":{p50}}}"#
        )
    };
    // The worker needs 197 us for a signature, and is used for half of the time.
    let lines = [row("rsa-2048-sign", 2_538.0, 230.0), row("sha-256", 1e4, 1.0)];
    fs::write(&rows, lines.join("\n")).unwrap();
    let done = sim(&["plans/pool-worker.toml", "--compare", rows.to_str().unwrap()]);
    let said = text(&done.stdout);
    assert!(done.status.success(), "{said}{}", text(&done.stderr));
    for part in ["rates: 1 of 1 within 3 %", "medians: 1 of 1 within 15 %", "1 rows are left out: their operation"] {
        assert!(said.contains(part), "{said}");
    }
}
