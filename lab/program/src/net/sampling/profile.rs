//! Samples of running functions by process, and the CPU time by component derived from them.

use super::rules::{COMPONENTS, Component, Placement, Rules};
use super::symbols::{Id, Symbols, UNKNOWN};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Stack {
    /// The process; 0: the CPU was idle; or [`SAMPLING`], [`AWAKE`] or [`DEVICE`].
    pub(super) process: u32,
    /// Functions of the kernel, each called by the next; empty: the program's own code.
    pub(super) functions: Vec<Id>,
}

/// The thread that takes samples; it never counts for its process. No process has this number.
pub(super) const SAMPLING: u32 = u32::MAX;
/// The threads that keep CPUs from idling.
pub(super) const AWAKE: u32 = u32::MAX - 1;
/// The threads that do the work of a device. Their work always belongs to the path.
pub(super) const DEVICE: u32 = u32::MAX - 2;

#[derive(Debug)]
pub(crate) struct Profile {
    pub(super) symbols: Arc<Symbols>,
    pub(super) counts: HashMap<Stack, u64>,
    pub(super) processes: Processes,
    /// Samples that the kernel took but could not deliver.
    pub(crate) lost: u64,
    /// Observed time summed over all CPUs, us. `None`: only a part of the machine's work was sampled.
    pub(super) watched_us: Option<f64>,
    /// CPU time of all work, accounted by the kernel, us.
    pub(crate) busy_us: f64,
    /// Idle time summed over all CPUs, us. `None`: only a part of the machine's work was sampled.
    pub(crate) idle_us: Option<f64>,
    pub(crate) knows_kernel: bool,
    /// The time that one sample stands for, us; `None`: samples are of cycles.
    pub(crate) sample_us: Option<f64>,
    pub(crate) left_out: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Processes {
    pub(super) parents: HashMap<u32, u32>,
    pub(super) names: HashMap<u32, String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Breakdown {
    counts: HashMap<Component, u64>,
    pub(crate) unplaced: u64,
    /// Samples of other processes, and of the sampling itself.
    pub(crate) elsewhere: u64,
    pub(crate) idle: u64,
    pub(crate) spare: u64,
    pub(crate) unplaced_functions: Vec<(String, u64)>,
}

/// A share with the bounds of its 95 % confidence interval with respect to sampling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share {
    pub(crate) seen: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Whose<'p> {
    /// All processes except this one.
    Everyones,
    /// With their descendants.
    Of(&'p [u32]),
}

/// Longest chain of parents to follow: numbers are reused, so it may be circular.
const MAX_GENERATIONS: usize = 64;

impl Profile {
    pub(crate) fn breakdown(&self, rules: &Rules, whose: Whose<'_>) -> Breakdown {
        let mut found = Breakdown::default();
        let mut unplaced = HashMap::new();
        let mut own = HashMap::new();
        for (stack, count) in &self.counts {
            let functions = self.functions(stack);
            let is_own = *own.entry(stack.process).or_insert_with(|| self.processes.is_of(stack.process, whose));
            match place(stack, &functions, rules) {
                Some(Placement::Idle) => found.idle += count,
                Some(Placement::In(Component::Program)) if stack.process == AWAKE => found.spare += count,
                Some(Placement::In(component)) if is_own || is_for_others(component, &functions, rules) => {
                    *found.counts.entry(component).or_default() += count;
                }
                None | Some(Placement::Caller) if is_own => {
                    found.unplaced += count;
                    *unplaced.entry(functions[0]).or_default() += count;
                }
                _ => found.elsewhere += count,
            }
        }
        found.unplaced_functions = by_samples(unplaced.into_iter().map(|(name, n): (&str, _)| (name.to_owned(), n)));
        found
    }

    /// CPU time by samples divided by CPU time accounted by the kernel. `None`: samples are not of time, or not of
    /// everything.
    pub(crate) fn agreement(&self, breakdown: &Breakdown) -> Option<f64> {
        let seen = (breakdown.busy() + self.lost) as f64 * self.sample_us?;
        (self.knows_kernel && self.busy_us > 0.0).then(|| seen / self.busy_us)
    }

    /// Share of instants with neither a sample nor a lost one. `None`: samples are not of time, or not of everything.
    pub(crate) fn missing(&self) -> Option<f64> {
        let instants = self.watched_us? / self.sample_us?;
        let seen = self.counts.values().sum::<u64>() + self.lost;
        (instants > 0.0).then(|| (1.0 - seen as f64 / instants).max(0.0))
    }

    pub(crate) fn time_us(&self, breakdown: &Breakdown, samples: u64) -> f64 {
        self.busy_us * samples as f64 / breakdown.busy().max(1) as f64
    }

    /// Stacks in the format of tools for flame graphs, a line each: the process, functions from the outermost on, and
    /// the count.
    pub(crate) fn folded(&self) -> Vec<String> {
        let mut lines: HashMap<String, u64> = HashMap::new();
        for (stack, count) in &self.counts {
            let name = self.processes.names.get(&stack.process).map_or("", String::as_str);
            let name = if name.is_empty() { UNKNOWN } else { name };
            let mut frames = vec![if stack.process == 0 { "idle".to_owned() } else { plain(name) }];
            frames.extend(self.functions(stack).iter().rev().map(|function| plain(function)));
            if stack.functions.is_empty() {
                frames.push("[program]".to_owned());
            }
            *lines.entry(frames.join(";")).or_default() += count;
        }
        let mut lines: Vec<_> = lines.into_iter().map(|(frames, count)| format!("{frames} {count}")).collect();
        lines.sort();
        lines
    }

    /// Work in the kernel that cannot be sampled is added as unplaced time.
    pub(super) fn add_unseen(&mut self) {
        let seen = self.counts.values().sum::<u64>() + self.lost;
        let all = self.sample_us.map_or(0, |us| (self.busy_us / us) as u64);
        if let Some(unseen) = all.checked_sub(seen).filter(|unseen| *unseen > 0) {
            self.counts.insert(Stack { process: 0, functions: vec![0] }, unseen);
        }
    }

    fn functions(&self, stack: &Stack) -> Vec<&str> {
        stack.functions.iter().map(|function| self.symbols.name(*function)).collect()
    }
}

impl Breakdown {
    pub(crate) fn add(&mut self, more: &Self) {
        for (component, samples) in &more.counts {
            *self.counts.entry(*component).or_default() += samples;
        }
        self.unplaced += more.unplaced;
        self.elsewhere += more.elsewhere;
        self.idle += more.idle;
        self.spare += more.spare;
        let mut named: HashMap<String, u64> = self.unplaced_functions.drain(..).collect();
        for (name, samples) in &more.unplaced_functions {
            *named.entry(name.clone()).or_default() += samples;
        }
        self.unplaced_functions = by_samples(named);
    }

    pub(crate) fn samples(&self, component: Component) -> u64 {
        self.counts.get(&component).copied().unwrap_or(0)
    }

    /// Samples of the measured work, including unplaced ones.
    pub(crate) fn of_path(&self) -> u64 {
        COMPONENTS.into_iter().map(|component| self.samples(component)).sum::<u64>() + self.unplaced
    }

    pub(crate) fn busy(&self) -> u64 {
        self.of_path() + self.elsewhere + self.spare
    }

    pub(crate) fn share(&self, samples: u64) -> Option<Share> {
        Share::of(samples, self.of_path())
    }
}

impl Share {
    /// Wilson's interval of the share `seen` / `all`. `None`: `all` is 0.
    pub(crate) fn of(seen: u64, all: u64) -> Option<Self> {
        /// 2.5 % of the normal distribution lie beyond.
        const Z: f64 = 1.959_964;
        if all == 0 || seen > all {
            return None;
        }
        let (n, share) = (all as f64, seen as f64 / all as f64);
        let middle = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
        let half = Z / (1.0 + Z * Z / n) * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
        // For shares of 0 and 1 the bound is the share itself, except for rounding.
        Some(Self { seen: share, low: (middle - half).clamp(0.0, share), high: (middle + half).clamp(share, 1.0) })
    }

    pub(crate) fn of_all(self, all: f64) -> Self {
        Self { seen: self.seen * all, low: self.low * all, high: self.high * all }
    }
}

impl Processes {
    fn is_of(&self, process: u32, whose: Whose<'_>) -> bool {
        if [SAMPLING, AWAKE].contains(&process) {
            return false;
        }
        if process == DEVICE {
            return true;
        }
        let Whose::Of(roots) = whose else { return process != std::process::id() };
        let roots: HashSet<u32> = roots.iter().copied().collect();
        let parent = |process: &u32| self.parents.get(process).copied();
        // The idle process belongs to every selection, because wake-ups for others run in it. Idling itself has no
        // component.
        process == 0
            || std::iter::successors(Some(process), parent).take(MAX_GENERATIONS).any(|one| roots.contains(&one))
    }
}

/// The component of a stack. A device's work belongs to its driver until it hands packets to the protocols.
fn place(stack: &Stack, functions: &[&str], rules: &Rules) -> Option<Placement> {
    if stack.process == DEVICE && !rules.is_for_packets(functions) {
        Some(Placement::In(Component::Driver))
    } else if functions.is_empty() {
        Some(Placement::In(Component::Program))
    } else {
        rules.place(functions)
    }
}

/// Work for packets counts in every process, because packets arrive in the context of any process. Other work in such a
/// context does not count.
fn is_for_others(component: Component, functions: &[&str], rules: &Rules) -> bool {
    let of_path = !matches!(component, Component::Other | Component::Program);
    of_path && rules.is_for_packets(functions)
}

fn by_samples(named: impl IntoIterator<Item = (String, u64)>) -> Vec<(String, u64)> {
    let mut named: Vec<_> = named.into_iter().collect();
    named.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    named
}

fn plain(name: &str) -> String {
    name.chars().map(|c| if c == ';' || c.is_whitespace() || c.is_control() { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "[copy]\n_copy\n[other]\ntimer\n[driver]\npoll\nsoftirq\n[idle]\nhalt\n[interrupt]\nsoftirq\ntick\n[packets]\nsoftirq\n";
    const NAMES: [&str; 7] = ["_copy", "timer", "poll", "softirq", "halt", "strange", "tick"];

    fn profile(counts: &[(u32, &[&str], u64)]) -> Profile {
        let start = |at: usize| 0xffff_ffff_8000_0000 + at as u64;
        let table: Vec<_> = NAMES.iter().enumerate().map(|(at, name)| format!("{:x} T {name}", start(at))).collect();
        let symbols = Symbols::parse(&table.join("\n")).unwrap();
        let id = |name: &&str| NAMES.iter().position(|known| known == name).map_or(0, |at| symbols.find(start(at)));
        let counts = counts.iter().map(|(process, functions, count)| {
            (Stack { process: *process, functions: functions.iter().map(id).collect() }, *count)
        });
        let counts = counts.collect();
        let mut processes = Processes::default();
        processes.parents.extend([(11, 10), (12, 11), (20, 1), (30, 31), (31, 30)]);
        processes.names.extend([(10, "a b;c\n".to_owned()), (0, "swapper/0".to_owned())]);
        let (lost, left_out) = (0, Vec::new());
        let (busy_us, idle_us, sample_us) = (1000.0, Some(500.0), Some(10.0));
        Profile {
            symbols: Arc::new(symbols),
            counts,
            processes,
            lost,
            watched_us: Some(1500.0),
            busy_us,
            idle_us,
            knows_kernel: true,
            sample_us,
            left_out,
        }
    }

    #[test]
    fn work_is_told_apart_by_component_and_by_whose_it_is() {
        let profile = profile(&[
            (10, &[], 5),
            (12, &["_copy"], 7),
            (12, &["strange", "[unknown]"], 2),
            (12, &["[unknown]"], 1),
            (20, &[], 11),
            (20, &["_copy"], 13),
            (20, &["strange", "poll", "softirq", "timer"], 3),
            (20, &["timer", "softirq"], 6),
            (30, &["timer"], 9),
            (30, &["poll", "tick"], 8),
            (0, &["halt"], 100),
            (0, &["poll", "softirq", "halt"], 4),
            (SAMPLING, &[], 2),
            (AWAKE, &[], 29),
            (AWAKE, &["poll", "softirq"], 1),
        ]);
        let rules = Rules::parse(RULES).unwrap();
        let own = profile.breakdown(&rules, Whose::Of(&[10]));
        let samples =
            [Component::Program, Component::Copy, Component::Driver, Component::Other].map(|c| own.samples(c));
        assert_eq!(samples, [5, 7, 8, 0]);
        assert_eq!((own.unplaced, own.elsewhere, own.idle, own.spare), (3, 49, 100, 29));
        assert_eq!(own.unplaced_functions, [("strange".to_owned(), 2), ("[unknown]".to_owned(), 1)]);
        assert_eq!((own.of_path(), own.busy()), (23, 101));
        let all = profile.breakdown(&rules, Whose::Everyones);
        assert_eq!((all.of_path(), all.elsewhere, all.samples(Component::Other)), (70, 2, 15));
        // 101 samples of 10 us, and 1000 us accounted by the kernel.
        assert_eq!(profile.agreement(&all), Some(1.01));
        assert!((profile.time_us(&own, 101) - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn what_a_device_does_is_its_drivers_until_packets_are_handed_over() {
        let device: [(u32, &[&str], u64); 4] = [
            (DEVICE, &[], 5),
            (DEVICE, &["_copy", "strange"], 7),
            (DEVICE, &["_copy", "softirq", "strange"], 2),
            (DEVICE, &["strange", "unknown", "softirq"], 1),
        ];
        let found = profile(&device).breakdown(&Rules::parse(RULES).unwrap(), Whose::Of(&[10]));
        assert_eq!([Component::Driver, Component::Copy].map(|component| found.samples(component)), [13, 2]);
        assert_eq!((found.samples(Component::Program), found.of_path(), found.elsewhere), (0, 15, 0));
    }

    #[test]
    fn two_windows_are_one_of_both() {
        let rules = Rules::parse(RULES).unwrap();
        let one = profile(&[(10, &["_copy"], 3), (10, &["strange"], 4), (20, &[], 1), (0, &["halt"], 2)]);
        let mut both = one.breakdown(&rules, Whose::Of(&[10]));
        both.add(&profile(&[(10, &["_copy"], 5), (AWAKE, &[], 6)]).breakdown(&rules, Whose::Of(&[10])));
        both.add(&profile(&[(10, &["strange"], 2), (10, &["[unknown]"], 9)]).breakdown(&rules, Whose::Of(&[10])));
        assert_eq!((both.samples(Component::Copy), both.of_path(), both.busy()), (8, 23, 30));
        assert_eq!((both.idle, both.spare, both.elsewhere), (2, 6, 1));
        assert_eq!(both.unplaced_functions, [("[unknown]".to_owned(), 9), ("strange".to_owned(), 6)]);
    }

    #[test]
    fn components_and_what_is_beside_add_up_to_the_time_accounted() {
        let profile = profile(&[(10, &[], 3), (10, &["_copy"], 4), (10, &["strange"], 5), (20, &[], 6)]);
        let found = profile.breakdown(&Rules::parse(RULES).unwrap(), Whose::Of(&[10]));
        let parts = COMPONENTS.map(|component| profile.time_us(&found, found.samples(component)));
        let beside = profile.time_us(&found, found.unplaced) + profile.time_us(&found, found.elsewhere);
        assert!((parts.iter().sum::<f64>() + beside - 1000.0).abs() < 1e-6);
    }

    #[test]
    fn instants_without_a_sample_are_told() {
        let mut profile = profile(&[(10, &[], 100), (0, &["halt"], 20)]);
        profile.lost = 15;
        // 150 instants, 10 us apart.
        assert!((profile.missing().unwrap() - 0.1).abs() < 1e-9);
        profile.lost = 1000;
        assert_eq!(profile.missing(), Some(0.0));
        profile.sample_us = None;
        assert_eq!(profile.missing(), None);
    }

    #[test]
    fn nothing_sampled_is_no_share_and_no_time() {
        let mut profile = profile(&[]);
        profile.busy_us = 0.0;
        let found = profile.breakdown(&Rules::parse(RULES).unwrap(), Whose::Everyones);
        assert_eq!(found, Breakdown::default());
        assert_eq!((found.share(0), profile.agreement(&found), profile.time_us(&found, 0)), (None, None, 0.0));
        assert_eq!(profile.folded(), Vec::<String>::new());
    }

    #[test]
    fn what_a_kernel_hides_is_time_that_no_rule_places() {
        let mut profile = profile(&[(10, &[], 30)]);
        profile.lost = 10;
        profile.add_unseen();
        let found = profile.breakdown(&Rules::parse(RULES).unwrap(), Whose::Of(&[10]));
        assert_eq!((found.samples(Component::Program), found.unplaced, found.busy()), (30, 60, 90));
    }

    #[test]
    fn a_folded_stack_is_a_line_whatever_a_process_calls_itself() {
        let profile = profile(&[(10, &["_copy", "poll"], 2), (10, &[], 1), (0, &["halt"], 3), (99, &["poll"], 4)]);
        let lines = ["[unknown];poll 4", "a_b_c_;[program] 1", "a_b_c_;poll;_copy 2", "idle;halt 3"];
        assert_eq!(profile.folded(), lines);
    }

    #[test]
    fn intervals_are_wilsons() {
        // Source: Newcombe 1998, table I, method 3.
        for ((seen, all), (low, high)) in [
            ((81, 263), (0.2553, 0.3662)),
            ((15, 148), (0.0624, 0.1605)),
            ((0, 20), (0.0, 0.1611)),
            ((1, 29), (0.0061, 0.1718)),
            ((20, 20), (0.8389, 1.0)),
        ] {
            let share = Share::of(seen, all).unwrap();
            assert!((share.low - low).abs() < 5e-5 && (share.high - high).abs() < 5e-5, "{seen} of {all}: {share:?}");
            assert!(share.low <= share.seen && share.seen <= share.high);
        }
        assert_eq!(Share::of(0, 0), None);
        assert_eq!(Share::of(2, 1), None);
    }
}
