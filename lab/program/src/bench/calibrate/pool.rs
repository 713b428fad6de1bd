//! The measured times as parameters of a pool of workers, for its plan to include.

use super::plan::{Machine, written};
use super::{FIXED, MIDDLE, SIZES};
use crate::bench::error::BenchError;
use sidecore_measure::export::ExportError;
use sidecore_sim::plan::Plan;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Messages between cores on the way of a request: from its client to the sidecore, to the worker, and back.
const HOPS: f64 = 4.0;

/// A plan that includes nothing but the parameters, without work of its own.
const PLAN: &str = "system = \"pool\"\ntitle = \"This machine\"\n\
                    [requests]\nrate_per_s = 1\n[work.rsa-2048-sign]\n\
                    [table]\ncell = \"p99_us\"\nrows = { \"host.cores\" = [1] }\ncolumns = { \"requests.clients\" = [0] }\n";

impl Machine {
    /// Half of the sidecore's part of a request is before the operation. A worker moves the payload.
    pub(super) fn to_pool(&self) -> String {
        let mut text = String::from(
            "# Measured by `sidecore bench calibrate`. A plan of the system pool names this file last in its `include`.\n\n[host]\n",
        );
        put(&mut text, "submit_us", &us(self.request / 2.0), "us", "half of the sidecore's part of a request");
        put(&mut text, "complete_us", &us(self.request / 2.0), "us", "the other half");
        put(&mut text, "wake_us", &us(self.after_short[MIDDLE]), "us", "from the wake-up call until the sleeper runs");
        text += "\n[device.core]\n";
        let way = HOPS * self.hop[MIDDLE] + self.client;
        put(&mut text, "latency_us", &us(way), "us", "four messages between cores, and the client's part of a request");
        for (op, curve) in &self.ops {
            let meaning = "the operation in one process, and the moving of its payload";
            if FIXED.contains(op) {
                put(&mut text, &format!("{op}.us"), &us(curve[0]), "us", "the operation in one process");
            } else {
                let times = curve.iter().zip(self.moving).map(|(own, moved)| own + moved);
                let points = SIZES.iter().zip(times).map(|(size, time)| format!("{size}:{}", us(time)));
                let points = points.collect::<Vec<_>>().join(", ");
                put(&mut text, &format!("{op}.us_by_bytes"), &format!("\"{points}\""), "1", meaning);
            }
        }
        text
    }
}

fn put(text: &mut String, name: &str, value: &str, unit: &str, meaning: &str) {
    let _ = writeln!(
        text,
        "{name} = {{ value = {value}, unit = \"{unit}\", origin = \"measured\", meaning = \"{meaning}\" }}"
    );
}

fn us(ns: f64) -> String {
    format!("{:.4}", ns / 1e3)
}

/// `machine-pool.toml` beside `machine.toml`. `None`: the plan is a special file, which has no neighbour.
pub(super) fn beside(plan: &Path) -> Option<PathBuf> {
    if fs::metadata(plan).is_ok_and(|about| !about.is_file()) {
        return None;
    }
    let stem = plan.file_stem()?.to_string_lossy();
    Some(plan.with_file_name(format!("{stem}-pool.toml")))
}

/// Replaces the file in one step if a pool accepts the parameters.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), BenchError> {
    Plan::parse(path, &format!("{PLAN}{text}"))
        .map_err(|refused| BenchError::Plan { path: path.to_owned(), refused })?;
    Ok(written(path, text).map_err(|error| ExportError::Write { path: path.to_owned(), error })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        let sized = super::super::SIZED.into_iter().map(|op| (op, [50.0, 100.0, 1_000.0]));
        let fixed = FIXED.into_iter().map(|op| (op, [400_000.0; 3]));
        let moving = [0.0, 10.0, 500.0];
        Machine {
            ops: sized.chain(fixed).collect(),
            request: 60.0,
            client: 50.0,
            hop: [80.0; 8],
            moving,
            ..Machine::default()
        }
    }

    #[test]
    fn a_plan_that_includes_the_file_is_about_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        let path = beside(&folder.path().join("machine.toml")).unwrap();
        assert_eq!(beside(Path::new("/dev/null")), None);
        assert_eq!(path.file_name().unwrap(), "machine-pool.toml");
        replace(&path, &machine().to_pool()).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
        let shipped = fs::read_to_string(root.join("pool-cores.toml")).unwrap();
        let text = shipped.replace("parameters/zen5.toml", "machine-pool.toml");
        assert_ne!(shipped, text, "the plan includes no file to replace");
        let mut plan = Plan::parse(&folder.path().join("cores.toml"), &text).unwrap();
        for (name, value) in [
            ("host.submit_us", "0.03"),
            ("device.core.latency_us", "0.37"),
            ("device.core.rsa-2048-sign.us", "400"),
            ("device.core.aes-256-gcm.us_by_bytes", "64:0.0500, 1024:0.1100, 16384:1.5000"),
        ] {
            assert_eq!(plan.settings.text(name), Some(value), "{name}");
        }
        plan.set_all(&["requests.count=20000", "device.wide.count=0"]).unwrap();
        let number = plan.system.metrics.iter().position(|metric| metric.name == "mean_us").unwrap();
        let mean = plan.system.run(&plan.settings, 1).values[number];
        assert!(mean > 400.0, "{mean}");
    }

    #[test]
    fn times_that_were_not_measured_leave_the_file_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine-pool.toml");
        replace(&path, &machine().to_pool()).unwrap();
        let before = fs::read_to_string(&path).unwrap();
        let why = replace(&path, &Machine { request: f64::NAN, ..machine() }.to_pool()).unwrap_err().to_string();
        assert!(why.contains("would refuse this calibration: "), "{why}");
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
    }
}
