//! Exported pages of made-up counter files.

use super::Exporter;
use prometheus_parse::Scrape;
use sidecore_core::dispatch::DeviceState;
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::{Notify, ThreadCore};
use sidecore_core::session::Class;
use sidecore_core::stage::Stage;
use sidecore_counters::{
    Counters, DeviceCounter, KeyCounter, LaneCounter, Limit, LimitUse, Shape, SidecoreCounter, Start,
};
use sidecore_ipc::sys::clock;
use sidecore_terminal::metrics::Exporter as _;
use sidecore_testing::scraped::{explained, names, number, parsed};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

struct Service {
    folder: TempDir,
    counters: Arc<Counters>,
}

impl Service {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let counters = Self::counters(&folder);
        let service = Self { folder, counters };
        service.fill();
        service
    }

    fn counters(folder: &TempDir) -> Arc<Counters> {
        let start = Start { pid: 4242, sample_every: 64, now: clock::now().saturating_sub(10_000_000_000) };
        let shape = Shape { sidecores: 2, lanes: 16, devices: 4, keys: 8 };
        Counters::create(&folder.path().join("counters"), shape, start).unwrap()
    }

    fn fill(&self) {
        let counters = &self.counters;
        counters.heartbeat(clock::now());
        counters.set_policies([Notify::Park; 4], Balance::Eft);
        counters.sidecore(0).open(ThreadCore::new(None, false));
        counters.sidecore(0).add(SidecoreCounter::CpuNs, 1_500_000_000);
        counters.sidecore(0).class(Class::NOOP, 7, 0);
        counters.device(0).open("w0", 0, "worker", Some(ThreadCore::new(Some(1), true)));
        counters.device(0).set_state(DeviceState::Active);
        counters.device(0).set(DeviceCounter::InFlight, 3);
        counters.device(0).record(1_000);
        self.lane(0, 900, "nginx", 10);
        counters.open_key(0, "www").unwrap();
        for sidecore in 0..2 {
            counters.key(sidecore, 0).add(KeyCounter::Sign, 4);
            counters.key(sidecore, 0).record(Stage::Host, 3_000);
        }
        counters.key(0, 0).set(KeyCounter::Limit, 100);
        counters.set_limit(&LimitUse { limit: Limit::Keys, used: 1, most: 256, uid: None });
        counters.set_limit(&LimitUse { limit: Limit::LanesPerUid, used: 1, most: 1024, uid: Some(0) });
    }

    fn lane(&self, index: usize, pid: u32, name: &str, requests: u64) {
        let lane = self.counters.lane(index);
        lane.open(pid, 0, 0, name).unwrap();
        lane.add(LaneCounter::Submitted, requests);
        lane.record(Stage::Queue, 300);
        lane.record(Stage::Queue, 512);
        lane.record(Stage::Queue, 5_000_000_000);
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("counters")
    }

    fn exporter(&self) -> Exporter {
        Exporter::new(self.path(), 2, 2)
    }
}

#[test]
fn everything_has_its_name_unit_and_labels() {
    let service = Service::new();
    let text = service.exporter().metrics();
    let scrape = parsed(&text);
    for (name, labels, value) in [
        ("sidecore_up", &[][..], 1.0),
        ("sidecore_cpu_seconds_total", &[("sidecore", "0")], 1.5),
        ("sidecore_device_in_flight", &[("device", "w0"), ("kind", "worker"), ("sidecore", "0")], 3.0),
        ("sidecore_device_active", &[("device", "w0")], 1.0),
        ("sidecore_class_requests_total", &[("class", "noop")], 7.0),
        ("sidecore_client_requests_total", &[("client", "nginx"), ("pid", "900"), ("user", "root")], 10.0),
        ("sidecore_client_lanes", &[("client", "nginx")], 1.0),
        ("sidecore_key_signatures_total", &[("key", "www")], 8.0),
        ("sidecore_key_limit_per_second", &[("key", "www")], 100.0),
        ("sidecore_limit", &[("limit", "limits.keys"), ("user", "")], 256.0),
        ("sidecore_limit_used", &[("limit", "limits.lanes_per_uid"), ("user", "root")], 1.0),
        ("sidecore_policies_info", &[("service", "park"), ("balance", "eft")], 1.0),
    ] {
        assert_eq!(number(&scrape, name, labels), Some(value), "{name} {labels:?} in\n{text}");
    }
    assert!(text.contains("# TYPE sidecore_cpu_seconds counter\n# UNIT sidecore_cpu_seconds seconds\n"), "{text}");
    assert_eq!(text.matches("\nsidecore_limit{").count(), 2, "unpublished limits are not shown: {text}");
    assert!(number(&scrape, "sidecore_uptime_seconds", &[]).unwrap() >= 10.0);
}

#[test]
fn a_device_that_was_removed_is_missed_by_nobody_and_one_that_died_until_another_stands_in_for_it() {
    let service = Service::new();
    let active =
        |device: &str| number(&parsed(&service.exporter().metrics()), "sidecore_device_active", &[("device", device)]);
    let [dead, removed] = [1, 2].map(|index| service.counters.device(index));
    dead.open("card", 0, "emulated", None);
    removed.open("old", 0, "emulated", None);
    dead.set_state(DeviceState::Gone);
    removed.set_removed();
    assert_eq!((active("card"), active("old")), (Some(0.0), None));
    service.counters.device(3).open("card", 0, "emulated", None);
    assert_eq!(active("card"), Some(1.0));
    let text = service.exporter().metrics();
    assert_eq!(text.matches("sidecore_device_active{device=\"card\"").count(), 1, "{text}");
}

#[test]
fn what_is_in_force_is_told_beside_what_was_asked_for() {
    let service = Service::new();
    service.counters.set_policies([Notify::Spin; 4], Balance::Eft);
    let text = service.exporter().metrics();
    let scrape = parsed(&text);
    for (name, labels, value) in [
        ("sidecore_policies_info", &[("service", "spin"), ("client_hop", "spin")][..], 1.0),
        ("sidecore_policy_parks", &[("hop", "service"), ("policy", "spin"), ("why", "parks: tied to no core")], 1.0),
        ("sidecore_policy_parks", &[("hop", "to_device"), ("policy", "spin"), ("why", "")], 0.0),
        ("sidecore_policy_parks", &[("hop", "client_hop"), ("why", "parks: no core is left for clients")], 1.0),
        ("sidecore_may_spin", &[("sidecore", "0")], 0.0),
        ("sidecore_device_may_spin", &[("device", "w0"), ("sidecore", "0")], 1.0),
        ("sidecore_clients_may_spin", &[], 0.0),
    ] {
        assert_eq!(number(&scrape, name, labels), Some(value), "{name} {labels:?} in\n{text}");
    }
    service.counters.set_clients_may_spin(true);
    service.counters.sidecore(0).open(ThreadCore::new(Some(3), true));
    let scrape = parsed(&service.exporter().metrics());
    assert_eq!(number(&scrape, "sidecore_may_spin", &[]), Some(1.0));
    for hop in ["service", "to_device", "from_device", "client_hop"] {
        assert_eq!(number(&scrape, "sidecore_policy_parks", &[("hop", hop), ("why", "")]), Some(0.0), "{hop}");
    }
}

#[test]
fn histograms_are_cumulative_with_exact_sums() {
    let service = Service::new();
    let text = service.exporter().metrics();
    let (client, queue) = ("client=\"nginx\",pid=\"900\",user=\"root\"", "stage=\"queue\"");
    let line = |suffix: &str, le: &str| {
        let begin = format!("sidecore_client_stage_seconds_{suffix}{{");
        let found = text.lines().find(|line| line.starts_with(&begin) && line.contains(queue) && line.contains(le));
        let found = found.unwrap_or_else(|| panic!("{suffix} {le} in\n{text}"));
        assert!(found.contains(client), "{found}");
        found.rsplit_once(' ').unwrap().1.to_owned()
    };
    let counts = ["le=\"2.56e-7\"", "le=\"5.12e-7\"", "le=\"0.000001024\"", "le=\"4.294967296\"", "le=\"+Inf\""];
    assert_eq!(counts.map(|le| line("bucket", le)), ["0", "1", "2", "2", "3"]);
    assert_eq!((&*line("count", ""), &*line("sum", "")), ("3", "5.000000812"));
    let host = "sidecore_key_stage_seconds_count{key=\"www\",stage=\"host\"} 2";
    assert!(text.contains(host) && !text.contains("key=\"www\",stage=\"total\""), "{text}");
}

#[test]
fn hostile_names_stay_inside_their_labels() {
    let service = Service::new();
    service.lane(1, 901, "a\"} 1\nsidecore_up 0\\", 5);
    let text = service.exporter().metrics();
    let ups: Vec<&str> = text.lines().filter(|line| line.starts_with("sidecore_up ")).collect();
    assert_eq!(ups, ["sidecore_up 1"]);
    assert!(text.contains("client=\"a\\\"} 1\u{fffd}sidecore_up 0\\\\\""), "{text}");
    let fine = |line: &str| line.starts_with("# ") || line.rsplit_once(' ').unwrap().1.parse::<f64>().is_ok();
    assert!(text.lines().all(|line| line == "# EOF" || fine(line)), "{text}");
}

#[test]
fn clients_that_close_disappear_and_many_share_one_account() {
    let service = Service::new();
    let mut exporter = service.exporter();
    (1..6).for_each(|index| service.lane(index, 900 + index as u32, "curl", 1));
    let requests = |scrape: &Scrape, labels: &[(&str, &str)]| number(scrape, "sidecore_client_requests_total", labels);
    let scrape = parsed(&exporter.metrics());
    assert_eq!(requests(&scrape, &[("client", "(other)")]), Some(4.0));
    let clients = scrape.samples.iter().filter(|sample| sample.metric == "sidecore_client_requests_total").count();
    assert_eq!(clients, 3);
    service.counters.lane(0).close();
    let scrape = parsed(&exporter.metrics());
    assert_eq!(requests(&scrape, &[("client", "nginx")]), None);
    assert_eq!(requests(&scrape, &[("client", "(other)")]), Some(4.0), "what was counted stays");
}

#[test]
fn a_service_that_goes_and_comes_is_down_and_up_again() {
    let service = Service::new();
    let mut exporter = service.exporter();
    let up = |exporter: &mut Exporter| number(&parsed(&exporter.metrics()), "sidecore_up", &[]);
    assert_eq!(up(&mut exporter), Some(1.0));
    assert!(exporter.state().contains("process 4242"));
    service.counters.heartbeat(1);
    assert_eq!(up(&mut exporter), Some(0.0));
    assert!(!exporter.metrics().contains("nginx"), "old numbers are not given out as new ones");
    std::fs::remove_file(service.path()).unwrap();
    assert_eq!(up(&mut exporter), Some(0.0));
    assert!(exporter.state().contains("sidecore serve"));
    let next = Service { counters: Service::counters(&service.folder), folder: tempfile::tempdir().unwrap() };
    next.fill();
    assert_eq!(up(&mut exporter), Some(1.0));
    std::fs::write(service.path(), "something else").unwrap();
    assert_eq!(up(&mut exporter), Some(0.0));
}

#[test]
fn each_metric_of_the_dashboard_and_of_the_alerts_is_exported() {
    let dashboard: serde_json::Value =
        serde_json::from_str(include_str!("../../../../packaging/grafana/sidecore.json")).unwrap();
    let targets = dashboard["panels"].as_array().unwrap().iter().filter_map(|panel| panel["targets"].as_array());
    let mut expressions: Vec<&str> = targets.flatten().map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(expressions.len() > 30);
    let alerts = include_str!("../../../../packaging/prometheus/sidecore.rules.yml");
    expressions.extend(alerts.lines().filter(|line| !line.contains("summary:") && !line.starts_with('#')));
    let service = Service::new();
    let text = service.exporter().metrics();
    let exported: std::collections::HashSet<&str> =
        text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| names(line).next()).collect();
    // Exporters of other services have these; their own tests cover them.
    let own = |name: &&str| !["sidecore_farm_", "sidecore_sockets_"].iter().any(|others| name.starts_with(others));
    let used: Vec<&str> = expressions.iter().flat_map(|expression| names(expression)).filter(own).collect();
    assert!(used.len() > 50);
    for name in used {
        assert!(exported.contains(name), "{name} is not exported");
    }
}

#[test]
fn each_metric_is_explained_with_its_type_in_its_own_words() {
    explained(include_str!("../../../../docs/watching.md"), &Service::new().exporter().metrics());
}
