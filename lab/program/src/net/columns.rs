//! Columns of network paths.

use sidecore_report::Better::{Depends, Less, More, Neither};
use sidecore_report::format::{count, digits, micros, percent, plain, rate, ratio};
use sidecore_report::{Column, Row, column, columns};

columns! {
    pub(crate) OF_LINK after column::SIZE;

    /// Cost of an access to a register of the link, us.
    REGISTER_US = Column::set("link.register_us", 3, micros).headed("register");
}

columns! {
    pub(crate) OF_MODERATION after column::MTU;

    /// Number of frames that makes the link interrupt.
    MODERATE_COUNT = Column::json_only("link.moderate_count").shows(&MODERATION);
    /// Longest wait of a frame for that, us.
    MODERATE_US = Column::json_only("link.moderate_us");
    /// Moderation of the link's interrupts: made of these two.
    MODERATION = Column::text("", 3).headed("moderation").made(Neither, moderation);
    /// Frames that the link handed over with an interrupt.
    FRAMES_PER_INTERRUPT = Column::found("link.frames_per_interrupt", "frames/interrupt", 3, Depends, digits);
    /// Bytes of a frame on the link, with its addresses.
    BYTES_PER_FRAME = Column::found("link.bytes_per_frame", "bytes/frame", 4, Depends, digits);
}

columns! {
    pub(crate) OF_RATE after column::MBIT_PER_S;

    /// Packets a second at the local end, both ways.
    PACKETS_PER_S = Column::found("packets_per_s", "packets/s", 5, Depends, rate);
    /// CPU time of the whole machine for each packet, us.
    CPU_PER_PACKET = Column::found("cpu_us_per_packet", "CPU/packet", 1, Less, micros);
    /// CPU time for each byte of payload, ns: of the whole machine, or of both ends and the link between them.
    CPU_PER_BYTE = Column::found("cpu_ns_per_byte", "CPU/byte", 1, Less, nanos);
    /// CPU time of the path for each packet, by component, us: the device's driver.
    DRIVER_PER_PACKET = Column::found("packet_us.driver", "driver", 2, Less, micros);
    /// The same: the protocols.
    PROTOCOL_PER_PACKET = Column::found("packet_us.protocol", "protocol", 2, Less, micros);
    /// The same: sockets.
    SOCKET_PER_PACKET = Column::found("packet_us.socket", "socket", 2, Less, micros);
    /// The same: memory of packets.
    BUFFERS_PER_PACKET = Column::found("packet_us.buffers", "buffers", 2, Less, micros);
    /// The same: payload that is copied.
    COPY_PER_PACKET = Column::found("packet_us.copy", "copy", 2, Less, micros);
    /// The same: wake-ups and scheduling.
    SCHEDULER_PER_PACKET = Column::found("packet_us.scheduler", "scheduler", 2, Less, micros);
    /// The same: into the kernel and back.
    ENTRY_PER_PACKET = Column::found("packet_us.entry", "entry", 2, Less, micros);
    PROGRAM_PER_PACKET = Column::found("packet_us.program", "program", 2, Less, micros);
    /// The same: other work of the kernel.
    OTHER_PER_PACKET = Column::found("packet_us.other", "other", 3, Less, micros);
    /// The same: time without a rule.
    UNPLACED_PER_PACKET = Column::json_only("packet_us.unplaced");
    /// Bounds of each of these with 95 % probability with respect to sampling: `low` and `high` by component.
    PER_PACKET_BOUNDS = Column::json_only("packet_us_bounds");
    /// Share of that CPU time without a rule.
    UNPLACED = Column::found("unplaced", "unplaced", 6, Less, percent);
    /// CPU time by samples, divided by the CPU time that the kernel accounts.
    SAMPLED = Column::found("sampled", "sampled", 6, Depends, ratio);
    /// Use of processors: programs. 100 % is one processor.
    USER = Column::found("cpu.user", "user", 2, Depends, percent);
    SYSTEM = Column::found("cpu.system", "system", 2, Depends, percent);
    /// The same: interrupts, and their deferred work.
    SOFTIRQ = Column::found("cpu.softirq", "softirq", 2, Depends, percent);
    /// The same: idle.
    IDLE = Column::found("cpu.idle", "idle", 2, More, percent);
    SWITCHES_PER_S = Column::found("context_switches_per_s", "switches/s", 4, Less, rate);
    INTERRUPTS_PER_S = Column::found("interrupts_per_s", "interrupts/s", 6, Less, rate);
    /// Interrupts a second that wake a thread on another processor.
    RESCHEDULES_PER_S = Column::found("reschedules_per_s", "resched/s", 7, Less, rate);
    /// Softirqs of the network a second.
    SOFTIRQS_PER_S = Column::found("softirqs_per_s", "softirqs/s", 7, Less, rate);
    /// Packets a second that interfaces dropped, at both ends.
    DROPPED_PER_S = Column::found("dropped_per_s", "dropped/s", 6, Less, rate);
    /// Datagrams a second dropped because the receiver's buffer was full, at both ends.
    OVERFLOWED_PER_S = Column::found("overflowed_per_s", "no room/s", 6, Less, rate);
    /// Segments a second that TCP sent again, at both ends.
    RETRANSMITTED_PER_S = Column::found("retransmitted_per_s", "again/s", 6, Less, rate);
    /// Instructions for each packet, of the whole machine.
    INSTRUCTIONS_PER_PACKET = Column::found("instructions_per_packet", "instr/packet", 7, Less, digits);
    /// Misses of the first data cache for each packet, of the whole machine.
    FIRST_MISSES_PER_PACKET = Column::found("first_cache_misses_per_packet", "L1 misses/packet", 7, Less, digits);
    /// Misses of the last cache for each packet, of the whole machine.
    MISSES_PER_PACKET = Column::found("cache_misses_per_packet", "misses/packet", 7, Less, digits);
    /// Time of each processor by use, seconds.
    PROCESSORS = Column::json_only("processors");
    /// Component of a network path, or a kind of time outside of it.
    COMPONENT = Column::text("component", 0);
    /// Share of the CPU time of the measured work.
    CPU_SHARE = Column::found("cpu_share.seen", "share", 0, Depends, percent);
    /// Its lower bound with 95 % probability with respect to sampling.
    SHARE_LOW = Column::json_only("cpu_share.low").shows(&SHARE_BOUNDS);
    /// Its upper bound, likewise.
    SHARE_HIGH = Column::json_only("cpu_share.high");
    /// The bounds of that share: made of these two.
    SHARE_BOUNDS = Column::text("", 0).headed("95 % within").made(Depends, share_bounds);
    /// CPU time summed over all CPUs, s.
    CPU_SECONDS = Column::found("cpu_s", "CPU time", 4, Less, seconds);
    /// The same for each packet, us.
    US_PER_PACKET = Column::found("us_per_packet", "per packet", 0, Less, micros);
    /// Part of the time that a cause limits a load, or an estimate of it.
    LIMITS = Column::found("limits", "limits", 1, Depends, percent);
    /// Parts of the time that the busiest thread of an end ran or waited for a processor.
    SENDER_THREAD = Column::found("thread.sender", "sender", 1, Depends, percent);
    RECEIVER_THREAD = Column::found("thread.receiver", "receiver", 1, Depends, percent);
    /// Parts of the time that TCP had bytes to send, was stopped by the receiver's window, and by the sender's buffer.
    TCP_BUSY = Column::found("tcp.busy", "busy", 2, Depends, percent);
    TCP_RWND = Column::found("tcp.rwnd_limited", "rwnd", 2, Less, percent);
    TCP_SNDBUF = Column::found("tcp.sndbuf_limited", "sndbuf", 2, Less, percent);
    /// Part of the bytes that were sent again.
    TCP_AGAIN = Column::found("tcp.resent", "again", 2, Less, percent);
    /// Reasons for a cause.
    EVIDENCE = Column::json_only("evidence");
    /// The setting or the change that helps.
    CURE = Column::json_only("cure");
    SAMPLES = Column::found("samples", "samples", 6, Depends, |samples| count(samples as u64));
    PACKETS = Column::found("packets", "packets", 5, Depends, |packets| count(packets as u64));
}

columns! {
    pub(crate) OF_TRANSPORTS after column::RING_SHARE;

    /// Payload by TCP, by UDP sent and by UDP received, and CPU time for each byte of it.
    TCP_MBIT_PER_S = Column::found("tcp_mbit_per_s", "TCP", 1, More, mbit_per_s);
    UDP_SENT_MBIT_PER_S = Column::found("udp_sent_mbit_per_s", "UDP sent", 1, Depends, mbit_per_s);
    UDP_RECEIVED_MBIT_PER_S = Column::found("udp_received_mbit_per_s", "UDP received", 1, More, mbit_per_s);
    TCP_CPU_PER_BYTE = Column::found("tcp_cpu_ns_per_byte", "TCP CPU/byte", 2, Less, nanos);
    UDP_CPU_PER_BYTE = Column::found("udp_cpu_ns_per_byte", "UDP CPU/byte", 2, Less, nanos);
}

/// The column of that metric in the rows of links.
pub(super) fn of_link(metric: &str) -> Option<&'static Column> {
    let all = [TCP_MBIT_PER_S, UDP_SENT_MBIT_PER_S, UDP_RECEIVED_MBIT_PER_S, TCP_CPU_PER_BYTE, UDP_CPU_PER_BYTE];
    all.into_iter().find(|column| column.name == metric)
}

columns! {
    pub(crate) OF_EFFECT after column::RING_SHARE;

    /// Published value of an effect, in its unit.
    PUBLISHED = effect("effect.published", "published", |row| changed(row, PUBLISHED));
    /// Source of that value: a file of `docs/published`, or words of the paper.
    PUBLISHED_IN = Column::json_only("effect.source");
    /// Its simulated value.
    SIMULATED = effect("effect.simulated", "simulated", |row| changed(row, SIMULATED));
    /// Its measured value.
    MEASURED = effect("effect.measured", "measured", |row| changed(row, MEASURED));
    /// The bounds of the measured value: made of the next two.
    MEASURED_BOUNDS = Column::text("", 2).headed("95 % within").made(Depends, measured_bounds);
    /// Lower bound of the measured value with 95 % probability.
    MEASURED_LOW = Column::json_only("effect.low").shows(&MEASURED_BOUNDS);
    /// Upper bound of the measured value with 95 % probability.
    MEASURED_HIGH = Column::json_only("effect.high");
    /// `x` for a ratio, `us` for a difference.
    EFFECT_UNIT = Column::json_only("effect.unit");
    /// Whether its direction is the published one.
    AGREES = Column::text("agrees", 0);
}

const fn effect(name: &'static str, header: &'static str, to_text: fn(&Row) -> Option<String>) -> Column {
    Column::text(name, 0).headed(header).made(Depends, to_text)
}

fn share_bounds(row: &Row) -> Option<String> {
    let [low, high] = [SHARE_LOW, SHARE_HIGH].map(|key| row.number(key).map(percent));
    Some(format!("{} to {}", low?, high?))
}

fn moderation(row: &Row) -> Option<String> {
    let (count, us) = (row.number(MODERATE_COUNT)?, row.number(MODERATE_US)?);
    Some(format!("{} or {}", plain(count), micros(us)))
}

fn changed(row: &Row, key: &'static Column) -> Option<String> {
    let value = row.number(key)?;
    Some(if row.text(EFFECT_UNIT) == Some("us") { format!("{value:+.1} us") } else { ratio(value) })
}

fn measured_bounds(row: &Row) -> Option<String> {
    Some(format!("{} to {}", changed(row, MEASURED_LOW)?, changed(row, MEASURED_HIGH)?))
}

fn nanos(ns: f64) -> String {
    format!("{} ns", digits(ns))
}

fn mbit_per_s(mbit: f64) -> String {
    format!("{} Mbit/s", digits(mbit))
}

fn seconds(seconds: f64) -> String {
    format!("{} s", digits(seconds))
}

#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = &'static Column> {
    [OF_LINK, OF_MODERATION, OF_RATE, OF_TRANSPORTS, OF_EFFECT].into_iter().flatten().copied()
}
