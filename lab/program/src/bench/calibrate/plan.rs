//! The measured times as a plan for the simulator and as a table.

use super::sleep::LONG_AFTER;
use super::{Curve, SIZES, Spread};
use crate::bench::error::BenchError;
use crate::report::{Grid, digits};
use sidecore_measure::export::ExportError;
use sidecore_sim::plan::Plan;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::Builder;

/// Settings of the system `machine`, in ns.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Machine {
    pub(super) park_cost: f64,
    pub(super) wake_time: f64,
    pub(super) ops: Vec<(&'static str, Curve)>,
    /// The sidecore's part of a no-op.
    pub(super) request: f64,
    /// The client's part of a no-op.
    pub(super) client: f64,
    pub(super) hop: Spread,
    /// Extra time of a request with stage times.
    pub(super) sample: f64,
    /// Client's extra time for a request under open load.
    pub(super) open: f64,
    /// Sidecore's extra time for moving payload.
    pub(super) moving: Curve,
    /// Wait of each side for payload from the other's cache.
    pub(super) transfer: Curve,
    /// Client's cost of copying payload in and out.
    pub(super) copy: Curve,
    /// From the wake-up call until the sleeper runs, after a short sleep and after a long one.
    pub(super) after_short: Spread,
    pub(super) after_long: Spread,
    /// Of the wake-up call.
    pub(super) ring: Spread,
    /// CPU time of falling asleep and waking.
    pub(super) sleep: f64,
    /// Delay of a nap's end beyond the requested time.
    pub(super) overshoot: Spread,
    pub(super) client_overshoot: Spread,
    /// Time between two interruptions by the host, and their duration.
    pub(super) free: f64,
    pub(super) interruption: Spread,
}

/// Part, name, value in ns, meaning.
type Entry = (&'static str, &'static str, f64, &'static str);

const TABLE: &str = r#"
[service]
notify = "spin"
sample_every = 64

[table]
rows = { notify = ["spin", "park", "timer(250us)", "coalesce(16,100us)", "break-even"] }
columns = { metric = ["ops_per_s", "p50_us", "p99_us", "client_cpu_us", "service_cpu_us"] }
"#;

const CHOOSE: &str = r#"
[choose]
load = "client.rate_per_s"
latency = "p99_us"
rate = "ops_per_s"
over = { "service.notify" = ["spin", "park", "timer(50us)", "timer(250us)", "coalesce(4,50us)", "coalesce(16,100us)", "break-even", "learn"] }
cost = { client_cpu_us = 1, service_cpu_us = 1 }
"#;

const CLIENT: &str = r#"
[client]
op = "aes-256-gcm"
size = 1024
depth = 64
load = 0.1
rate_per_s = 0
arrivals_seed = 0
arrivals_repeats = 0
slots = 256
requests = 20_000
"#;

const POINTS: [&str; 3] = ["at_64_ns", "at_1024_ns", "at_16384_ns"];

/// Names of the bounds of [`PARTS`](sidecore_sim::system::PARTS).
const QUANTILES: [&str; 8] = ["p0_ns", "p10_ns", "p25_ns", "p50_ns", "p75_ns", "p90_ns", "p99_ns", "p100_ns"];

impl Machine {
    fn entries(&self) -> Vec<Entry> {
        let (lane, wake) = ("lane", "wake");
        let single = [
            ("client", "open_ns", self.open, "what a request of an open load takes the client more"),
            (lane, "request_ns", self.request, "the sidecore's part of a request, without the operation"),
            (lane, "client_ns", self.client, "the client's part of a request"),
            (lane, "sample_ns", self.sample, "the stage times of a request that carries them"),
            (wake, "deep_after_ns", LONG_AFTER as f64, "from which sleep on it is a long one"),
            (wake, "sleep_ns", self.sleep, "CPU time of going to sleep and coming back"),
            (wake, "park_cost_ns", self.park_cost, "what policies take a sleep and a wake-up to cost"),
            (wake, "time_ns", self.wake_time, "how long a wake-up is taken to last"),
            ("noise", "every_ns", self.free, "time between two interruptions of a core by its host"),
        ];
        let spreads = [
            ("hop", self.hop, "a message from one side to the other"),
            ("ring", self.ring, "CPU time of ringing"),
            ("wake-after-short", self.after_short, "from the ring until the sleeper runs, after a short sleep"),
            ("wake-after-long", self.after_long, "the same after a long sleep"),
            ("overshoot", self.overshoot, "how much later than asked a sidecore's nap ends"),
            ("client-overshoot", self.client_overshoot, "the same of a client, with the kernel's slack"),
            ("interruption", self.interruption, "how long the host takes a core away"),
        ];
        let spreads = spreads.into_iter().flat_map(|(part, spread, meaning)| {
            QUANTILES.into_iter().zip(spread).map(move |(name, time)| (part, name, time, meaning))
        });
        let curves = [
            ("move", self.moving, "what payload adds on the sidecore"),
            ("transfer", self.transfer, "waiting for payload from the other side's cache, alone in the lane"),
            ("copy", self.copy, "copying of payload in and out by the client"),
        ];
        let ops = self.ops.iter().map(|(op, curve)| (*op, *curve, "the operation in one process"));
        let points = curves.into_iter().chain(ops).flat_map(|(part, curve, meaning)| {
            POINTS.into_iter().zip(curve).map(move |(name, time)| (part, name, time, meaning))
        });
        single.into_iter().chain(spreads).chain(points).collect()
    }

    pub(super) fn to_toml(&self) -> String {
        let mut text = String::from(
            "# Measured by `sidecore bench calibrate`.\nsystem = \"machine\"\ntitle = \"This machine\"\n\
             about = \"One client and one sidecore on a core each.\"\n",
        );
        text += TABLE;
        text += CHOOSE;
        text += CLIENT;
        let mut part = "client";
        for (of, name, value, meaning) in self.entries() {
            if of != part {
                text.extend(["\n[", of, "]\n"]);
                part = of;
            }
            let _ = writeln!(
                text,
                "{name} = {{ value = {value:.1}, unit = \"ns\", origin = \"measured\", meaning = \"{meaning}\" }}"
            );
        }
        text
    }

    pub(super) fn to_grid(&self) -> Grid {
        let mut grid = Grid::new("This machine, times in ns", &["part", "what", "time"]);
        let mut rows: Vec<[String; 3]> = Vec::new();
        for (part, name, value, _) in self.entries() {
            let name = name.trim_end_matches("_ns");
            let quantile = QUANTILES.iter().any(|quantile| quantile.trim_end_matches("_ns") == name);
            let known = rows.last_mut().filter(|[of, what, _]| quantile && of == part && what == SPREAD);
            if let Some([.., times]) = known {
                times.extend([", ", &digits(value)]);
            } else {
                let what = if quantile { SPREAD } else { name };
                rows.push([part.to_owned(), what.to_owned(), digits(value)]);
            }
        }
        for row in rows {
            grid.push(row);
        }
        grid.notes.push(format!("Sizes {SIZES:?} B; between and beyond them times are taken to lie on lines."));
        grid
    }
}

/// Replaces the file in one step if `sidecore sim` accepts the plan. After an error the old file is unchanged.
pub(super) fn put(path: &Path, text: &str) -> Result<(), BenchError> {
    Plan::parse(path, text).map_err(|refused| BenchError::Plan { path: path.to_owned(), refused })?;
    Ok(written(path, text).map_err(|error| ExportError::Write { path: path.to_owned(), error })?)
}

pub(super) fn written(path: &Path, text: &str) -> io::Result<()> {
    // A link stays a link. A special file has no content to replace.
    if fs::symlink_metadata(path).is_ok_and(|about| !about.is_file()) {
        return fs::write(path, text);
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Permissions of an ordinary new file.
    let rights = fs::Permissions::from_mode(0o666);
    let placed = Builder::new().prefix(".plan-").permissions(rights).tempfile_in(directory).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        Ok(file.persist(path).map(drop)?)
    });
    // A directory may be read-only, and a file may be a mount point.
    placed.or_else(|_| fs::write(path, text))
}

const SPREAD: &str = "least, 10, 25, 50, 75, 90, 99 %, most";

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        let ops = super::super::SIZED.into_iter().chain(super::super::FIXED);
        let ops = ops.map(|name| (name, [50.0, 100.0, 1_000.0])).collect();
        Machine { ops, request: 60.0, client: 60.0, hop: [80.0; 8], ..Machine::default() }
    }

    #[test]
    fn a_calibration_that_no_simulation_takes_leaves_the_plan_that_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine.toml");
        let good = Machine { free: 4e8, after_short: [5_000.0; 8], ..machine() };
        put(&path, &good.to_toml()).unwrap();
        let before = fs::read_to_string(&path).unwrap();
        // A time that could not be measured, a negative one, and decreasing quantiles.
        let falling = [80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 20.0, 10.0];
        for hop in [[f64::NAN; 8], [-1.0; 8], falling] {
            let why = put(&path, &Machine { hop, ..good.clone() }.to_toml()).unwrap_err().to_string();
            assert!(why.contains("would refuse this calibration: ") && why.contains("calibrate again"), "{why}");
            assert_eq!(fs::read_to_string(&path).unwrap(), before);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        put(Path::new("/dev/null"), &good.to_toml()).unwrap();
    }

    #[test]
    fn the_plan_can_be_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine.toml");
        let mut machine = machine();
        // Never interrupted, and on a machine that others used for nine tenths of the time.
        for (free, lasts) in [(4e8, 0.0), (1e6, 9e6)] {
            machine.after_short = [5_000.0; 8];
            (machine.free, machine.interruption) = (free, [lasts; 8]);
            fs::write(&path, machine.to_toml()).unwrap();
            let plan = Plan::read(&path).unwrap();
            let outcome = plan.system.run(&plan.settings, 1);
            assert!(outcome.values.iter().all(|value| value.is_finite() && *value > 0.0), "{outcome:?}");
        }
        let rows = machine.to_grid().rows;
        assert_eq!(rows.len(), machine.entries().len() - 7 * (QUANTILES.len() - 1));
        let hop = rows.iter().find(|row| row[0] == "hop").unwrap();
        assert_eq!(hop[2].split(", ").count(), QUANTILES.len(), "{hop:?}");
    }
}
