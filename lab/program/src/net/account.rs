//! Counts of an end: its own messages, and the kernel's counts for the machine and for the namespace.

use procfs::net::{dev_status, snmp};
use procfs::{CurrentSI, KernelStats};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;

/// Counts since an arbitrary beginning. Only differences are meaningful.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Account {
    /// The end's own clock, ns.
    pub(super) at_ns: u64,
    pub(super) sent: Counted,
    pub(super) received: Counted,
    /// CPU time of the end's process, ns.
    pub(super) process_ns: u64,
    /// Time of each processor in seconds, ordered by number.
    pub(super) processors: Vec<Processor>,
    /// Other counts. Counts that this machine does not have are missing.
    pub(super) figures: BTreeMap<Figure, u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counted {
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Processor {
    pub(super) user: f64,
    pub(super) system: f64,
    pub(super) softirq: f64,
    pub(super) interrupt: f64,
    pub(super) stolen: f64,
    pub(super) idle: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Figure {
    /// Over all interfaces of the namespace except loopback.
    PacketsSent,
    PacketsReceived,
    BytesReceived,
    Dropped,
    Retransmitted,
    /// Datagrams dropped because the receiver's buffer was full.
    Overflowed,
    /// Of the whole machine.
    ContextSwitches,
    Interrupts,
    Reschedules,
    /// Interrupts from one processor to another, by the names of x86: those that reschedule, and calls of functions.
    CrossCalls,
    ReceiveSoftirqs,
    SendSoftirqs,
}

impl Account {
    pub(super) fn of_kernel() -> Self {
        let mut account = Self::default();
        account.add_processors();
        account.add_namespace();
        let calls = [("RES:", Figure::Reschedules), ("RES:", Figure::CrossCalls), ("CAL:", Figure::CrossCalls)];
        account.add_lines("/proc/interrupts", &calls, Some(Figure::Interrupts));
        let softirqs = [("NET_RX:", Figure::ReceiveSoftirqs), ("NET_TX:", Figure::SendSoftirqs)];
        account.add_lines("/proc/softirqs", &softirqs, None);
        account
    }

    fn add_processors(&mut self) {
        let Ok(stats) = KernelStats::current() else { return };
        let seconds = |ticks: Option<u64>| ticks.unwrap_or(0) as f64 / procfs::ticks_per_second() as f64;
        self.processors = stats
            .cpu_time
            .iter()
            .map(|cpu| Processor {
                user: seconds(Some(cpu.user + cpu.nice)),
                system: seconds(Some(cpu.system)),
                softirq: seconds(cpu.softirq),
                interrupt: seconds(cpu.irq),
                stolen: seconds(cpu.steal),
                idle: seconds(Some(cpu.idle + cpu.iowait.unwrap_or(0))),
            })
            .collect();
        self.figures.insert(Figure::ContextSwitches, stats.ctxt);
    }

    fn add_namespace(&mut self) {
        if let Ok(interfaces) = dev_status() {
            let others = interfaces.values().filter(|interface| interface.name != "lo");
            let mut add = |figure, count| *self.figures.entry(figure).or_default() += count;
            for interface in others {
                add(Figure::PacketsSent, interface.sent_packets);
                add(Figure::PacketsReceived, interface.recv_packets);
                add(Figure::BytesReceived, interface.recv_bytes);
                add(Figure::Dropped, interface.sent_drop + interface.recv_drop);
            }
        }
        if let Ok(protocols) = snmp() {
            self.figures.insert(Figure::Retransmitted, protocols.tcp_retrans_segs);
            self.figures.insert(Figure::Overflowed, protocols.udp_rcvbuf_errors);
        }
    }

    fn add_lines(&mut self, path: &str, named: &[(&str, Figure)], all: Option<Figure>) {
        let Ok(text) = fs::read_to_string(path) else { return };
        for (name, count) in text.lines().filter_map(of_all_processors) {
            let figures = named.iter().filter(|(known, _)| *known == name).map(|(_, figure)| *figure);
            for figure in figures.chain(all) {
                *self.figures.entry(figure).or_default() += count;
            }
        }
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        let figures = self
            .figures
            .iter()
            .filter_map(|(figure, now)| Some((*figure, now.saturating_sub(*before.figures.get(figure)?))));
        let processors = self.processors.iter().zip(&before.processors);
        Self {
            at_ns: self.at_ns.saturating_sub(before.at_ns),
            sent: self.sent.since(before.sent),
            received: self.received.since(before.received),
            process_ns: self.process_ns.saturating_sub(before.process_ns),
            processors: processors.map(|(now, before)| now.since(*before)).collect(),
            figures: figures.collect(),
        }
    }

    /// Subtracts from each processor the CPU time spent on keeping it awake, s: it counts as idle.
    pub(super) fn leave_out(&mut self, before: &[f64], now: &[f64]) {
        for (processor, (before, now)) in self.processors.iter_mut().zip(before.iter().zip(now)) {
            let spare = (now - before).max(0.0);
            processor.user = (processor.user - spare).max(0.0);
            processor.idle += spare;
        }
    }

    /// CPU time neither idle nor taken by another guest, s. The kernel may estimate kinds of work from ticks, but it
    /// measures idle time.
    pub(super) fn busy_s(&self) -> f64 {
        let seconds = self.seconds();
        self.processors.iter().map(|processor| (seconds - processor.idle - processor.stolen).max(0.0)).sum()
    }

    pub(super) fn per_second(&self, figure: Figure) -> Option<f64> {
        Some(*self.figures.get(&figure)? as f64 / self.seconds())
    }

    pub(super) fn seconds(&self) -> f64 {
        self.at_ns.max(1) as f64 / 1e9
    }
}

impl Counted {
    pub(super) fn add(&mut self, more: Self) {
        self.messages += more.messages;
        self.bytes += more.bytes;
    }

    fn since(self, before: Self) -> Self {
        Self { messages: self.messages.saturating_sub(before.messages), bytes: self.bytes.saturating_sub(before.bytes) }
    }
}

impl Processor {
    fn since(self, before: Self) -> Self {
        Self {
            user: self.user - before.user,
            system: self.system - before.system,
            softirq: self.softirq - before.softirq,
            interrupt: self.interrupt - before.interrupt,
            stolen: self.stolen - before.stolen,
            idle: self.idle - before.idle,
        }
    }
}

fn of_all_processors(line: &str) -> Option<(&str, u64)> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next().filter(|name| name.ends_with(':'))?;
    Some((name, words.map_while(|word| word.parse::<u64>().ok()).sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_processors_are_added() {
        assert_eq!(of_all_processors(" RES:       12         30   Rescheduling interrupts"), Some(("RES:", 42)));
        assert_eq!(of_all_processors("           CPU0       CPU1"), None);
        assert_eq!(of_all_processors("ERR:          7"), Some(("ERR:", 7)));
        assert_eq!(of_all_processors(""), None);
    }

    #[test]
    fn what_was_not_counted_before_is_missing_in_the_difference() {
        let mut before = Account { at_ns: 1_000_000_000, ..Account::default() };
        let mut now = Account { at_ns: 3_000_000_000, ..Account::default() };
        before.figures.insert(Figure::Interrupts, 10);
        now.figures.extend([(Figure::Interrupts, 50), (Figure::Dropped, 3)]);
        let since = now.since(&before);
        assert_eq!(since.per_second(Figure::Interrupts), Some(20.0));
        assert_eq!(since.per_second(Figure::Dropped), None);
    }

    #[test]
    fn a_processor_that_was_kept_awake_was_idle() {
        let busy = Processor { user: 3.0, system: 1.0, idle: 0.5, ..Processor::default() };
        let mut account = Account { processors: vec![busy; 3], ..Account::default() };
        account.leave_out(&[1.0, 0.0], &[3.0, 9.0]);
        let found: Vec<_> = account.processors.iter().map(|processor| (processor.user, processor.idle)).collect();
        assert_eq!(found, [(1.0, 2.5), (0.0, 9.5), (3.0, 0.5)]);
    }

    #[test]
    fn busy_is_what_is_neither_idle_nor_stolen_whatever_ticks_say() {
        let processor = |idle, stolen| Processor { user: 9.0, idle, stolen, ..Processor::default() };
        let processors = vec![processor(0.5, 0.25), processor(2.01, 0.0), processor(0.0, 0.0)];
        let account = Account { at_ns: 2_000_000_000, processors, ..Account::default() };
        assert!((account.busy_s() - 3.25).abs() < 1e-9);
    }

    #[test]
    fn this_machine_has_processors() {
        assert!(!Account::of_kernel().processors.is_empty());
    }
}
