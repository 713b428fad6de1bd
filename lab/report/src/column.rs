//! Columns of rows: name in JSON, heading, format and unit of the values, and better direction. All exporters and plots
//! use them, so they agree.
//!
//! Here stand the columns of several programs. A module makes further ones with [`columns!`](crate::columns) and places
//! them behind one of these.

use super::Row;
use super::format::{bytes, clean, count, digits, micros, percent, plain, rate, ratio, throughput};
use Better::{Depends, Less, More, Neither};
use serde_json::Value;

/// The better direction of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    More,
    /// Less is better.
    Less,
    /// Depends on the compared quantity.
    Depends,
    /// Neither: a setting or a description.
    Neither,
}

type Write = fn(f64) -> String;

type ToRange = fn(&Row) -> Option<(f64, f64)>;

#[derive(Debug, Clone, Copy)]
enum Form {
    Text,
    Number(Write),
    /// Computed from several values of the row.
    Made(fn(&Row) -> Option<String>),
    /// Not in tables.
    JsonOnly,
}

/// A column. Two are equal if place, name and heading are: the compiler may keep one static at several addresses.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Name in JSON; a dot leads into an object.
    pub name: &'static str,
    /// Heading in tables.
    pub header: &'static str,
    /// Better direction of its values.
    pub better: Better,
    /// Columns of the largest number are dropped first if the width is too small; zero stays.
    pub(crate) expendable: u8,
    /// Place among the columns of tables and of JSON.
    pub(crate) order: u32,
    form: Form,
    /// The number in plots, if it is not the value.
    pub(crate) drawn: Option<fn(&Row) -> Option<f64>>,
    /// The least and the greatest value of the repeats, if the row does not state them by the column's name.
    pub(crate) range: Option<ToRange>,
    /// A computed column that tables show in place of this one.
    pub(crate) shows: Option<&'static &'static Column>,
}

impl PartialEq for Column {
    fn eq(&self, other: &Self) -> bool {
        (self.order, self.name, self.header) == (other.order, other.name, other.header)
    }
}

impl Column {
    /// Text that describes the case. `expendable`: zero stays; of others the largest number goes first if a table lacks
    /// room.
    pub const fn text(name: &'static str, expendable: u8) -> Self {
        let (header, form, order) = (name, Form::Text, 0);
        Self { name, header, better: Neither, expendable, order, form, drawn: None, range: None, shows: None }
    }

    /// A number that describes the case.
    pub const fn set(name: &'static str, expendable: u8, write: Write) -> Self {
        Self { form: Form::Number(write), ..Self::text(name, expendable) }
    }

    /// A measured number.
    pub const fn found(name: &'static str, header: &'static str, expendable: u8, better: Better, write: Write) -> Self {
        Self { header, better, ..Self::set(name, expendable, write) }
    }

    /// Not in tables.
    pub const fn json_only(name: &'static str) -> Self {
        Self { header: "", better: Depends, form: Form::JsonOnly, ..Self::text(name, 0) }
    }

    /// With another heading than its name.
    #[must_use]
    pub const fn headed(self, header: &'static str) -> Self {
        Self { header, ..self }
    }

    /// Its cells are computed from the whole row.
    #[must_use]
    pub const fn made(self, better: Better, make: fn(&Row) -> Option<String>) -> Self {
        Self { better, form: Form::Made(make), ..self }
    }

    /// Tables show the computed column `made`, which has no value of its own, if a row has a value here.
    #[must_use]
    pub const fn shows(self, made: &'static &'static Self) -> Self {
        Self { shows: Some(made), ..self }
    }

    const fn drawn(self, drawn: fn(&Row) -> Option<f64>) -> Self {
        Self { drawn: Some(drawn), ..self }
    }

    const fn ranging(self, range: ToRange) -> Self {
        Self { range: Some(range), ..self }
    }

    /// Behind that column, before those more than `step` behind it.
    #[must_use]
    pub const fn placed(self, behind: &Self, step: u32) -> Self {
        Self { order: behind.order + step, ..self }
    }

    /// Its place in JSON: a name, and the name of the part if the value is part of an object.
    pub fn place(&self) -> (&'static str, Option<&'static str>) {
        self.name.split_once('.').map_or((self.name, None), |(name, part)| (name, Some(part)))
    }

    pub(crate) fn numeric(&self) -> bool {
        matches!(self.form, Form::Number(_)) || self.better != Neither
    }

    /// The row's value as tables show it.
    pub fn cell(&self, row: &Row) -> Option<String> {
        match self.form {
            Form::Text => row.text(self).map(clean),
            Form::Number(write) => row.number(self).map(write),
            Form::Made(make) => make(row),
            Form::JsonOnly => None,
        }
    }

    /// Writes a number of this column.
    pub fn writer(&self) -> fn(f64) -> String {
        if let Form::Number(write) = self.form { write } else { plain }
    }

    /// Whether a row may have that value here.
    pub fn takes(&self, value: &Value) -> bool {
        match self.form {
            Form::Text => value.is_string(),
            Form::Number(_) => value.is_number(),
            Form::Made(_) | Form::JsonOnly => true,
        }
    }
}

/// Makes statics of columns in the order of tables and of JSON: `pub(super) after column::SIZE;`, then one line
/// `NAME = Column::…;` for each. `pub(super) LIST after …` also lists them, for tests.
#[macro_export]
macro_rules! columns {
    ($vis:vis after $behind:expr, $step:expr;) => {};
    ($vis:vis after $behind:expr, $step:expr; $(#[$doc:meta])* $name:ident = $column:expr; $($rest:tt)*) => {
        $(#[$doc])*
        $vis static $name: &$crate::Column = &$column.placed($behind, $step);
        $crate::columns! { $vis after $name, $step; $($rest)* }
    };
    ($vis:vis after $behind:expr; $($rest:tt)*) => { $crate::columns! { $vis after $behind, 1; $($rest)* } };
    ($vis:vis $list:ident after $behind:expr; $($(#[$doc:meta])* $name:ident = $column:expr;)*) => {
        $crate::columns! { $vis after $behind; $($(#[$doc])* $name = $column;)* }
        #[cfg(test)]
        $vis static $list: &[&$crate::Column] = &[$($name),*];
    };
}

macro_rules! listed {
    ($($(#[$doc:meta])* $name:ident = $column:expr;)*) => {
        columns! { pub after &Column::text("", 0), STEP; $($(#[$doc])* $name = $column;)* }

        /// The columns of this module.
        pub static ALL: [&Column; [$(stringify!($name)),*].len()] = [$($name),*];
    };
}

/// Most columns that modules place behind one of these.
const STEP: u32 = 100;

listed! {
    /// The scenario: `lane`, `crypto`, `ocf`, `notify`, `balance`, `scaling`, `sockets`, or a plan's name.
    SCENARIO = Column::json_only("scenario");
    /// Distinguishes this row's set-up from others of the scenario, e.g. `sidecore` or `in process`.
    VARIANT = Column::text("variant", 0).made(Neither, variant);
    /// Operation by the name of its class, or kind of traffic.
    OP = Column::text("op", 0);
    /// Library that computes.
    LIBRARY = Column::text("library", 5);
    /// Waiting policy of all hops, or of a side.
    NOTIFY = Column::text("notify", 0);
    /// Balancing policy.
    BALANCE = Column::text("balance", 0);
    /// Description of the devices, e.g. `2 worker` or `4 hifn-7751`.
    DEVICES = Column::text("devices", 1).drawn(first_number);
    /// Number of simultaneous clients.
    CLIENTS = Column::set("clients", 0, plain);
    /// CPUs of each end's programs on a path.
    CPUS = Column::set("cpus", 0, plain).headed("CPUs");
    /// Operations in flight of each client.
    JOBS = Column::set("jobs", 0, plain);
    /// Size of a message in bytes.
    SIZE = Column::set("size", 0, |size| bytes(size as u64));
    /// The link's largest IP packet, bytes.
    MTU = Column::set("link.mtu", 3, plain).headed("MTU");
    /// Offered load as a fraction of the capacity, for arrivals independent of completions.
    LOAD = Column::set("load", 0, plain);
    /// Completed operations a second, of all clients together.
    OPS_PER_S = Column::found("ops_per_s", "ops/s", 0, More, rate);
    /// Begun or scheduled operations a second, if not all of them may complete.
    SENT_PER_S = Column::found("sent_per_s", "sent", 2, Depends, rate);
    /// Share of sent messages that did not arrive.
    LOST = Column::found("lost", "lost", 2, Less, |share| format!("{} %", digits(share * 100.0)));
    /// Payload, Mbit/s.
    MBIT_PER_S = Column::found("mbit_per_s", "payload", 3, More, throughput).drawn(payload).ranging(payload_range);
    /// Submitted to received, us: mean. Rows have all percentiles of each of these times; tables show only this one's.
    TOTAL_MEAN = Column::found("total_us.mean", "mean", 8, Less, micros);
    /// The same: median.
    TOTAL_P50 = Column::found("total_us.p50", "p50", 1, Less, micros);
    /// The same: 99th percentile.
    TOTAL_P99 = Column::found("total_us.p99", "p99", 1, Less, micros);
    /// Submitted to handed to the device, us.
    QUEUE_MEAN = Column::found("queue_us.mean", "queue", 6, Less, micros);
    /// The same: median.
    QUEUE_P50 = Column::json_only("queue_us.p50");
    /// The same: 99th percentile.
    QUEUE_P99 = Column::json_only("queue_us.p99");
    /// Handed to the device to reply taken from it, us.
    DEVICE_MEAN = Column::found("device_us.mean", "device", 6, Less, micros);
    /// The same: median.
    DEVICE_P50 = Column::json_only("device_us.p50");
    /// The same: 99th percentile.
    DEVICE_P99 = Column::json_only("device_us.p99");
    /// Submitted to reply taken from the device, us.
    HOST_MEAN = Column::found("host_us.mean", "host", 8, Less, micros);
    /// The same: median.
    HOST_P50 = Column::json_only("host_us.p50");
    /// The same: 99th percentile.
    HOST_P99 = Column::json_only("host_us.p99");
    /// Reply taken to received, us.
    DELIVER_MEAN = Column::found("deliver_us.mean", "deliver", 6, Less, micros);
    /// The same: median.
    DELIVER_P50 = Column::json_only("deliver_us.p50");
    /// The same: 99th percentile.
    DELIVER_P99 = Column::json_only("deliver_us.p99");
    /// CPU time of an operation in the clients' processes, us.
    CLIENT_CPU = Column::found("cpu_us_per_op.client", "client CPU", 4, Less, micros).drawn(cpu_of_both);
    /// The same in the service.
    SERVICE_CPU = Column::found("cpu_us_per_op.service", "service CPU", 4, Less, micros);
    /// Both together.
    TOTAL_CPU = Column::found("cpu_us_per_op.total", "total CPU", 4, Less, micros);
    /// Polls that found nothing.
    EMPTY_POLLS = Column::found("empty_polls", "empty polls", 9, Less, |polls| count(polls as u64));
    /// Wake-ups sent.
    WAKEUPS_SENT = Column::found("wakeups_sent", "wake-ups", 7, Less, |sent| count(sent as u64));
    /// Wake-ups that were not needed because the other side was awake.
    WAKEUPS_SAVED = Column::found("wakeups_saved", "saved", 8, More, |saved| count(saved as u64));
    /// Messages that a service moves by one system call.
    PER_SEND = Column::found("messages_per_send", "per send", 4, More, digits);
    /// Requests in a batch that a device computed side by side.
    PER_BATCH = Column::found("per_batch", "per batch", 4, Depends, digits);
    /// Share of batches with the device's highest number of requests.
    FULL_BATCHES = Column::found("full_batches", "full", 4, Depends, percent);
    /// Share of a program's messages that go through rings.
    RING_SHARE = Column::found("ring_share", "by ring", 6, Depends, percent);
    /// This row's figure divided by the baseline's.
    // Better is more for rates and less for times: the scenario's text states which.
    RATIO = Column::found("ratio", "ratio", 0, Depends, ratio).ranging(ratio_range);
    /// The better direction of the ratio: `more` or `less`.
    RATIO_BETTER = Column::json_only("ratio_better");
    /// Bounds of the ratio with the stated confidence: made of the next two.
    INTERVAL = Column::text("", 1).headed("from, to").made(Depends, interval);
    /// The interval's lower end.
    RATIO_LOW = Column::json_only("interval.low").shows(&INTERVAL);
    /// The interval's upper end.
    RATIO_HIGH = Column::json_only("interval.high");
    /// The promised ratio and whether it is kept: made of the next two.
    REACH = Column::text("", 1).headed("reach").made(Depends, reach);
    /// Least promised ratio.
    AT_LEAST = Column::json_only("reach.at_least").shows(&REACH);
    /// Highest promised ratio.
    AT_MOST = Column::json_only("reach.at_most").shows(&REACH);
    /// Divisor of the ratio: a variant measured in the same run, or a bound by its name.
    BASELINE = Column::text("baseline", 2);
    /// Largest less smallest of the repeats, divided by their median.
    SPREAD = Column::found("spread", "spread", 0, Less, percent);
    /// Reasons to doubt the row: names in tables, more in JSON.
    DOUBTS = Column::text("doubts", 0).headed("doubt").made(Neither, doubts);
    /// The least and the most of the repeats, by column.
    RANGES = Column::json_only("ranges");
    /// Number of repeats; the row is their median.
    REPEATS = Column::set("repeats", 9, plain);
    /// Seed of everything random in the run.
    SEED = Column::set("seed", 9, plain);
    /// The service's assumed cost of a sleep and its wake-up, ns of CPU time, and assumed duration of a wake-up.
    PARK_COST_NS = Column::json_only("park_cost_ns");
    /// See [`PARK_COST_NS`].
    WAKE_TIME_NS = Column::json_only("wake_time_ns");
    /// Time of offering requests in each repeat, s.
    OFFERED_S = Column::json_only("offered_s");
    /// Cores of clients and sidecores.
    PINNED = Column::text("pinned", 10);
    /// The command with program, date and machine, and the reasons to doubt the whole run.
    RUN = Column::json_only("run");
    /// Commit of the program.
    COMMIT = Column::text("commit", 10);
    /// Processor, cores and kernel.
    MACHINE = Column::text("machine", 10);
    /// Parameters of a simulated case that differ from its plan.
    SETTINGS = Column::json_only("settings");
    /// Other results by metric, each in its own unit. Simulated cases have all of theirs here.
    METRICS = Column::json_only("metrics");
    /// Half of the 95 % interval around each metric, if there are several runs.
    WITHIN = Column::json_only("within");
    /// Number of runs whose mean a simulated row is.
    SEEDS = Column::json_only("seeds");
    /// The part that limited a simulated case, with its utilisation.
    LIMIT = Column::json_only("limit");
}

/// A time's columns: mean, median and 99th percentile.
pub type TimeColumns = [&'static Column; 3];

/// Submitted to received.
pub static TOTAL: TimeColumns = [TOTAL_MEAN, TOTAL_P50, TOTAL_P99];
/// Submitted to handed to the device.
pub static QUEUE: TimeColumns = [QUEUE_MEAN, QUEUE_P50, QUEUE_P99];
/// Handed to the device to reply taken from it.
pub static DEVICE: TimeColumns = [DEVICE_MEAN, DEVICE_P50, DEVICE_P99];
/// Submitted to reply taken from the device.
pub static HOST: TimeColumns = [HOST_MEAN, HOST_P50, HOST_P99];
/// Reply taken to received.
pub static DELIVER: TimeColumns = [DELIVER_MEAN, DELIVER_P50, DELIVER_P99];

/// `None` if the variant only repeats the name of its policy.
fn variant(row: &Row) -> Option<String> {
    let variant = row.text(VARIANT)?;
    let said = [NOTIFY, BALANCE].into_iter().any(|policy| row.text(policy) == Some(variant));
    (!said).then(|| clean(variant))
}

fn interval(row: &Row) -> Option<String> {
    Some(format!("{} to {}", ratio(row.number(RATIO_LOW)?), ratio(row.number(RATIO_HIGH)?)))
}

/// The promised ratio and whether it is kept. With an interval, the verdict depends on all of it.
fn reach(row: &Row) -> Option<String> {
    let (least, most) = (row.number(AT_LEAST), row.number(AT_MOST));
    let said: Vec<_> = [("≥", least), ("≤", most)]
        .into_iter()
        .filter_map(|(sign, bound)| Some(format!("{sign} {}", ratio(bound?))))
        .collect();
    let holds = |seen| least.is_none_or(|least| seen >= least) && most.is_none_or(|most| seen <= most);
    let is_outside =
        |low: f64, high: f64| least.is_some_and(|least| high < least) || most.is_some_and(|most| low > most);
    let interval = row.number(RATIO_LOW).zip(row.number(RATIO_HIGH));
    let verdict = match (interval, row.number(RATIO)) {
        (Some((low, high)), _) if holds(low) && holds(high) => ", held",
        (Some((low, high)), _) if is_outside(low, high) => ", missed",
        (Some(_), _) => ", within the noise",
        (None, Some(seen)) if holds(seen) => ", held",
        (None, Some(_)) => ", missed",
        (None, None) => "",
    };
    (!said.is_empty()).then(|| said.join(" and ") + verdict)
}

fn doubts(row: &Row) -> Option<String> {
    let caveats = row.get(DOUBTS)?.as_array()?;
    let names: Vec<&str> = caveats.iter().filter_map(|caveat| caveat["reason"].as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Payload, or what follows from rate and size.
fn payload(row: &Row) -> Option<f64> {
    row.number(MBIT_PER_S).or_else(|| Some(row.number(OPS_PER_S)? * row.number(SIZE)? * 8.0 / 1e6))
}

/// Computed from that of the rate.
fn payload_range(row: &Row) -> Option<(f64, f64)> {
    let each = payload(row)? / row.number(OPS_PER_S)?;
    row.range(OPS_PER_S).map(|(least, most)| (least * each, most * each))
}

fn cpu_of_both(row: &Row) -> Option<f64> {
    Some(row.number(CLIENT_CPU)? + row.number(SERVICE_CPU)?)
}

fn first_number(row: &Row) -> Option<f64> {
    row.text(DEVICES)?.split(' ').next()?.parse().ok()
}

fn ratio_range(row: &Row) -> Option<(f64, f64)> {
    row.number(RATIO_LOW).zip(row.number(RATIO_HIGH)).or_else(|| row.stated_range(RATIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reach_says_whether_it_is_held() {
        let row = |ratio: f64| Row::new("keys", "v").with(RATIO, ratio).with(AT_LEAST, 0.5);
        let words = |row: &Row| REACH.cell(row);
        assert_eq!(words(&row(0.5)).as_deref(), Some("≥ 0.50 x, held"));
        assert_eq!(words(&row(0.49)).as_deref(), Some("≥ 0.50 x, missed"));
        assert_eq!(words(&row(0.9).with(AT_MOST, 0.8)).as_deref(), Some("≥ 0.50 x and ≤ 0.80 x, missed"));
        assert_eq!(words(&Row::new("keys", "v")), None);
        let between = |low: f64, high: f64| row(1.0).with(AT_MOST, 1.5).with(RATIO_LOW, low).with(RATIO_HIGH, high);
        assert_eq!(words(&between(0.5, 1.5)).as_deref(), Some("≥ 0.50 x and ≤ 1.50 x, held"));
        for (low, high) in [(0.4, 1.0), (1.0, 1.6), (0.4, 1.6)] {
            assert!(words(&between(low, high)).unwrap().ends_with(", within the noise"), "{low} {high}");
        }
        for (low, high) in [(0.3, 0.4), (1.6, 1.7)] {
            assert!(words(&between(low, high)).unwrap().ends_with(", missed"), "{low} {high}");
        }
    }
}
