//! The numbers of one run.

use super::attachment::Attachment;
use crate::settings::Settings;
use crate::system::Impossible;
use sidecore_core::policy::notify::Notify;
use sidecore_core::time::Nanos;

/// Heads of IP and TCP without options, bytes.
const IP_TCP: u64 = 40;
/// Head and check sequence of an Ethernet frame, and with them preamble and gap, bytes.
const ETHERNET: u64 = 18;
const PREAMBLE_AND_GAP: u64 = 20;
/// Shortest Ethernet frame, bytes.
const SHORTEST_FRAME: u64 = 64;
/// A line of the cache, and an entry of the completion ring, bytes.
const LINE: f64 = 64.0;
const COMPLETION: u64 = 8;

/// Segments that all windows together may have in flight: each is a pending event.
const MOST_IN_FLIGHT: u64 = 1 << 17;

/// What the clients send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    /// As much as their windows allow.
    Stream,
    /// One client sends one message and waits for the answer.
    PingPong,
}

/// Times in ns.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) traffic: Traffic,
    pub(super) attachment: Attachment,
    pub(super) queues: usize,
    pub(super) ring: u32,
    pub(super) policy: Notify,
    pub(super) connections: usize,
    pub(super) io: u64,
    pub(super) window: u64,
    pub(super) turnaround: f64,
    /// Payload of a full frame, bytes.
    pub(super) segment: u64,
    pub(super) processors: u32,
    pub(super) kick: u32,
    /// Entry of an interrupt and the registers that are read then.
    pub(super) interrupt: f64,
    pub(super) wake: Nanos,
    /// Registers that are written after a batch.
    pub(super) rearm: f64,
    /// Entry of an interrupt by a timer, that reads no register.
    pub(super) timer: f64,
    driver_packet: f64,
    stack_packet: f64,
    send: f64,
    call: f64,
    free: f64,
    copy_byte: f64,
    wire_byte: f64,
    client_segment: f64,
    client_call: f64,
}

impl Setup {
    pub(super) fn new(settings: &Settings, traffic: Traffic) -> Self {
        let attachment = Attachment::new(settings);
        let lines = |name: &str| settings.number(name) * attachment.line;
        let ping = traffic == Traffic::PingPong;
        let reads = settings.number("driver.reads");
        Self {
            traffic,
            attachment,
            queues: settings.count("nic.queues") as usize,
            ring: settings.count("nic.ring") as u32,
            policy: policy(settings).expect("the settings were checked"),
            connections: if ping { 1 } else { settings.count("client.connections") as usize },
            io: settings.count(if ping { "client.ping_bytes" } else { "client.io_bytes" }),
            window: settings.count("client.window_bytes"),
            turnaround: settings.exact_nanos("client.turnaround_us"),
            segment: segment(settings),
            processors: (processors(settings) - settings.count("nic.queues")) as u32,
            kick: settings.count("driver.kick") as u32,
            interrupt: settings.exact_nanos("driver.interrupt_ns") + reads * attachment.read,
            wake: settings.nanos("reader.wake_ns"),
            rearm: settings.number("driver.writes") * attachment.write,
            timer: settings.exact_nanos("driver.interrupt_ns"),
            driver_packet: settings.number("driver.packet_ns") + lines("driver.lines") + attachment.sync,
            stack_packet: settings.number("stack.packet_ns") + lines("stack.lines"),
            send: settings.number("stack.send_ns") + attachment.write,
            call: settings.number("reader.call_ns"),
            free: settings.number("reader.packet_ns"),
            copy_byte: settings.number("reader.byte_ns") + attachment.line / LINE,
            wire_byte: 8.0 / settings.number("link.gbit_per_s"),
            client_call: settings.exact_nanos("client.call_ns"),
            client_segment: settings.exact_nanos("client.segment_ns"),
        }
    }
    /// Time that a frame with so much payload holds the link.
    pub(super) fn wire_time(&self, payload: u64) -> f64 {
        ((payload + IP_TCP + ETHERNET).max(SHORTEST_FRAME) + PREAMBLE_AND_GAP) as f64 * self.wire_byte
    }

    /// Time of the calls by which a client writes a full segment.
    pub(super) fn write_time(&self) -> f64 {
        self.segment as f64 / self.io as f64 * self.client_call
    }

    /// Time from the start of a segment to that of the next one, as the sender and the link allow.
    pub(super) fn send_gap(&self, payload: u64) -> f64 {
        self.wire_time(payload).max(self.client_segment)
    }

    /// Time that a message of `io` bytes holds bus and link, one after the other.
    pub(super) fn message_time(&self) -> f64 {
        let (full, rest) = ((self.io - 1) / self.segment, (self.io - 1) % self.segment + 1);
        let time = |payload| self.wire_time(payload) + self.bus_time(payload);
        full as f64 * time(self.segment) + time(rest)
    }

    /// Time that a frame with so much payload and its completion hold the bus.
    pub(super) fn bus_time(&self, payload: u64) -> f64 {
        self.attachment.bus_time(payload + IP_TCP + ETHERNET) + self.attachment.bus_time(COMPLETION)
    }

    /// Driver's time for a batch of so many packets, with so many doorbells for fresh buffers.
    pub(super) fn driver_time(&self, packets: u64, doorbells: u64) -> f64 {
        packets as f64 * self.driver_packet + doorbells as f64 * self.attachment.write
    }

    /// Stack's time for a packet.
    pub(super) fn stack_time(&self) -> f64 {
        self.stack_packet
    }

    /// Time to copy so many bytes out, and of that what does not depend on the size of the calls.
    pub(super) fn copy_time(&self, bytes: u64, segments: u64) -> f64 {
        bytes as f64 * self.copy_byte + segments as f64 * self.free
    }

    /// Time of the calls that copy so many bytes.
    pub(super) fn call_time(&self, bytes: u64) -> f64 {
        bytes.div_ceil(self.io) as f64 * self.call
    }

    /// Processor's time to send a message of `io` bytes.
    pub(super) fn send_time(&self) -> f64 {
        self.io.div_ceil(self.segment) as f64 * self.send
    }

    /// From the doorbell of a message until the link has its first frame: the interface reads the descriptor and then
    /// the payload, each there and back.
    pub(super) fn fetch_time(&self) -> Nanos {
        5 * self.attachment.latency
    }
}

/// Payload of a full frame.
fn segment(settings: &Settings) -> u64 {
    settings.count("link.mtu_bytes") - IP_TCP
}

fn processors(settings: &Settings) -> u64 {
    settings.count("cpu.cores") * settings.count("cpu.threads")
}

/// The policy of the hop from the interface to the driver.
fn policy(settings: &Settings) -> Result<Notify, String> {
    let period = settings.nanos("nic.moderation_us");
    let text = match settings.word("driver.wait") {
        "moderated" => format!("coalesce({},{period}ns)", settings.count("nic.moderation_count")),
        "timer" => format!("timer({period}ns)"),
        word => word.to_owned(),
    };
    Notify::parse(&text).map_err(|error| error.to_string())
}

pub(super) fn check(settings: &Settings) -> Result<(), Impossible> {
    let wrong = |parameter, message| Err(Impossible { parameter, message });
    let (queues, threads) = (settings.count("nic.queues"), processors(settings));
    if queues >= threads {
        return wrong(
            "nic.queues",
            format!("each has a hardware thread of its own, and of {threads} one is for readers"),
        );
    }
    let (ring, kick) = (settings.count("nic.ring"), settings.count("driver.kick"));
    if ring < 2 * kick {
        return wrong("nic.ring", format!("{ring} buffers run out before {kick} are refilled: at least {}", 2 * kick));
    }
    if settings.count("nic.moderation_count") > ring {
        return wrong("nic.moderation_count", format!("the ring holds {ring} packets: that count is never reached"));
    }
    if settings.count("client.window_bytes") < segment(settings) {
        return wrong("client.window_bytes", format!("no segment fits: at least {}", segment(settings)));
    }
    let flying = settings.count("client.window_bytes") / segment(settings) * settings.count("client.connections");
    if flying > MOST_IN_FLIGHT {
        return wrong(
            "client.window_bytes",
            format!("{flying} segments in flight: at most {MOST_IN_FLIGHT} are simulated"),
        );
    }
    policy(settings).map(|_| ()).or_else(|message| wrong("driver.wait", message))
}
