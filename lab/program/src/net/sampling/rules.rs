//! Assigns samples to components, by rules over the running functions. The rules are data.

use std::collections::HashMap;
use thiserror::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Component {
    /// The device's driver, its interrupts, and the rounds of NAPI.
    Driver,
    /// Headers, checksums, queues, timers of the protocols; filters.
    Protocol,
    /// System calls of sockets, their locks, readiness.
    Socket,
    /// Packets' memory, from the allocator to the last reference.
    Buffers,
    /// Payload between program and kernel, or inside the kernel.
    Copy,
    /// Scheduling, wake-ups, interrupts between CPUs.
    Scheduler,
    /// The way into the kernel and back, descriptors.
    Entry,
    /// The program's own code.
    Program,
    /// Other work of the kernel: timers, pages, files.
    Other,
}

/// In the order of display.
pub(crate) const COMPONENTS: [Component; 9] = [
    Component::Driver,
    Component::Protocol,
    Component::Socket,
    Component::Buffers,
    Component::Copy,
    Component::Scheduler,
    Component::Entry,
    Component::Program,
    Component::Other,
];

impl Component {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Protocol => "protocol",
            Self::Socket => "socket",
            Self::Buffers => "buffers",
            Self::Copy => "copy",
            Self::Scheduler => "scheduler",
            Self::Entry => "entry",
            Self::Program => "program",
            Self::Other => "other",
        }
    }
}

const OWN: &str = include_str!("rules.txt");
/// Section of helper functions: their caller decides.
const CALLER: &str = "caller";
/// Section of functions that run on an idle CPU.
const IDLE: &str = "idle";
/// Section of functions that begin unrelated work: their callers are not considered.
const INTERRUPT: &str = "interrupt";
/// Section of functions that work for a path in every process.
const PACKETS: &str = "packets";
const UNDER: &str = " under ";
/// Follows a function that includes everything it calls.
const WHOLE: &str = " whole";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    In(Component),
    Idle,
    Caller,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Pattern {
    Exact(String),
    Prefix(String),
}

/// Precedence: a name before a prefix, a longer prefix before a shorter one, a rule with a caller before one without.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    by_pattern: HashMap<Pattern, Vec<Rule>>,
    interrupts: Vec<Pattern>,
    packets: Vec<Pattern>,
    /// Bytes of the longest name or prefix.
    longest: usize,
}

#[derive(Debug, Clone)]
struct Rule {
    under: Option<Pattern>,
    place: Placement,
    is_whole: bool,
}

#[derive(Debug, PartialEq, Error)]
#[error("line {line}: {defect}")]
pub(crate) struct BadRule {
    line: usize,
    defect: Defect,
}

#[derive(Debug, PartialEq, Error)]
enum Defect {
    #[error("no [component] above it")]
    NoSection,
    #[error("here stands a name alone")]
    NotAlone,
    #[error("{0:?} stands here twice")]
    Twice(String),
    #[error("{0:?} is no function's name; only a * at its end stands for more")]
    NoName(String),
    #[error("a [ without its ]")]
    NoBracket,
    #[error("no component {name:?}; there are {known}")]
    NoComponent { name: String, known: String },
}

#[derive(Debug, Clone, Copy)]
enum Section {
    Place(Placement),
    Interrupt,
    Packets,
}

impl Rules {
    pub(crate) fn own() -> Self {
        Self::parse(OWN).expect("a test reads them")
    }

    /// Reads rules. A section starts with a component's name in brackets, or with `caller`, `idle`, `interrupt` or
    /// `packets`. Each line below it is a function; its name may end with `*`. ` under ` and another function restrict
    /// a rule to a caller. ` whole` includes everything that the function calls. `#` begins a comment.
    pub(crate) fn parse(text: &str) -> Result<Self, BadRule> {
        let mut rules = Self::default();
        let mut section = None;
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let wrong = |defect| BadRule { line: number + 1, defect };
            if let Some(name) = line.strip_prefix('[') {
                section = Some(Section::parse(name).map_err(wrong)?);
            } else if !line.is_empty() {
                let section = section.ok_or(wrong(Defect::NoSection))?;
                rules.add(line, section).map_err(wrong)?;
            }
        }
        Ok(rules)
    }

    fn add(&mut self, line: &str, section: Section) -> Result<(), Defect> {
        let (rule, is_whole) = line.strip_suffix(WHOLE).map_or((line, false), |rule| (rule, true));
        let (function, under) = match rule.split_once(UNDER) {
            Some((function, under)) => (function, Some(Pattern::parse(under)?)),
            None => (rule, None),
        };
        let function = Pattern::parse(function)?;
        let place = match section {
            Section::Place(place) => place,
            _ if is_whole || under.is_some() => return Err(Defect::NotAlone),
            Section::Interrupt => {
                self.interrupts.push(function);
                return Ok(());
            }
            Section::Packets => {
                self.packets.push(function);
                return Ok(());
            }
        };
        self.longest = self.longest.max(function.name().len());
        let rules = self.by_pattern.entry(function).or_default();
        if rules.iter().any(|rule| rule.under == under) {
            return Err(Defect::Twice(line.to_owned()));
        }
        // Rules with a caller have precedence.
        let position = if under.is_some() { 0 } else { rules.len() };
        rules.insert(position, Rule { under, place, is_whole });
        Ok(())
    }

    /// The assignment of a sample of these functions, each called by the next. `None`: there is no rule.
    pub(crate) fn place(&self, functions: &[&str]) -> Option<Placement> {
        let mut nearest = None;
        for (at, function) in functions.iter().enumerate() {
            match self.of_one(function, &functions[at + 1..]) {
                Some(Rule { place: Placement::Caller, .. }) | None => {}
                Some(Rule { place, is_whole: true, .. }) => return Some(*place),
                Some(rule) => nearest = nearest.or(Some(rule.place)),
            }
            if nearest.is_some() && fits_any(&self.interrupts, function) {
                break;
            }
        }
        nearest
    }

    pub(crate) fn is_for_packets(&self, functions: &[&str]) -> bool {
        functions.iter().any(|function| fits_any(&self.packets, function))
    }

    fn of_one(&self, function: &str, callers: &[&str]) -> Option<&Rule> {
        let exact = Pattern::Exact(function.to_owned());
        let ends = (1..=function.len().min(self.longest)).rev();
        let prefixes = ends.filter_map(|end| Some(Pattern::Prefix(function.get(..end)?.to_owned())));
        let applies = |rule: &&Rule| rule.under.as_ref().is_none_or(|under| callers.iter().any(|one| under.fits(one)));
        let found = |pattern| self.by_pattern.get(&pattern)?.iter().find(applies);
        [exact].into_iter().chain(prefixes).find_map(found)
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, Defect> {
        let text = text.trim();
        let (name, is_prefix) = text.strip_suffix('*').map_or((text, false), |name| (name, true));
        let is_of_function = |c: char| c.is_ascii_alphanumeric() || ['_', '.', '$'].contains(&c);
        if name.is_empty() || !name.chars().all(is_of_function) {
            return Err(Defect::NoName(text.to_owned()));
        }
        Ok(if is_prefix { Self::Prefix(name.to_owned()) } else { Self::Exact(name.to_owned()) })
    }

    fn name(&self) -> &str {
        let (Self::Exact(name) | Self::Prefix(name)) = self;
        name
    }

    fn fits(&self, function: &str) -> bool {
        match self {
            Self::Exact(name) => function == name,
            Self::Prefix(name) => function.starts_with(name.as_str()),
        }
    }
}

fn fits_any(patterns: &[Pattern], function: &str) -> bool {
    patterns.iter().any(|pattern| pattern.fits(function))
}

impl Section {
    fn parse(name: &str) -> Result<Self, Defect> {
        let name = name.strip_suffix(']').ok_or(Defect::NoBracket)?;
        let component = COMPONENTS.into_iter().find(|component| component.name() == name);
        match (component, name) {
            (Some(component), _) => Ok(Self::Place(Placement::In(component))),
            (None, CALLER) => Ok(Self::Place(Placement::Caller)),
            (None, IDLE) => Ok(Self::Place(Placement::Idle)),
            (None, INTERRUPT) => Ok(Self::Interrupt),
            (None, PACKETS) => Ok(Self::Packets),
            _ => {
                let own = [CALLER, IDLE, INTERRUPT, PACKETS];
                let known: Vec<_> = COMPONENTS.map(Component::name).into_iter().chain(own).collect();
                Err(Defect::NoComponent { name: name.to_owned(), known: known.join(", ") })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(rules: &str, functions: &[&str]) -> Option<Placement> {
        Rules::parse(rules).unwrap().place(functions)
    }

    #[test]
    fn the_innermost_function_with_a_rule_decides() {
        let rules = "[copy]\n_copy_*\n[protocol]\ntcp_*\n[caller]\ntcp_lock # a lock\n";
        let copy = Some(Placement::In(Component::Copy));
        let protocol = Some(Placement::In(Component::Protocol));
        assert_eq!(placed(rules, &["memcpy", "_copy_to_iter", "tcp_recvmsg"]), copy);
        assert_eq!(placed(rules, &["tcp_lock", "_copy_to_iter"]), copy);
        assert_eq!(placed(rules, &["memcpy", "tcp_recvmsg", "_copy_to_iter"]), protocol);
        assert_eq!(placed(rules, &["tcp_lock"]), None);
        assert_eq!(placed(rules, &["memcpy"]), None);
        assert_eq!(placed(rules, &[]), None);
    }

    #[test]
    fn a_name_comes_before_a_beginning_and_a_caller_before_none() {
        let rules =
            "[protocol]\ntcp_*\nkfree\n[buffers]\ntcp_skb_*\ntcp_skb\nkfree under tun_*\n[socket]\ntcp_skb_sock\n";
        let component = |functions: &[&str]| placed(rules, functions);
        assert_eq!(component(&["tcp_ack"]), Some(Placement::In(Component::Protocol)));
        assert_eq!(component(&["tcp_skb_free"]), Some(Placement::In(Component::Buffers)));
        assert_eq!(component(&["tcp_skb"]), Some(Placement::In(Component::Buffers)));
        assert_eq!(component(&["tcp_skb_sock"]), Some(Placement::In(Component::Socket)));
        assert_eq!(component(&["kfree", "skb_free", "tun_get_user"]), Some(Placement::In(Component::Buffers)));
        assert_eq!(component(&["kfree", "skb_free"]), Some(Placement::In(Component::Protocol)));
    }

    #[test]
    fn a_whole_takes_what_it_calls_but_no_interrupt() {
        let rules = "[other]\nfault whole\n[buffers]\nalloc\n[driver]\nirq\npoll\n[interrupt]\nirq\n";
        assert_eq!(placed(rules, &["lock", "alloc", "fault"]), Some(Placement::In(Component::Other)));
        assert_eq!(placed(rules, &["alloc", "poll", "irq", "fault"]), Some(Placement::In(Component::Buffers)));
        assert_eq!(placed(rules, &["lock", "irq", "fault"]), Some(Placement::In(Component::Driver)));
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        for (text, why) in [
            ("tcp_*\n", "line 1: no [component] above it"),
            ("[copy]\n\n[nothing]\n", "line 3: no component \"nothing\"; there are driver, protocol"),
            ("[copy\n", "line 1: a [ without its ]"),
            ("[copy]\n*tcp\n", "line 2: \"*tcp\" is no function's name"),
            ("[copy]\n*\n", "line 2: \"*\" is no function's name"),
            ("[copy]\na under \n", "line 2: \"a under\" is no function's name"),
            ("[copy]\na b\n", "line 2: \"a b\" is no function's name"),
            ("[copy]\na under b under c\n", "line 2: \"b under c\" is no function's name"),
            ("[copy]\na\n[socket]\na\n", "line 4: \"a\" stands here twice"),
            ("[packets]\na under b\n", "line 2: here stands a name alone"),
            ("[interrupt]\na whole\n", "line 2: here stands a name alone"),
            ("[copy]\na\u{0}\u{1b}[2J\n", "line 2: \"a\\0\\u{1b}[2J\" is no function's name"),
        ] {
            let said = Rules::parse(text).unwrap_err().to_string();
            assert!(said.starts_with(why), "{text:?}: {said}");
        }
    }

    #[test]
    fn a_functions_name_may_hold_anything() {
        let rules = Rules::own();
        for name in ["", "*", "\u{fffd}\u{1F980}_é", "[unknown]", &"_".repeat(100_000)] {
            assert_eq!(rules.place(&[name]), None);
        }
    }
}
