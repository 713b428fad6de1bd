//! Guests under z/VM, compared with published figures and with invariants.

use super::{plan_of, root};
use sidecore_sim::compare::{Cell, Published, compare};
use sidecore_sim::estimate::Effort;
use sidecore_sim::outcome::Outcome;
use sidecore_sim::plan::Plan;
use sidecore_sim::settings::{Origin, Source};
use std::ops::ControlFlow;

fn plan(settings: &[&str]) -> Plan {
    plan_of("zvm", settings)
}

fn run(settings: &[&str], seed: u64) -> Outcome {
    let plan = plan(settings);
    plan.system.run(&plan.settings, seed)
}

fn metric(outcome: &Outcome, name: &str) -> f64 {
    let plan = plan(&[]);
    outcome.values[plan.system.metrics.iter().position(|known| known.name == name).unwrap()]
}

/// Cells of the published tables, with the number of threads and the poll time.
fn calibrated(seed: u64) -> Vec<((u32, u32), Cell)> {
    let mut all = Vec::new();
    for (file, threads, poll) in
        [("zvm_table1.csv", 10, 1_500), ("zvm_table3.csv", 1, 1_500), ("zvm_table4.csv", 1, 50)]
    {
        let published = Published::read(&root().join("docs/published").join(file)).unwrap();
        let go = &mut |_, _| ControlFlow::Continue(());
        let comparison = compare(&plan(&[]), &published, &[], &Effort::once(seed), go).unwrap();
        let understood = [format!("guest.threads={threads}"), format!("guest.poll_us={poll}")];
        assert_eq!(comparison.understood, understood);
        let (median, rule) = (comparison.median_error(), comparison.rule_errors().unwrap().0);
        assert!(median <= 0.05 && rule > 2.0 * median, "{file}: {median}, the simplest rule {rule}");
        all.extend(comparison.cells.into_iter().map(|cell| ((threads, poll), cell)));
    }
    all
}

/// Cells with an error above 15 %, and their errors: waits of a few us for the host, and the cost of a program's cold
/// caches.
const BEYOND: [((u32, u32), &str, &str, f64); 4] = [
    ((10, 1_500), "NSERV", "polling", 0.48),
    ((10, 1_500), "NSERV", "interrupts", 0.21),
    ((1, 1_500), "NSERV", "baseline", 0.18),
    ((1, 1_500), "guest_busy_per_1000", "baseline", 0.18),
];

#[test]
fn published_cells_are_within_reach() {
    let cells = calibrated(1);
    assert_eq!(cells.len(), 81);
    for (table, cell) in cells {
        let known =
            BEYOND.iter().find(|(of, row, column, _)| *of == table && *row == cell.row && *column == cell.column);
        let most = known.map_or(0.15, |known| known.3);
        assert!(cell.error.abs() <= most, "{table:?}: {cell:?}");
    }
}

/// With ten threads and interrupts, requests follow each other without the timer, so a slower timer cannot improve the
/// rate.
#[test]
fn guests_that_poll_more_rarely_are_not_faster() {
    let rate = |poll: &str| metric(&run(&["host.mode=interrupts", "guest.threads=10", poll], 1), "ETR");
    let rates = ["guest.poll_us=50", "guest.poll_us=500", "guest.poll_us=1500", "guest.poll_us=6000"].map(rate);
    assert!(rates.windows(2).all(|pair| pair[1] < pair[0] * 1.03), "{rates:?}");
}

#[test]
fn a_seed_is_a_run_and_says_little() {
    let settings = ["host.mode=interrupts", "guest.threads=10"];
    assert_eq!(run(&settings, 1), run(&settings, 1));
    assert_ne!(run(&settings, 1).trace, run(&settings, 2).trace);
    let rates: Vec<f64> = (1..=4).map(|seed| metric(&run(&settings, seed), "ETR")).collect();
    let mean = rates.iter().sum::<f64>() / 4.0;
    assert!(rates.iter().all(|rate| (rate / mean - 1.0).abs() < 0.015), "{rates:?}");
}

#[test]
fn every_parameter_says_where_it_comes_from() {
    let plan = plan(&[]);
    let documented = |source: &Source| matches!(source, Source::Documented(_, meaning) if !meaning.is_empty());
    let bare: Vec<_> = plan
        .settings
        .iter()
        .filter(|(_, set)| !documented(&set.unwrap().1))
        .map(|(known, _)| known.name.as_str())
        .collect();
    let software = ["host.mode", "service.software", "service.balance", "notify.host", "notify.device", "notify.guest"];
    assert_eq!(bare, software);
    let fitted =
        plan.settings.iter().filter(|(_, set)| matches!(set.unwrap().1, Source::Documented(Origin::Fitted, _)));
    assert!(fitted.count() <= 15);
}

#[test]
fn headings_say_which_table_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    let text =
        "# Table 2: ten guests, one thread each, guest poll time 50 us\nmetric,interrupts\nETR,33000\n# ten threads\n";
    std::fs::write(&path, text).unwrap();
    let published = Published::read(&path).unwrap();
    let found = compare(&plan(&[]), &published, &[], &Effort::once(1), &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!(found.understood, ["guest.threads=1", "guest.poll_us=50"]);
    // One request in each of ten guests every 50 us, or immediately.
    assert!(found.cells[0].predicted > 100_000.0, "{:?}", found.cells);
}

#[test]
fn a_guest_gets_its_depth_each_tick() {
    let settings = ["guest.count=8", "guest.threads=10", "host.mode=baseline", "guest.queue_depth=5"];
    let etr = metric(&run(&settings, 1), "ETR");
    assert!((etr * 1_500e-6 / 40.0 - 1.0).abs() < 0.02, "{etr}");
}

#[test]
fn requests_that_come_by_themselves_are_done_or_wait() {
    let at = |rate: &str| run(&["service.software=sidecore", rate], 1);
    let (calm, over) = (at("guest.rate_per_s=30000"), at("guest.rate_per_s=900000"));
    assert!((metric(&calm, "ETR") / 30_000.0 - 1.0).abs() < 0.05 && metric(&calm, "p99_us") < 400.0, "{calm:?}");
    assert!(metric(&over, "ETR") < 400_000.0 && metric(&over, "p99_us") > 10_000.0, "{over:?}");
}

#[test]
fn a_guest_that_is_woken_does_not_wait_for_its_timer() {
    let (timer, woken) = ("notify.guest=timer(1.5ms)", "notify.guest=park");
    let found = |guest| run(&["service.software=sidecore", "guest.threads=1", guest], 1);
    let (timer, woken) = (found(timer), found(woken));
    assert!(metric(&timer, "DSERV") > 1_000.0 && metric(&woken, "DSERV") < 20.0);
    assert!(metric(&woken, "ETR") > metric(&timer, "ETR") * 10.0);
    // A wake-up by interrupt costs the host more than a tick of the guest's own timer.
    assert!(metric(&woken, "cp_busy_per_1000") > metric(&timer, "cp_busy_per_1000"));
}

#[test]
fn what_contradicts_itself_is_refused() {
    for (setting, names) in [
        ("host.poll_most_us=10", "host.poll_least_us"),
        ("adapter.engines=9", "adapter.engines"),
        ("guest.poll_us=30000", "guest.poll_us"),
        ("notify.guest=timer", "notify.guest"),
        ("notify.guest=predict", "write \"break-even\""),
    ] {
        let mut plan = plan(&[]);
        let error = plan.set_all(&[setting]).unwrap_err().to_string();
        assert!(error.contains(names), "{setting}: {error}");
    }
}

#[test]
fn what_contradicts_itself_is_said_with_its_place() {
    let (path, both) = (root().join("plans/zvm.toml"), "[adapter]\nengines = 9\ndepth = 8\n\n[table]");
    let text = std::fs::read_to_string(&path).unwrap().replace("[table]", both);
    let error = Plan::parse(&path, &text).unwrap_err().to_string();
    assert!(error.contains("zvm.toml:8: adapter.engines: an adapter has more engines than requests"), "{error}");
    let few = text.replace("engines = 9\n", "").replace("depth = 8", "depth = 1");
    let error = Plan::parse(&path, &few).unwrap_err().to_string();
    let engines = std::fs::read_to_string(root().join("plans/parameters/zvm.toml")).unwrap();
    let line = engines.lines().position(|line| line.starts_with("engines = ")).unwrap() + 1;
    assert!(error.contains(&format!("parameters/zvm.toml:{line}: adapter.engines: ")), "{error}");
}

#[test]
fn full_adapters_limit_all() {
    let outcome = run(&["service.software=sidecore", "adapter.engines=2", "guest.threads=10"], 1);
    assert!(outcome.limit.starts_with("adapters 9") || outcome.limit.starts_with("adapters 100"), "{}", outcome.limit);
}
