//! The columns of rows. Each has its name in JSON, its heading, the format and unit of its values, and its better
//! direction. All exporters and plots use it, so they agree.

use super::format::{bytes, clean, count, digits, micros, percent, plain, rate, ratio, throughput};
use super::{Row, caveat};
use Better::{Depends, Less, More, Neither};
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    More,
    Less,
    /// Depends on the compared quantity.
    Depends,
    /// Neither: a setting or a description.
    Neither,
}

/// Writes a number with its unit.
type Write = fn(f64) -> String;

#[derive(Debug, Clone, Copy)]
enum Form {
    Text,
    Number(Write),
    /// Computed from several values of the row.
    Made(fn(&Row) -> Option<String>),
    /// Not in tables.
    JsonOnly,
}

#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) key: Key,
    /// Name in JSON; a dot leads into an object.
    pub(crate) name: &'static str,
    pub(crate) header: &'static str,
    pub(crate) better: Better,
    /// Columns of the largest number are dropped first if the width is too small; zero stays.
    pub(crate) expendable: u8,
    form: Form,
}

impl Key {
    pub(crate) fn column(self) -> &'static Column {
        &COLUMNS[self as usize]
    }
}

impl Column {
    /// Its place in JSON: a name, and the name of the part if the value is part of an object.
    pub(crate) fn place(&self) -> (&'static str, Option<&'static str>) {
        self.name.split_once('.').map_or((self.name, None), |(name, part)| (name, Some(part)))
    }

    /// Whether it is aligned to the right.
    pub(crate) fn numeric(&self) -> bool {
        matches!(self.form, Form::Number(_)) || self.better != Neither
    }

    pub(crate) fn cell(&self, row: &Row) -> Option<String> {
        match self.form {
            Form::Text => row.text(self.key).map(clean),
            Form::Number(write) => row.number(self.key).map(write),
            Form::Made(make) => make(row),
            Form::JsonOnly => None,
        }
    }

    pub(crate) fn writer(&self) -> Write {
        if let Form::Number(write) = self.form { write } else { plain }
    }

    pub(crate) fn takes(&self, value: &Value) -> bool {
        match self.form {
            Form::Text => value.is_string(),
            Form::Number(_) => value.is_number(),
            Form::Made(_) | Form::JsonOnly => true,
        }
    }
}

const fn text(name: &'static str, expendable: u8) -> Column {
    // The list below gives each its own key.
    Column { key: Key::Scenario, name, header: name, better: Neither, expendable, form: Form::Text }
}

const fn set(name: &'static str, expendable: u8, write: Write) -> Column {
    Column { form: Form::Number(write), ..text(name, expendable) }
}

const fn found(name: &'static str, header: &'static str, expendable: u8, better: Better, write: Write) -> Column {
    Column { header, better, ..set(name, expendable, write) }
}

const fn effect(name: &'static str, header: &'static str, make: fn(&Row) -> Option<String>) -> Column {
    Column { header, better: Depends, form: Form::Made(make), ..text(name, 0) }
}

const fn json_only(name: &'static str) -> Column {
    Column { header: "", better: Depends, form: Form::JsonOnly, ..text(name, 0) }
}

macro_rules! columns {
    ($($(#[$doc:meta])* $key:ident = $column:expr;)*) => {
        /// Keys of the columns, in the order of tables and of JSON.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Key { $($(#[$doc])* $key,)* }

        /// In the order of their keys.
        pub(crate) const COLUMNS: [Column; [$(Key::$key),*].len()] = [$(Column { key: Key::$key, ..$column }),*];
    };
}

columns! {
    /// The scenario: `lane`, `crypto`, `ocf`, `notify`, `balance`, `scaling`, `sockets`, or a plan's name.
    Scenario = json_only("scenario");
    /// Distinguishes this row's set-up from others of the scenario, e.g. `sidecore` or `in process`.
    Variant = Column { form: Form::Made(variant), ..text("variant", 0) };
    /// Operation by the name of its class, or kind of traffic.
    Op = text("op", 0);
    Library = text("library", 5);
    Notify = text("notify", 0);
    Balance = text("balance", 0);
    /// Description of the devices, e.g. `2 worker` or `4 hifn-7751`.
    Devices = text("devices", 1);
    /// Number of simultaneous clients.
    Clients = set("clients", 0, plain);
    /// CPUs of each end's programs on a path.
    Cpus = Column { header: "CPUs", ..set("cpus", 0, plain) };
    /// Operations in flight of each client.
    Jobs = set("jobs", 0, plain);
    /// Requests in flight for a device that computes several side by side.
    Fill = set("fill", 0, plain);
    /// Size of a message in bytes.
    Size = set("size", 0, |size| bytes(size as u64));
    /// Cost of an access to a register of the link, us.
    RegisterUs = Column { header: "register", ..set("link.register_us", 3, micros) };
    /// The link's largest IP packet, bytes.
    Mtu = Column { header: "MTU", ..set("link.mtu", 3, plain) };
    /// Number of frames that makes the link interrupt.
    ModerateCount = json_only("link.moderate_count");
    /// Longest wait of a frame for that, us.
    ModerateUs = json_only("link.moderate_us");
    /// Moderation of the link's interrupts: made of these two.
    Moderation = Column { header: "moderation", form: Form::Made(moderation), ..text("", 3) };
    /// Frames that the link handed over with an interrupt.
    FramesPerInterrupt = found("link.frames_per_interrupt", "frames/interrupt", 3, Depends, digits);
    /// Bytes of a frame on the link, with its addresses.
    BytesPerFrame = found("link.bytes_per_frame", "bytes/frame", 4, Depends, digits);
    /// Offered load as a fraction of the capacity, for arrivals independent of completions.
    Load = set("load", 0, plain);
    /// Completed operations a second, of all clients together.
    OpsPerS = found("ops_per_s", "ops/s", 0, More, rate);
    /// Begun or scheduled operations a second, if not all of them may complete.
    SentPerS = found("sent_per_s", "sent", 2, Depends, rate);
    /// Share of sent messages that did not arrive.
    Lost = found("lost", "lost", 2, Less, |share| format!("{} %", digits(share * 100.0)));
    /// Payload, Mbit/s.
    MbitPerS = found("mbit_per_s", "payload", 3, More, throughput);
    /// Packets a second at the local end, both ways.
    PacketsPerS = found("packets_per_s", "packets/s", 5, Depends, rate);
    /// CPU time of the whole machine for each packet, us.
    CpuPerPacket = found("cpu_us_per_packet", "CPU/packet", 1, Less, micros);
    /// CPU time for each byte of payload, ns: of the whole machine, or of both ends and the link between them.
    CpuPerByte = found("cpu_ns_per_byte", "CPU/byte", 1, Less, |ns| format!("{} ns", digits(ns)));
    /// CPU time of the path for each packet, by component, us: the device's driver.
    DriverPerPacket = found("packet_us.driver", "driver", 2, Less, micros);
    /// The same: the protocols.
    ProtocolPerPacket = found("packet_us.protocol", "protocol", 2, Less, micros);
    /// The same: sockets.
    SocketPerPacket = found("packet_us.socket", "socket", 2, Less, micros);
    /// The same: memory of packets.
    BuffersPerPacket = found("packet_us.buffers", "buffers", 2, Less, micros);
    /// The same: payload that is copied.
    CopyPerPacket = found("packet_us.copy", "copy", 2, Less, micros);
    /// The same: wake-ups and scheduling.
    SchedulerPerPacket = found("packet_us.scheduler", "scheduler", 2, Less, micros);
    /// The same: into the kernel and back.
    EntryPerPacket = found("packet_us.entry", "entry", 2, Less, micros);
    ProgramPerPacket = found("packet_us.program", "program", 2, Less, micros);
    /// The same: other work of the kernel.
    OtherPerPacket = found("packet_us.other", "other", 3, Less, micros);
    /// The same: time without a rule.
    UnplacedPerPacket = json_only("packet_us.unplaced");
    /// Bounds of each of these with 95 % probability with respect to sampling: `low` and `high` by component.
    PerPacketBounds = json_only("packet_us_bounds");
    /// Share of that CPU time without a rule.
    Unplaced = found("unplaced", "unplaced", 6, Less, percent);
    /// CPU time by samples, divided by the CPU time that the kernel accounts.
    Sampled = found("sampled", "sampled", 6, Depends, ratio);
    /// Use of processors: programs. 100 % is one processor.
    User = found("cpu.user", "user", 2, Depends, percent);
    System = found("cpu.system", "system", 2, Depends, percent);
    /// The same: interrupts, and their deferred work.
    Softirq = found("cpu.softirq", "softirq", 2, Depends, percent);
    /// The same: idle.
    Idle = found("cpu.idle", "idle", 2, More, percent);
    SwitchesPerS = found("context_switches_per_s", "switches/s", 4, Less, rate);
    InterruptsPerS = found("interrupts_per_s", "interrupts/s", 6, Less, rate);
    /// Interrupts a second that wake a thread on another processor.
    ReschedulesPerS = found("reschedules_per_s", "resched/s", 7, Less, rate);
    /// Softirqs of the network a second.
    SoftirqsPerS = found("softirqs_per_s", "softirqs/s", 7, Less, rate);
    /// Packets a second that interfaces dropped, at both ends.
    DroppedPerS = found("dropped_per_s", "dropped/s", 6, Less, rate);
    /// Datagrams a second dropped because the receiver's buffer was full, at both ends.
    OverflowedPerS = found("overflowed_per_s", "no room/s", 6, Less, rate);
    /// Segments a second that TCP sent again, at both ends.
    RetransmittedPerS = found("retransmitted_per_s", "again/s", 6, Less, rate);
    /// Instructions for each packet, of the whole machine.
    InstructionsPerPacket = found("instructions_per_packet", "instr/packet", 7, Less, digits);
    /// Cache misses for each packet, of the whole machine.
    MissesPerPacket = found("cache_misses_per_packet", "misses/packet", 7, Less, digits);
    /// Time of each processor by use, seconds.
    Processors = json_only("processors");
    /// Component of a network path, or a kind of time outside of it.
    Component = text("component", 0);
    /// Share of the CPU time of the measured work.
    CpuShare = found("cpu_share.seen", "share", 0, Depends, percent);
    /// Its lower bound with 95 % probability with respect to sampling.
    ShareLow = json_only("cpu_share.low");
    /// Its upper bound, likewise.
    ShareHigh = json_only("cpu_share.high");
    /// The bounds of that share: made of these two.
    ShareBounds = Column { header: "95 % within", better: Depends, form: Form::Made(share_bounds), ..text("", 0) };
    /// CPU time summed over all CPUs, s.
    CpuSeconds = found("cpu_s", "CPU time", 4, Less, seconds);
    /// The same for each packet, us.
    UsPerPacket = found("us_per_packet", "per packet", 0, Less, micros);
    /// Duration, s.
    TookSeconds = found("took_s", "took", 3, Less, seconds);
    Samples = found("samples", "samples", 6, Depends, |samples| count(samples as u64));
    Packets = found("packets", "packets", 5, Depends, |packets| count(packets as u64));
    /// Submitted to received, us: mean. Rows have all percentiles of each of these times; tables show only this one's.
    TotalMean = found("total_us.mean", "mean", 8, Less, micros);
    /// The same: median.
    TotalP50 = found("total_us.p50", "p50", 1, Less, micros);
    /// The same: 99th percentile.
    TotalP99 = found("total_us.p99", "p99", 1, Less, micros);
    /// Submitted to handed to the device, us.
    QueueMean = found("queue_us.mean", "queue", 6, Less, micros);
    /// Handed to the device to reply taken from it, us.
    DeviceMean = found("device_us.mean", "device", 6, Less, micros);
    /// Submitted to reply taken from the device, us.
    HostMean = found("host_us.mean", "host", 8, Less, micros);
    /// Reply taken to received, us.
    DeliverMean = found("deliver_us.mean", "deliver", 6, Less, micros);
    /// CPU time of an operation in the clients' processes, us.
    ClientCpu = found("cpu_us_per_op.client", "client CPU", 4, Less, micros);
    /// The same in the service.
    ServiceCpu = found("cpu_us_per_op.service", "service CPU", 4, Less, micros);
    /// Both together.
    TotalCpu = found("cpu_us_per_op.total", "total CPU", 4, Less, micros);
    /// CPU time in a second without traffic: of the clients' processes, us.
    ClientIdle = found("idle_us_per_s.client", "client idle CPU", 4, Less, micros);
    /// The same of the service.
    ServiceIdle = found("idle_us_per_s.service", "service idle CPU", 4, Less, micros);
    /// Wake-ups of threads of either meanwhile.
    IdleWakeups = found("idle_wakeups", "woke", 4, Less, |woke| count(woke as u64));
    /// Polls that found nothing.
    EmptyPolls = found("empty_polls", "empty polls", 9, Less, |polls| count(polls as u64));
    WakeupsSent = found("wakeups_sent", "wake-ups", 7, Less, |sent| count(sent as u64));
    /// Wake-ups that were not needed because the other side was awake.
    WakeupsSaved = found("wakeups_saved", "saved", 8, More, |saved| count(saved as u64));
    /// Messages that a service moves by one system call.
    PerSend = found("messages_per_send", "per send", 4, More, digits);
    /// Requests in a batch that a device computed side by side.
    PerBatch = found("per_batch", "per batch", 4, Depends, digits);
    /// Share of batches with the device's highest number of requests.
    FullBatches = found("full_batches", "full", 4, Depends, percent);
    /// Share of a program's messages that go through rings.
    RingShare = found("ring_share", "by ring", 6, Depends, percent);
    /// Published value of an effect, in its unit.
    Published = effect("effect.published", "published", |row| changed(row, Key::Published));
    /// Its simulated value.
    Simulated = effect("effect.simulated", "simulated", |row| changed(row, Key::Simulated));
    /// Its measured value.
    Measured = effect("effect.measured", "measured", |row| changed(row, Key::Measured));
    /// The bounds of the measured value: made of the next two.
    MeasuredBounds = Column { expendable: 2, ..effect("", "95 % within", measured_bounds) };
    /// Lower bound of the measured value with 95 % probability.
    MeasuredLow = json_only("effect.low");
    /// Upper bound of the measured value with 95 % probability.
    MeasuredHigh = json_only("effect.high");
    /// `x` for a ratio, `us` for a difference.
    EffectUnit = json_only("effect.unit");
    /// Whether its direction is the published one.
    Agrees = text("agrees", 0);
    /// This row's figure divided by the baseline's.
    // Better is more for rates and less for times: the scenario's text states which.
    Ratio = found("ratio", "ratio", 0, Depends, ratio);
    /// The better direction of the ratio: `more` or `less`.
    RatioBetter = json_only("ratio_better");
    /// Bounds of the ratio with the stated confidence: made of the next two.
    Interval = Column { header: "from, to", better: Depends, form: Form::Made(interval), ..text("", 1) };
    /// The interval's lower end.
    RatioLow = json_only("interval.low");
    /// The interval's upper end.
    RatioHigh = json_only("interval.high");
    /// The promised ratio and whether it is kept: made of the next two.
    Reach = Column { header: "reach", better: Depends, form: Form::Made(reach), ..text("", 1) };
    /// Least promised ratio.
    AtLeast = json_only("reach.at_least");
    /// Highest promised ratio.
    AtMost = json_only("reach.at_most");
    /// Change against another row, in percent of it: mean time from submission to hand-over.
    QueueChange = found("changes.queue", "queue ±", 2, Less, change);
    /// The same for the mean time on the device.
    DeviceChange = found("changes.device", "device ±", 2, Less, change);
    /// The same for the mean time from submission to reception.
    TotalChange = found("changes.total", "total ±", 2, Less, change);
    /// The same for the operations a second.
    ThroughputChange = found("changes.throughput", "ops/s ±", 2, More, change);
    /// Divisor of the ratio: a variant measured in the same run, or a bound by its name.
    Baseline = text("baseline", 2);
    /// Largest less smallest of the repeats, divided by their median.
    Spread = found("spread", "spread", 0, Less, percent);
    /// Reasons to doubt the row: names in tables, more in JSON.
    Doubts = Column { header: "doubt", form: Form::Made(caveat::cell), ..text("doubts", 0) };
    /// The least and the most of the repeats, by column.
    Ranges = json_only("ranges");
    /// Number of repeats; the row is their median.
    Repeats = set("repeats", 9, plain);
    /// Seed of everything random in the run.
    Seed = set("seed", 9, plain);
    /// The service's assumed cost of a sleep and its wake-up, ns of CPU time, and assumed duration of a wake-up.
    ParkCostNs = json_only("park_cost_ns");
    /// See [`Key::ParkCostNs`].
    WakeTimeNs = json_only("wake_time_ns");
    /// Time of offering requests in each repeat, s.
    OfferedS = json_only("offered_s");
    Pinned = text("pinned", 10);
    /// The command with program, date and machine, and the reasons to doubt the whole run.
    Run = json_only("run");
    Commit = text("commit", 10);
    Machine = text("machine", 10);
    /// Parameters of a simulated case that differ from its plan.
    Settings = json_only("settings");
    /// Other results by metric, each in its own unit. Simulated cases have all of theirs here.
    Metrics = json_only("metrics");
    /// Half of the 95 % interval around each metric, if there are several runs.
    Within = json_only("within");
    /// Number of runs whose mean a simulated row is.
    Seeds = json_only("seeds");
    /// The part that limited a simulated case, with its utilisation.
    Limit = json_only("limit");
}

/// `None` if the variant only repeats the name of its policy.
fn variant(row: &Row) -> Option<String> {
    let variant = row.text(Key::Variant)?;
    let said = [Key::Notify, Key::Balance].into_iter().any(|policy| row.text(policy) == Some(variant));
    (!said).then(|| clean(variant))
}

fn interval(row: &Row) -> Option<String> {
    Some(format!("{} to {}", ratio(row.number(Key::RatioLow)?), ratio(row.number(Key::RatioHigh)?)))
}

/// The promised ratio and whether it is kept. With an interval, the verdict depends on all of it.
fn reach(row: &Row) -> Option<String> {
    let (least, most) = (row.number(Key::AtLeast), row.number(Key::AtMost));
    let said: Vec<_> = [("≥", least), ("≤", most)]
        .into_iter()
        .filter_map(|(sign, bound)| Some(format!("{sign} {}", ratio(bound?))))
        .collect();
    let holds = |seen| least.is_none_or(|least| seen >= least) && most.is_none_or(|most| seen <= most);
    let is_outside =
        |low: f64, high: f64| least.is_some_and(|least| high < least) || most.is_some_and(|most| low > most);
    let interval = row.number(Key::RatioLow).zip(row.number(Key::RatioHigh));
    let verdict = match (interval, row.number(Key::Ratio)) {
        (Some((low, high)), _) if holds(low) && holds(high) => ", held",
        (Some((low, high)), _) if is_outside(low, high) => ", missed",
        (Some(_), _) => ", within the noise",
        (None, Some(seen)) if holds(seen) => ", held",
        (None, Some(_)) => ", missed",
        (None, None) => "",
    };
    (!said.is_empty()).then(|| said.join(" and ") + verdict)
}

fn share_bounds(row: &Row) -> Option<String> {
    let [low, high] = [Key::ShareLow, Key::ShareHigh].map(|key| row.number(key).map(percent));
    Some(format!("{} to {}", low?, high?))
}

fn moderation(row: &Row) -> Option<String> {
    let (count, us) = (row.number(Key::ModerateCount)?, row.number(Key::ModerateUs)?);
    Some(format!("{} or {}", plain(count), micros(us)))
}

fn changed(row: &Row, key: Key) -> Option<String> {
    let value = row.number(key)?;
    Some(if row.text(Key::EffectUnit) == Some("us") { format!("{value:+.1} us") } else { ratio(value) })
}

fn measured_bounds(row: &Row) -> Option<String> {
    Some(format!("{} to {}", changed(row, Key::MeasuredLow)?, changed(row, Key::MeasuredHigh)?))
}

fn seconds(seconds: f64) -> String {
    format!("{} s", digits(seconds))
}

fn change(percent: f64) -> String {
    format!("{percent:+.1} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reach_says_whether_it_is_held() {
        let row = |ratio: f64| Row::new("keys", "v").with(Key::Ratio, ratio).with(Key::AtLeast, 0.5);
        let words = |row: &Row| Key::Reach.column().cell(row);
        assert_eq!(words(&row(0.5)).as_deref(), Some("≥ 0.50 x, held"));
        assert_eq!(words(&row(0.49)).as_deref(), Some("≥ 0.50 x, missed"));
        assert_eq!(words(&row(0.9).with(Key::AtMost, 0.8)).as_deref(), Some("≥ 0.50 x and ≤ 0.80 x, missed"));
        assert_eq!(words(&Row::new("keys", "v")), None);
        let between =
            |low: f64, high: f64| row(1.0).with(Key::AtMost, 1.5).with(Key::RatioLow, low).with(Key::RatioHigh, high);
        assert_eq!(words(&between(0.5, 1.5)).as_deref(), Some("≥ 0.50 x and ≤ 1.50 x, held"));
        for (low, high) in [(0.4, 1.0), (1.0, 1.6), (0.4, 1.6)] {
            assert!(words(&between(low, high)).unwrap().ends_with(", within the noise"), "{low} {high}");
        }
        for (low, high) in [(0.3, 0.4), (1.6, 1.7)] {
            assert!(words(&between(low, high)).unwrap().ends_with(", missed"), "{low} {high}");
        }
    }
}
