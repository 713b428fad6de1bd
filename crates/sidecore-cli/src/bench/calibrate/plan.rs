//! What was measured, as a plan for the simulator and as a table.

use super::Line;
use super::sleep::Sleep;
use crate::report::{Grid, digits};
use std::fmt::Write;

/// Everything that the system `machine` wants to know.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Machine {
    pub(super) sleep: Sleep,
    /// Time of operations inside one process.
    pub(super) ops: Vec<(&'static str, Line)>,
    /// The sidecore's part of a request that does nothing.
    pub(super) request: f64,
    /// The client's part of it.
    pub(super) client: f64,
    /// From one side to the other.
    pub(super) hop: f64,
    /// What moving of payload adds on the sidecore.
    pub(super) moving: Line,
    /// What copying of payload in and out costs the client.
    pub(super) client_per_byte: f64,
}

/// Name, value, unit, meaning.
type Entry = (&'static str, f64, &'static str, &'static str);

const TABLE: &str = r#"
[client]
op = "aes-256-gcm"
size = 1024
depth = 64
load = 0.1
requests = 20_000

[service]
notify = "spin"

[table]
rows = { notify = ["spin", "park", "timer(250us)", "coalesce(16,100us)", "break-even"] }
columns = { metric = ["ops_per_s", "p50_us", "p99_us", "client_cpu_us", "service_cpu_us"] }
"#;

impl Machine {
    /// The operation's time.
    pub(super) fn op(&self, name: &str) -> Line {
        self.ops.iter().find(|(known, _)| *known == name).map_or(Line::default(), |(_, line)| *line)
    }

    fn lane(&self) -> [Entry; 6] {
        [
            ("hop_ns", self.hop, "ns", "a message from one side to the other"),
            ("request_ns", self.request, "ns", "the sidecore's part of a request, without the operation"),
            ("client_ns", self.client, "ns", "the client's part of a request"),
            ("move_ns", self.moving.fixed, "ns", "what payload of any size adds on the sidecore"),
            ("move_ns_per_byte", self.moving.per_byte, "ns/B", "moving of one byte on the sidecore"),
            ("client_move_ns_per_byte", self.client_per_byte, "ns/B", "copying of one byte in and out by the client"),
        ]
    }

    fn wake(&self) -> [Entry; 5] {
        let sleep = &self.sleep;
        [
            ("latency_ns", sleep.latency, "ns", "from the ring until the sleeper runs, after a short sleep"),
            ("deep_latency_ns", sleep.deep_latency, "ns", "the same after a long sleep"),
            ("deep_after_ns", sleep.deep_after, "ns", "from which sleep on it is a long one"),
            ("send_ns", sleep.send, "ns", "CPU time of ringing"),
            ("sleep_ns", sleep.cpu, "ns", "CPU time of going to sleep and coming back"),
        ]
    }

    fn others(&self) -> [(&'static str, Entry); 3] {
        let sleep = &self.sleep;
        [
            ("timer", ("overshoot_ns", sleep.overshoot, "ns", "how much later than asked a nap ends")),
            ("noise", ("every_ns", sleep.noise_every, "ns", "time between two interruptions of a core by its host")),
            ("noise", ("lasts_ns", sleep.noise_lasts, "ns", "mean length of one")),
        ]
    }

    fn entries(&self) -> Vec<(&'static str, Entry)> {
        let mut entries: Vec<(&str, Entry)> = self.lane().into_iter().map(|entry| ("lane", entry)).collect();
        entries.extend(self.wake().into_iter().map(|entry| ("wake", entry)));
        entries.extend(self.others());
        for (op, line) in [("noop", Line::default())].iter().chain(&self.ops) {
            entries
                .push((op, ("fixed_ns", line.fixed, "ns", "time of the operation without its bytes, in one process")));
            entries.push((op, ("per_byte_ns", line.per_byte, "ns/B", "time of one byte of it, in one process")));
        }
        entries
    }

    /// The plan.
    pub(super) fn to_toml(&self) -> String {
        let mut text = String::from(
            "# Measured by `sidecore bench calibrate`.\nsystem = \"machine\"\ntitle = \"This machine\"\n\
             about = \"One client and one sidecore on a core each.\"\n",
        );
        text += TABLE;
        let mut part = "";
        for (of, (name, value, unit, meaning)) in self.entries() {
            if of != part {
                text.extend(["\n[", of, "]\n"]);
                part = of;
            }
            let _ = writeln!(
                text,
                "{name} = {{ value = {value:.4}, unit = \"{unit}\", origin = \"measured\", meaning = \"{meaning}\" }}"
            );
        }
        text
    }

    /// The same for people.
    pub(super) fn to_grid(&self) -> Grid {
        let mut grid = Grid::new("This machine", &["parameter", "value", "unit"]);
        for (part, (name, value, unit, _)) in self.entries() {
            grid.rows.push(vec![format!("{part}.{name}"), digits(value), unit.to_owned()]);
        }
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
        let op = Line { fixed: 50.0, per_byte: 0.1 };
        let ops = super::super::OPS.map(|(name, _, _)| (name, op)).to_vec();
        let sleep = Sleep { latency: 5_000.0, noise_every: 4e8, ..Sleep::default() };
        let machine = Machine { ops, sleep, request: 60.0, client: 60.0, hop: 80.0, ..Machine::default() };
        std::fs::write(&path, machine.to_toml()).unwrap();
        let plan = Plan::read(&path).unwrap();
        let outcome = plan.system.run(&plan.settings, 1);
        assert!(outcome.values.iter().all(|value| value.is_finite() && *value > 0.0), "{outcome:?}");
        assert_eq!(machine.to_grid().rows.len(), machine.entries().len());
    }
}
