//! Settings of a path: their names, their places, and the values worth trying.

use super::ethtool::Numbers;
use crate::net::error::SettingError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Location {
    Mtu,
    /// A feature of the interface: kernel features, each with a value of its own. A tried value is of all of them.
    Feature(&'static [&'static str]),
    /// A number of the driver: its family, its attribute and the attribute's size in bytes.
    Driver(Numbers, (u16, usize)),
    /// A file of each queue of the interface, under `/sys/class/net/NAME/queues`: the prefix of the queues' names, the
    /// file.
    Queues(&'static str, &'static str),
    /// Sizes of the tables of flows: the machine's, then each receive queue's.
    Flows,
    /// Processors of the interface's interrupts, one value for each or for all.
    Interrupts,
    /// Below `/sys/class/net/NAME`.
    Interface(&'static str),
    /// Below `/proc/sys/net`.
    Sysctl(&'static str),
}

#[derive(Debug, PartialEq)]
pub(crate) struct Setting {
    pub(super) name: &'static str,
    pub(super) location: Location,
    /// In the form of the location; `ALL`, `REST`, `TURN` and `EACH` are replaced.
    tries: &'static [&'static str],
}

const ALL: &str = "all";
/// Stands for a mask of all except the first, which has most of the single-threaded work.
const REST: &str = "rest";
/// Stands for masks of one processor each, in turn.
const TURN: &str = "turn";
const EACH: &str = "each";

const fn setting(name: &'static str, location: Location, tries: &'static [&'static str]) -> Setting {
    Setting { name, location, tries }
}

/// Without `tx-tcp-mangleid-segmentation`, which the kernel leaves off because it changes the identifiers of packets.
const TSO: &[&str] = &["tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation"];
const TX_CHECKSUM: &[&str] = &["tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"];
pub(super) const ON: &str = "on";
pub(super) const OFF: &str = "off";
/// Of a feature that is wanted but not active, as long as another one is off.
pub(super) const REQUESTED: &str = "requested";
/// Of a feature that is active but not wanted.
pub(super) const FORCED: &str = "forced";
const ON_OFF: &[&str] = &[ON, OFF];
/// Attributes of the families `COALESCE`, `RINGS` and `CHANNELS` in the kernel's `linux/ethtool_netlink.h`.
const RX_USECS: (u16, usize) = (2, 4);
const RX_FRAMES: (u16, usize) = (3, 4);
const TX_USECS: (u16, usize) = (6, 4);
const TX_FRAMES: (u16, usize) = (7, 4);
const ADAPTIVE_RX: (u16, usize) = (11, 1);
const ADAPTIVE_TX: (u16, usize) = (12, 1);
const RX_RING: (u16, usize) = (6, 4);
const TX_RING: (u16, usize) = (9, 4);
const RX_CHANNELS: (u16, usize) = (6, 4);
const TX_CHANNELS: (u16, usize) = (7, 4);
const CHANNELS: (u16, usize) = (9, 4);

pub(super) const CONGESTION: &str = "ipv4/tcp_congestion_control";

/// All settings. Those that replace queues come before settings of each queue.
pub(super) const KNOWN: [Setting; 29] = [
    setting("mtu", Location::Mtu, &["1500", "9000"]),
    setting("channels", Location::Driver(Numbers::Channels, CHANNELS), &["1", EACH]),
    setting("rx-channels", Location::Driver(Numbers::Channels, RX_CHANNELS), &["1", EACH]),
    setting("tx-channels", Location::Driver(Numbers::Channels, TX_CHANNELS), &["1", EACH]),
    setting("tso", Location::Feature(TSO), ON_OFF),
    setting("gso", Location::Feature(&["tx-generic-segmentation"]), ON_OFF),
    setting("gro", Location::Feature(&["rx-gro"]), ON_OFF),
    setting("lro", Location::Feature(&["rx-lro"]), ON_OFF),
    setting("tx-checksum", Location::Feature(TX_CHECKSUM), ON_OFF),
    setting("rx-checksum", Location::Feature(&["rx-checksum"]), ON_OFF),
    setting("coalesce-rx-usecs", Location::Driver(Numbers::Coalesce, RX_USECS), &["0", "8", "50", "200"]),
    setting("coalesce-rx-frames", Location::Driver(Numbers::Coalesce, RX_FRAMES), &["0", "1", "32", "64"]),
    setting("coalesce-tx-usecs", Location::Driver(Numbers::Coalesce, TX_USECS), &["0", "50", "200"]),
    setting("coalesce-tx-frames", Location::Driver(Numbers::Coalesce, TX_FRAMES), &["1", "64"]),
    setting("coalesce-adaptive-rx", Location::Driver(Numbers::Coalesce, ADAPTIVE_RX), &["0", "1"]),
    setting("coalesce-adaptive-tx", Location::Driver(Numbers::Coalesce, ADAPTIVE_TX), &["0", "1"]),
    setting("rx-ring", Location::Driver(Numbers::Rings, RX_RING), &["512", "4096"]),
    setting("tx-ring", Location::Driver(Numbers::Rings, TX_RING), &["512", "4096"]),
    setting("rps", Location::Queues("rx-", "rps_cpus"), &["0", ALL, REST]),
    setting("xps", Location::Queues("tx-", "xps_cpus"), &["0", ALL]),
    setting("rfs", Location::Flows, &["0 0", "32768 4096"]),
    setting("interrupts", Location::Interrupts, &[ALL, REST, TURN]),
    setting("threaded-napi", Location::Interface("threaded"), &["0", "1"]),
    setting("napi-defer-hard-irqs", Location::Interface("napi_defer_hard_irqs"), &["0", "2"]),
    setting("gro-flush-timeout", Location::Interface("gro_flush_timeout"), &["0", "20000"]),
    setting("rmem", Location::Sysctl("ipv4/tcp_rmem"), &["4096 131072 6291456", "4096 131072 33554432"]),
    setting("wmem", Location::Sysctl("ipv4/tcp_wmem"), &["4096 16384 4194304", "4096 16384 33554432"]),
    setting("congestion-control", Location::Sysctl(CONGESTION), &["cubic", "reno", "bbr"]),
    setting("busy-poll", Location::Sysctl("core/busy_read"), &["0", "50"]),
];

/// Pairs that may help only together.
pub(super) const PARTNERS: [[&str; 2]; 10] = [
    ["tx-checksum", "tso"],
    ["tso", "gso"],
    ["mtu", "gro"],
    ["gro", "gro-flush-timeout"],
    ["gro", "threaded-napi"],
    ["gro-flush-timeout", "napi-defer-hard-irqs"],
    ["rmem", "wmem"],
    ["channels", "rps"],
    ["rps", "rfs"],
    ["coalesce-rx-usecs", "coalesce-rx-frames"],
];

pub(crate) fn by_name(name: &str) -> Result<&'static Setting, SettingError> {
    let known = || KNOWN.iter().map(|setting| setting.name).collect::<Vec<_>>().join(", ");
    KNOWN
        .iter()
        .find(|setting| setting.name == name)
        .ok_or_else(|| SettingError::Unknown { name: name.to_owned(), known: known() })
}

impl Setting {
    pub(super) fn others(&self, now: &str, processors: usize) -> Vec<String> {
        let mut others: Vec<String> = Vec::new();
        for value in self.tries.iter().map(|value| meant(value, processors)) {
            if value != now && !others.contains(&value) {
                others.push(value);
            }
        }
        others
    }

    pub(super) fn makes_queues(&self) -> bool {
        matches!(self.location, Location::Driver(Numbers::Channels, _))
    }

    /// Drivers make queues anew for it, some of them with their first settings.
    pub(super) fn resets_queues(&self) -> bool {
        matches!(self.location, Location::Driver(Numbers::Channels | Numbers::Rings, _))
    }

    pub(super) fn is_reset_with_queues(&self) -> bool {
        self.is_of_queues() || matches!(self.location, Location::Driver(Numbers::Coalesce, _))
    }

    pub(super) fn is_of_queues(&self) -> bool {
        matches!(self.location, Location::Queues(..) | Location::Flows | Location::Interrupts)
    }

    /// With other interfaces of the namespace or the machine.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.location, Location::Sysctl(_) | Location::Flows)
    }

    /// All network namespaces of the machine share it.
    pub(super) fn is_of_machine(&self) -> bool {
        match self.location {
            Location::Flows | Location::Interrupts => true,
            Location::Sysctl(file) => file.starts_with("core/"),
            _ => false,
        }
    }

    pub(in crate::net) fn lines(&self, interface: &str, value: &str) -> (Kind, String) {
        let on = value == "on" || value == "1";
        match (self.location, self.name) {
            (Location::Mtu, _) => (Kind::Link, format!("MTUBytes={value}")),
            (Location::Feature(_), "tso") => (Kind::Link, format!("TCPSegmentationOffload={}", yes(on))),
            (Location::Feature(_), "gso") => (Kind::Link, format!("GenericSegmentationOffload={}", yes(on))),
            (Location::Feature(_), "gro") => (Kind::Link, format!("GenericReceiveOffload={}", yes(on))),
            (Location::Feature(_), "lro") => (Kind::Link, format!("LargeReceiveOffload={}", yes(on))),
            (Location::Feature(_), "tx-checksum") => (Kind::Link, format!("TransmitChecksumOffload={}", yes(on))),
            (Location::Feature(_), "rx-checksum") => (Kind::Link, format!("ReceiveChecksumOffload={}", yes(on))),
            (Location::Feature(names), _) => (Kind::Command, format!("ethtool -K {interface} {} {value}", names[0])),
            (Location::Driver(..), name) => driver(name, interface, value),
            (Location::Queues(front, file), _) => {
                let each = format!("/sys/class/net/{interface}/queues/{front}*/{file}");
                (Kind::Command, format!("for queue in {each}; do echo {value} > $queue; done"))
            }
            (Location::Flows, _) => (Kind::Command, flows(interface, value)),
            (Location::Interrupts, _) => {
                let device = format!("/sys/class/net/{interface}/device");
                let part = format!("$(readlink {device}/subsystem | grep -q '/virtio$' && echo /..)");
                let all = format!("ls {device}{part}/msi_irqs");
                let each = "echo $1 > /proc/irq/$irq/smp_affinity; set -- $* $1; shift";
                (Kind::Command, format!("set -- {value}; for irq in $({all}); do {each}; done"))
            }
            (Location::Interface(file), _) => {
                (Kind::Command, format!("echo {value} > /sys/class/net/{interface}/{file}"))
            }
            (Location::Sysctl(file), _) => (Kind::Sysctl, format!("net.{} = {value}", file.replace('/', "."))),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) enum Kind {
    /// The section `[Link]` of a `.link` file of systemd.
    Link,
    Sysctl,
    Command,
}

fn flows(interface: &str, value: &str) -> String {
    let (table, queue) = value.split_once(' ').unwrap_or((value, "0"));
    let each = format!("/sys/class/net/{interface}/queues/rx-*/rps_flow_cnt");
    format!("sysctl net.core.rps_sock_flow_entries={table}; for queue in {each}; do echo {queue} > $queue; done")
}

fn driver(name: &str, interface: &str, value: &str) -> (Kind, String) {
    let link = match name {
        "coalesce-rx-usecs" => format!("RxCoalesceSec={value}us"),
        "coalesce-tx-usecs" => format!("TxCoalesceSec={value}us"),
        "coalesce-rx-frames" => format!("RxMaxCoalescedFrames={value}"),
        "coalesce-tx-frames" => format!("TxMaxCoalescedFrames={value}"),
        "coalesce-adaptive-rx" => format!("UseAdaptiveRxCoalesce={}", yes(value == "1")),
        "coalesce-adaptive-tx" => format!("UseAdaptiveTxCoalesce={}", yes(value == "1")),
        "channels" => format!("CombinedChannels={value}"),
        "rx-channels" => format!("RxChannels={value}"),
        "tx-channels" => format!("TxChannels={value}"),
        "rx-ring" => format!("RxBufferSize={value}"),
        "tx-ring" => format!("TxBufferSize={value}"),
        _ => return (Kind::Command, format!("ethtool {interface}: {name} {value}")),
    };
    (Kind::Link, link)
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

fn meant(value: &str, processors: usize) -> String {
    match value {
        ALL => mask(processors, |_| true),
        REST => mask(processors, |processor| processor > 0),
        TURN => (0..processors).map(|own| mask(own + 1, |other| other == own)).collect::<Vec<_>>().join(" "),
        EACH => processors.to_string(),
        value => value.to_owned(),
    }
}

/// The kernel's format without leading zeros: hexadecimal words of 32 processors each.
pub(in crate::net) fn mask(processors: usize, has: impl Fn(usize) -> bool) -> String {
    let word =
        |from: usize| (from..processors.min(from + 32)).filter(|own| has(*own)).map(|own| 1_u32 << (own - from)).sum();
    let words: Vec<u32> = (0..processors).step_by(32).map(word).rev().skip_while(|word| *word == 0).collect();
    let Some((first, rest)) = words.split_first() else { return "0".to_owned() };
    rest.iter().fold(format!("{first:x}"), |mask, word| format!("{mask},{word:08x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_values_are_tried() {
        let mtu = by_name("mtu").unwrap();
        assert_eq!(mtu.others("1500", 2), ["9000"]);
        assert_eq!(mtu.others("576", 2), ["1500", "9000"]);
        assert_eq!(by_name("rps").unwrap().others("0", 2), ["3", "2"]);
        assert_eq!(by_name("rps").unwrap().others("0", 1), ["1"]);
        assert_eq!(by_name("interrupts").unwrap().others("2", 2), ["3", "1 2"]);
        assert_eq!(by_name("channels").unwrap().others("1", 2), ["2"]);
        assert!(by_name("channels").unwrap().others("1", 1).is_empty());
        assert!(by_name("none").is_err());
    }

    #[test]
    fn what_namespaces_have_in_common_is_known() {
        let of = |is: fn(&Setting) -> bool| KNOWN.iter().filter(|own| is(own)).map(|own| own.name).collect::<Vec<_>>();
        assert_eq!(of(Setting::is_of_machine), ["rfs", "interrupts", "busy-poll"]);
        assert_eq!(of(Setting::is_shared), ["rfs", "rmem", "wmem", "congestion-control", "busy-poll"]);
    }

    #[test]
    fn masks_have_a_bit_for_each_processor() {
        let all = |processors| mask(processors, |_| true);
        assert_eq!([1, 2, 4, 32, 40, 64].map(all), ["1", "3", "f", "ffffffff", "ff,ffffffff", "ffffffff,ffffffff"]);
        let rest = |processors| mask(processors, |processor| processor > 0);
        assert_eq!([0, 1, 2, 33].map(rest), ["0", "0", "2", "1,fffffffe"]);
        assert_eq!(mask(41, |processor| processor == 33), "2,00000000");
    }

    #[test]
    fn names_are_of_one_setting_each_and_every_one_has_a_line() {
        for (at, setting) in KNOWN.iter().enumerate() {
            assert!(KNOWN[at + 1..].iter().all(|other| other.name != setting.name), "{}", setting.name);
            for value in setting.others("", 2) {
                let (kind, line) = setting.lines("eth0", &value);
                assert!(!line.is_empty() && !line.contains(": "), "{kind:?} {line}");
            }
        }
        let line = |name: &str, value| by_name(name).unwrap().lines("eth0", value);
        assert_eq!(line("mtu", "9000"), (Kind::Link, "MTUBytes=9000".to_owned()));
        assert_eq!(line("gro", "on"), (Kind::Link, "GenericReceiveOffload=yes".to_owned()));
        assert_eq!(line("wmem", "1 2 3"), (Kind::Sysctl, "net.ipv4.tcp_wmem = 1 2 3".to_owned()));
        assert_eq!(line("channels", "4"), (Kind::Link, "CombinedChannels=4".to_owned()));
        assert!(line("rfs", "32768 4096").1.contains("entries=32768; ") && line("rfs", "1 7").1.contains("echo 7 >"));
        assert_eq!(
            line("rps", "3").1,
            "for queue in /sys/class/net/eth0/queues/rx-*/rps_cpus; do echo 3 > $queue; done"
        );
    }
}
