//! Parameters of the system, and the settings in the units that a run uses.

use crate::settings::{Kind, Parameter, Settings};
use crate::system::Impossible;
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::Notify;
use sidecore_core::time::Nanos;
use std::sync::LazyLock;

static BALANCES: LazyLock<Vec<&'static str>> = LazyLock::new(|| Balance::ALL.into_iter().map(Balance::name).collect());

const SOFTWARE: &[&str] = &["ocf", "sidecore"];
const NOTIFY: &[&str] = &["park", "coalesce"];
const BUSES: &[&str] = &["pci", "pci-x"];

const fn count(name: &'static str, unit: &'static str, least: u64, most: u64) -> Parameter {
    Parameter { name, unit, kind: Kind::Count(least, most) }
}

const fn number(name: &'static str, unit: &'static str, least: f64, most: f64) -> Parameter {
    Parameter { name, unit, kind: Kind::Number(least, most) }
}

const fn us(name: &'static str) -> Parameter {
    number(name, "us", 0.0, 10_000.0)
}

const fn choice(name: &'static str, words: &'static [&'static str]) -> Parameter {
    Parameter { name, unit: "1", kind: Kind::Choice(words) }
}

/// Everything that can be set.
pub(super) static PARAMETERS: LazyLock<Vec<Parameter>> = LazyLock::new(|| {
    vec![
        count("client.threads", "1", 1, 256),
        count("client.size", "B", 8, 65_536),
        count("client.in_flight", "1", 1, 64),
        us("client.user_us"),
        count("client.copies", "1", 0, 2),
        count("client.arena_kib", "KiB", 1, 65_536),
        choice("service.software", SOFTWARE),
        choice("service.balance", &BALANCES),
        choice("service.notify", NOTIFY),
        count("service.coalesce_count", "1", 1, u64::from(Notify::MAX_COUNT)),
        number("service.coalesce_us", "us", 1.0, 1e6),
        count("service.record", "1", 1, 64),
        us("service.lane_us"),
        us("service.request_us"),
        number("host.variation", "1", 0.0, 1.0),
        us("host.submit_us"),
        us("host.dispatch_us"),
        us("host.driver_us"),
        us("host.reap_us"),
        us("host.return_us"),
        us("host.switch_us"),
        us("host.interrupt_us"),
        us("host.wake_us"),
        us("host.sleep_us"),
        number("host.copy_ns_per_byte", "ns/B", 0.0, 1_000.0),
        us("host.map_us"),
        count("host.map_above_bytes", "B", 0, 1 << 20),
        number("memory.write_mbit_per_s", "Mbit/s", 1.0, 1e7),
        choice("bus.kind", BUSES),
        count("bus.width_bits", "bit", 1, 128),
        count("bus.clock_mhz", "MHz", 1, 1_000),
        number("bus.efficiency", "1", 0.01, 1.0),
        count("card.count", "1", 1, 8),
        number("card.rated_mbit_per_s", "Mbit/s", 1.0, 1e6),
        count("card.width_bits", "bit", 1, 128),
        count("card.clock_mhz", "MHz", 1, 1_000),
        count("card.depth", "1", 1, 4096),
        count("card.record", "1", 1, 64),
        count("card.longest_bytes", "B", 8, 1 << 20),
        us("card.fixed_us"),
        number("card.per_byte_ns", "ns/B", 0.01, 10_000.0),
        count("card.buffer_bytes", "B", 0, 65_536),
        count("card.command_bytes", "B", 0, 65_536),
        us("card.register_us"),
    ]
});

/// The settings of a run: times in ns, capacities in bytes per ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) clients: u32,
    pub(super) size: u32,
    pub(super) in_flight: u32,
    /// A client's own time for a request, with its copies into and out of the arena.
    pub(super) user: f64,
    /// Bytes that these copies write for each request.
    pub(super) user_writes: f64,
    pub(super) balance: Balance,
    pub(super) notify: Notify,
    pub(super) record: usize,
    pub(super) lane: f64,
    pub(super) request: f64,
    pub(super) variation: f64,
    pub(super) submit: f64,
    pub(super) dispatch: f64,
    pub(super) driver: f64,
    pub(super) reap: f64,
    pub(super) reply: f64,
    pub(super) switch: Nanos,
    pub(super) interrupt: f64,
    pub(super) wake: f64,
    pub(super) sleep: f64,
    /// Of one copy, for a byte.
    pub(super) copy: f64,
    /// Of mapping the buffer, where it is mapped for each request.
    pub(super) map: f64,
    pub(super) memory: f64,
    pub(super) bus: f64,
    pub(super) cards: u32,
    pub(super) rated: f64,
    pub(super) depth: u32,
    pub(super) card_fixed: f64,
    pub(super) card_per_byte: f64,
    pub(super) card_buffer: f64,
    pub(super) card_command: f64,
    pub(super) register: f64,
}

impl Config {
    pub(super) fn of(settings: &Settings) -> Self {
        let time = |name| settings.exact_nanos(name);
        let count = |name| settings.count(name) as u32;
        let number = |name| settings.number(name);
        let mapped = settings.count("client.size") > settings.count("host.map_above_bytes");
        let copied = number("client.copies") * number("client.size");
        Self {
            clients: count("client.threads"),
            size: count("client.size"),
            in_flight: count("client.in_flight"),
            user: time("client.user_us") + copied * number("host.copy_ns_per_byte"),
            user_writes: copied,
            balance: balance(settings),
            notify: notify(settings),
            record: settings.count("service.record") as usize,
            lane: time("service.lane_us"),
            request: time("service.request_us"),
            variation: number("host.variation"),
            submit: time("host.submit_us"),
            dispatch: time("host.dispatch_us"),
            driver: time("host.driver_us"),
            reap: time("host.reap_us"),
            reply: time("host.return_us"),
            switch: settings.nanos("host.switch_us"),
            interrupt: time("host.interrupt_us"),
            wake: time("host.wake_us"),
            sleep: time("host.sleep_us"),
            copy: number("host.copy_ns_per_byte"),
            map: if mapped { time("host.map_us") } else { 0.0 },
            memory: number("memory.write_mbit_per_s") / 8e3,
            bus: bus(settings),
            cards: count("card.count"),
            rated: number("card.rated_mbit_per_s"),
            depth: count("card.depth"),
            card_fixed: time("card.fixed_us"),
            card_per_byte: number("card.per_byte_ns"),
            card_buffer: number("card.buffer_bytes"),
            card_command: number("card.command_bytes"),
            register: time("card.register_us"),
        }
    }
}

/// Bytes per ns of the bus that the cards share: as wide and as fast as slot and card both are.
fn bus(settings: &Settings) -> f64 {
    let both = |name: &str| settings.number(&format!("bus.{name}")).min(settings.number(&format!("card.{name}")));
    both("width_bits") / 8.0 * both("clock_mhz") / 1e3 * settings.number("bus.efficiency")
}

fn balance(settings: &Settings) -> Balance {
    let name = settings.word("service.balance");
    Balance::parse(name).unwrap_or_else(|error| panic!("the names of all rules are accepted: {name}: {error}"))
}

fn notify(settings: &Settings) -> Notify {
    match settings.word("service.notify") {
        "coalesce" => Notify::Coalesce {
            count: settings.count("service.coalesce_count") as u32,
            delay: settings.nanos("service.coalesce_us"),
        },
        _ => Notify::Park,
    }
}

/// Whether the machine can be built and its software can run so.
pub(super) fn check(settings: &Settings) -> Result<(), Impossible> {
    check_bus(settings)?;
    check_request(settings)?;
    check_software(settings)
}

fn refuse<T>(parameter: &'static str, message: String) -> Result<T, Impossible> {
    Err(Impossible { parameter, message })
}

fn check_bus(settings: &Settings) -> Result<(), Impossible> {
    for parameter in ["bus.width_bits", "card.width_bits"] {
        let width = settings.count(parameter);
        if ![32, 64].contains(&width) {
            return refuse(parameter, format!("PCI has no width of {width} bit: write 32 or 64"));
        }
    }
    let (kind, clock) = (settings.word("bus.kind"), settings.count("bus.clock_mhz"));
    let clocks: &[u64] = if kind == "pci" { &[33, 66] } else { &[66, 100, 133] };
    if !clocks.contains(&clock) {
        return refuse("bus.clock_mhz", format!("{kind} has no clock of {clock} MHz: write one of {clocks:?}"));
    }
    let clock = settings.count("card.clock_mhz");
    match clock {
        33 | 66 | 100 | 133 => Ok(()),
        _ => refuse("card.clock_mhz", format!("no PCI card has {clock} MHz: write 33, 66, 100 or 133")),
    }
}

fn check_request(settings: &Settings) -> Result<(), Impossible> {
    let (size, longest) = (settings.count("client.size"), settings.count("card.longest_bytes"));
    if size % 8 != 0 {
        return refuse("client.size", format!("3DES has blocks of 8 bytes, and {size} is no multiple of 8"));
    }
    if size > longest {
        return refuse("client.size", format!("the card takes at most {longest} bytes at a time, not {size}"));
    }
    let (record, most) = (settings.count("service.record"), settings.count("card.record"));
    if record > most {
        return refuse("service.record", format!("the card takes at most {most} requests in a record, not {record}"));
    }
    Ok(())
}

fn check_software(settings: &Settings) -> Result<(), Impossible> {
    let in_flight = settings.count("client.in_flight");
    if settings.word("service.software") == "ocf" {
        return match in_flight {
            1 => Ok(()),
            _ => refuse("client.in_flight", "a thread is blocked in its `ioctl`, so it has 1 request in flight".into()),
        };
    }
    let (size, arena) = (settings.count("client.size"), settings.count("client.arena_kib") * 1024);
    if in_flight * size > arena {
        let message = format!("{in_flight} requests of {size} bytes do not fit into an arena of {arena}");
        return refuse("client.arena_kib", message);
    }
    let count = settings.count("service.coalesce_count");
    if settings.word("service.notify") == "coalesce" && count > in_flight {
        let message = format!("a client with {in_flight} in flight never has {count} completions: write at most that");
        return refuse("service.coalesce_count", message);
    }
    Ok(())
}
