//! Columns of the farm's rows, in the order of its tables.

use sidecore_report::Better::{Depends, Less, More, Neither};
use sidecore_report::column::{self, TimeColumns};
use sidecore_report::{Column, Row, columns};

columns! {
    pub(crate) after column::SIZE;

    VARIANT = Column::text("", 0).headed("variant").made(Neither, |row| Some(row.variant().to_owned()));
    SIZE = Column::set("size", 0, |bytes| format!("{bytes} B"));
    KILLS = number("kills");
    FED = number("fed");
    COMMITTED = Column::json_only("committed");
    LOST = number("lost");
    TWICE = number("twice");
    DEAD = number("dead");
    REDONE = number("redone");
    /// Answers to attempts that were void by then.
    LATE = number("late");
    OPS_PER_S = Column::found("ops_per_s", "events/s", 0, More, |rate| count(rate.round() as u64));
    /// Share of the nodes' capacity while there was enough work.
    SHARE = Column::found("share", "share", 0, More, |share| format!("{share:.3}"));
    /// The same until the last event had its result.
    TO_THE_END = Column::found("share_to_the_end", "to the end", 0, More, |share| format!("{share:.3}"));
    TOTAL_MEAN = Column::json_only("total_us.mean");
    TOTAL_P50 = Column::found("total_us.p50", "p50", 0, Less, time);
    TOTAL_P99 = Column::found("total_us.p99", "p99", 0, Less, time);
    QUEUE_MEAN = Column::json_only("queue_us.mean");
    QUEUE_P50 = Column::found("queue_us.p50", "to a worker p50", 0, Less, time);
    QUEUE_P99 = Column::found("queue_us.p99", "to a worker p99", 0, Less, time);
    GAP_MEAN = Column::json_only("gap_us.mean");
    GAP_P50 = Column::found("gap_us.p50", "gap p50", 0, Less, time);
    GAP_P99 = Column::found("gap_us.p99", "gap p99", 0, Less, time);
    STOP_MEAN = Column::json_only("stop_us.mean");
    STOP_P50 = Column::json_only("stop_us.p50");
    STOP_P99 = Column::found("stop_us.p99", "stop p99", 0, Less, time);
    SERVER_CPU = Column::json_only("cpu_us_per_op.server");
    /// 0 if nodes pull.
    DISPATCHER_CPU = Column::json_only("cpu_us_per_op.dispatcher");
    NODES_CPU = Column::json_only("cpu_us_per_op.nodes");
    ALL_CPU = Column::text("", 0).headed("CPU/event").made(Less, all_cpu);
    RATIO = Column::text("ratio", 0).made(Depends, ratio);
    REACH = Column::text("", 0).headed("reach").made(Depends, reach);
    SPREAD = Column::found("spread", "spread", 0, Less, |spread| format!("{:.0} %", spread * 100.0));
}

pub(crate) static TOTAL: TimeColumns = [TOTAL_MEAN, TOTAL_P50, TOTAL_P99];
/// From an event's publishing until a worker has it.
pub(crate) static QUEUE: TimeColumns = [QUEUE_MEAN, QUEUE_P50, QUEUE_P99];
/// From a node's kill until other nodes had all of its events.
pub(crate) static GAP: TimeColumns = [GAP_MEAN, GAP_P50, GAP_P99];
/// From the kill of a dispatcher or of the server until the next assignment.
pub(crate) static STOP: TimeColumns = [STOP_MEAN, STOP_P50, STOP_P99];
/// CPU time of an event, us, by process.
pub(crate) static CPU: [&Column; 3] = [SERVER_CPU, DISPATCHER_CPU, NODES_CPU];

pub(crate) static SHOWN: [&Column; 23] = [
    VARIANT, SIZE, KILLS, FED, LOST, TWICE, DEAD, REDONE, LATE, OPS_PER_S, SHARE, TO_THE_END, TOTAL_P50, TOTAL_P99,
    QUEUE_P50, QUEUE_P99, GAP_P50, GAP_P99, STOP_P99, ALL_CPU, RATIO, REACH, SPREAD,
];

const fn number(name: &'static str) -> Column {
    Column::found(name, name, 0, Depends, |number| count(number as u64))
}

fn all_cpu(row: &Row) -> Option<String> {
    Some(time(row.number(SERVER_CPU)? + row.number(DISPATCHER_CPU)? + row.number(NODES_CPU)?))
}

fn ratio(row: &Row) -> Option<String> {
    Some(format!("{:.2} x {}", row.number(RATIO)?, row.text(column::BASELINE).unwrap_or_default()))
}

fn reach(row: &Row) -> Option<String> {
    let (sign, bound, holds): (_, _, fn(&f64, &f64) -> bool) = match row.number(column::AT_LEAST) {
        Some(least) => ("≥", least, f64::ge),
        None => ("≤", row.number(column::AT_MOST)?, f64::le),
    };
    let figure = row.number(RATIO).or_else(|| row.number(SHARE));
    let verdict = if figure.is_some_and(|figure| holds(&figure, &bound)) { ", held" } else { ", missed" };
    Some(format!("{sign} {bound:.2}{verdict}"))
}

pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub(crate) fn time(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us:.1} us"),
        us if us < 1e6 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([12.34, 1_500.0, 2_500_000.0].map(time), ["12.3 us", "1.5 ms", "2.50 s"]);
        let row = |ratio: f64| Row::new("tail", "tokens").with(RATIO, ratio).with(column::AT_MOST, 0.7);
        assert_eq!([0.7, 0.71].map(|ratio| reach(&row(ratio)).unwrap()), ["≤ 0.70, held", "≤ 0.70, missed"]);
    }
}
