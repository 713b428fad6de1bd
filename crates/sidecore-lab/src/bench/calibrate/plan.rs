//! What was measured, as a plan for the simulator and as a table.

use super::sleep::Sleep;
use super::{Curve, SIZES};
use crate::report::{Grid, digits};
use std::fmt::Write;

/// Everything that the system `machine` wants to know, in ns.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Machine {
    /// What a sleep and a wake-up are taken to cost.
    pub(super) park_cost: f64,
    /// Time of operations inside one process.
    pub(super) ops: Vec<(&'static str, Curve)>,
    /// The sidecore's part of a request that does nothing.
    pub(super) request: f64,
    /// The client's part of it.
    pub(super) client: f64,
    /// From one side to the other.
    pub(super) hop: f64,
    /// What the stage times of a request add.
    pub(super) sample: f64,
    /// What a request of an open load takes the client more.
    pub(super) open: f64,
    /// What moving of payload adds on the sidecore.
    pub(super) moving: Curve,
    /// What each side waits for payload from the other's cache.
    pub(super) transfer: Curve,
    /// What copying of payload in and out costs the client.
    pub(super) copy: Curve,
    pub(super) sleep: Sleep,
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

/// What an engineer would choose here: how both sides wait, by the CPU time that a request takes.
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
requests = 20_000
"#;

/// Names of a curve's points.
const POINTS: [&str; 3] = ["at_64_ns", "at_1024_ns", "at_16384_ns"];

impl Machine {
    /// The operation's time.
    pub(super) fn op(&self, name: &str) -> Curve {
        self.ops.iter().find(|(known, _)| *known == name).map_or(Curve::default(), |(_, curve)| *curve)
    }

    fn entries(&self) -> Vec<Entry> {
        let (lane, wake, timer, noise) = ("lane", "wake", "timer", "noise");
        let of_the_lane = [
            ("client", "open_ns", self.open, "what a request of an open load takes the client more"),
            (lane, "hop_ns", self.hop, "a message from one side to the other"),
            (lane, "request_ns", self.request, "the sidecore's part of a request, without the operation"),
            (lane, "client_ns", self.client, "the client's part of a request"),
            (lane, "sample_ns", self.sample, "the stage times of a request that carries them"),
        ];
        let curves = [
            ("move", self.moving, "what payload adds on the sidecore"),
            ("transfer", self.transfer, "waiting for payload from the other side's cache, alone in the lane"),
            ("copy", self.copy, "copying of payload in and out by the client"),
        ];
        let ops = self.ops.iter().map(|(op, curve)| (*op, *curve, "the operation in one process"));
        let points = curves.into_iter().chain(ops).flat_map(|(part, curve, meaning)| {
            POINTS.into_iter().zip(curve).map(move |(name, time)| (part, name, time, meaning))
        });
        let sleep = &self.sleep;
        let of_sleep = [
            (wake, "latency_ns", sleep.latency, "from the ring until the sleeper runs, after a short sleep"),
            (wake, "deep_latency_ns", sleep.deep_latency, "the same after a long sleep"),
            (wake, "deep_after_ns", sleep.deep_after, "from which sleep on it is a long one"),
            (wake, "send_ns", sleep.send, "CPU time of ringing"),
            (wake, "sleep_ns", sleep.cpu, "CPU time of going to sleep and coming back"),
            (wake, "park_cost_ns", self.park_cost, "what policies take a sleep and a wake-up to cost"),
            (timer, "overshoot_ns", sleep.overshoot, "how much later than asked a sidecore's nap ends"),
            (timer, "client_overshoot_ns", sleep.client_overshoot, "the same of a client, with the kernel's slack"),
            (noise, "every_ns", sleep.noise_every, "time between two interruptions of a core by its host"),
            (noise, "lasts_ns", sleep.noise_lasts, "mean length of one"),
        ];
        of_the_lane.into_iter().chain(points).chain(of_sleep).collect()
    }

    /// The plan.
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

    /// The same for people.
    pub(super) fn to_grid(&self) -> Grid {
        let mut grid = Grid::new("This machine, times in ns", &["part", "what", "time"]);
        for (part, name, value, _) in self.entries() {
            grid.rows.push(vec![part.to_owned(), name.trim_end_matches("_ns").to_owned(), digits(value)]);
        }
        grid.notes.push(format!("Sizes {SIZES:?} B; between and beyond them times are taken to lie on lines."));
        grid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_sim::plan::Plan;

    #[test]
    fn the_plan_can_be_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine.toml");
        let ops = super::super::SIZED.into_iter().chain(super::super::FIXED);
        let ops = ops.map(|name| (name, [50.0, 100.0, 1_000.0])).collect();
        let mut machine = Machine { ops, request: 60.0, client: 60.0, hop: 80.0, ..Machine::default() };
        // Never interrupted, and on a machine that others had nine tenths of.
        for (noise_every, noise_lasts) in [(4e8, 0.0), (1e6, 9e6)] {
            machine.sleep = Sleep { latency: 5_000.0, noise_every, noise_lasts, ..Sleep::default() };
            std::fs::write(&path, machine.to_toml()).unwrap();
            let plan = Plan::read(&path).unwrap();
            let outcome = plan.system.run(&plan.settings, 1);
            assert!(outcome.values.iter().all(|value| value.is_finite() && *value > 0.0), "{outcome:?}");
        }
        assert_eq!(machine.to_grid().rows.len(), machine.entries().len());
    }
}
