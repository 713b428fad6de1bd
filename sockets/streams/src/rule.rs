//! The rule that moves a connection's sends to a ring and back to the kernel.
//!
//! A ring pays where several small messages wait together for one system call. So it is entered after several small
//! sends in a row without a receive between them. A connection leaves it if it sends one message and waits for the
//! answer, or sends pieces that the kernel takes faster. The numbers come from a prototype's measurements.

/// Bytes below which a message is small.
pub const SMALL: usize = 4096;
/// Least size with a faster kernel, bytes, also for a single message of a stream.
pub const LARGE: usize = 16 * 1024;
/// Small sends in a row after which a ring is entered.
pub const IN_A_ROW: u8 = 6;
/// Large sends in a row after which it is left.
const LARGE_IN_A_ROW: u8 = 4;
/// Sends between two receives that make an answer, as in an echo.
const ANSWER: u8 = 2;
/// Datagrams unlike the one before, more than like it, after which it is left: the kernel takes those of one kind
/// together.
const UNLIKE: u8 = 16;
/// Answers in a row after which it is left.
const ANSWERS_IN_A_ROW: u8 = 16;
/// How much more often a connection must ask after each time that it left, at most: `IN_A_ROW << MAX_CAUTION`. Each
/// row of sends that a ring would have paid for takes one back.
const MAX_CAUTION: u8 = 4;

/// The path of a socket and its reason, for display. The service shows the program's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PathReason {
    /// On the kernel: too few small sends in a row so far.
    Few = 0,
    /// Through the ring: enough small sends in a row.
    Row = 1,
    /// On the kernel: large sends.
    Large = 2,
    /// On the kernel: it answers each message by one.
    Answers = 3,
    /// On the kernel: another process may write to it as well.
    Forked = 4,
    /// On the kernel: it has several descriptors.
    Duplicated = 5,
    /// On the kernel: a call that only the kernel understands.
    Special = 6,
    /// On the kernel: the service refused it, or has no room.
    Refused = 7,
    /// On the kernel: there is no service.
    NoService = 8,
    /// On the kernel: datagrams of changing sizes.
    Unlike = 9,
    /// On the kernel: the program also sends by calls that the library does not see.
    Unseen = 10,
    /// The program closed it.
    Closed = 11,
    /// On the kernel: `SO_LINGER`.
    Linger = 12,
    /// On the kernel: `TCP_CORK`.
    Cork = 13,
    /// On the kernel: an option that the library does not know.
    Option = 14,
    /// On the kernel: signals for input and output.
    Signals = 15,
    /// On the kernel: the kernel moves bytes itself, as by `sendfile`, or later.
    Moved = 16,
    /// On the kernel: a `FILE` of the C library writes to it.
    Printed = 17,
    /// On the kernel: it is in several sets of `epoll`, or its set has several descriptors.
    Sets = 18,
    /// On the kernel: options that it had from the start, perhaps of its listener.
    Inherited = 19,
    /// On the kernel, as all of the process: it has namespaces or rings of its own, or restricts its system calls.
    Process = 20,
}

impl PathReason {
    const ALL: [Self; 21] = [
        Self::Few,
        Self::Row,
        Self::Large,
        Self::Answers,
        Self::Forked,
        Self::Duplicated,
        Self::Special,
        Self::Refused,
        Self::NoService,
        Self::Unlike,
        Self::Unseen,
        Self::Closed,
        Self::Linger,
        Self::Cork,
        Self::Option,
        Self::Signals,
        Self::Moved,
        Self::Printed,
        Self::Sets,
        Self::Inherited,
        Self::Process,
    ];

    /// The reason of that number in shared memory.
    pub fn of(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|why| *why as u64 == number)
    }

    /// Text for display.
    pub fn words(self) -> &'static str {
        match self {
            Self::Few => "on the kernel: few small sends in a row",
            Self::Row => "ring: small sends in a row",
            Self::Large => "on the kernel: large sends",
            Self::Answers => "on the kernel: one answer for each message",
            Self::Forked => "on the kernel: forked",
            Self::Duplicated => "on the kernel: several descriptors",
            Self::Special => "on the kernel: calls of its own",
            Self::Refused => "on the kernel: refused by the service",
            Self::NoService => "on the kernel: no service",
            Self::Unlike => "on the kernel: datagrams of changing sizes",
            Self::Unseen => "on the kernel: sent by unseen calls as well",
            Self::Closed => "closed",
            Self::Linger => "on the kernel: SO_LINGER",
            Self::Cork => "on the kernel: TCP_CORK",
            Self::Option => "on the kernel: an option that the library does not know",
            Self::Signals => "on the kernel: O_ASYNC",
            Self::Moved => "on the kernel: sendfile, splice or aio",
            Self::Printed => "on the kernel: a FILE writes to it",
            Self::Sets => "on the kernel: several epoll sets",
            Self::Inherited => "on the kernel: options of its listener",
            Self::Process => "on the kernel: namespaces, seccomp or io_uring",
        }
    }
}

/// The rule's decision for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// It stays where it is.
    Stay,
    /// It enters a ring.
    Promote,
    /// It leaves its ring.
    Demote(PathReason),
}

/// History of one connection. Eight bytes, so that threads with a common connection may keep it in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    promoted: bool,
    /// Small sends since the last receive, or since a larger one.
    small: u8,
    large: u8,
    answers: u8,
    caution: u8,
    /// Of the last datagram: a few bits of its destination, and its length.
    kind: u16,
    unlike: u8,
}

impl Rule {
    /// Unpacks a word.
    #[inline]
    pub fn from_word(word: u64) -> Self {
        let [promoted, small, large, answers, caution, low, high, unlike] = word.to_le_bytes();
        let kind = u16::from_le_bytes([low, high]);
        Self { promoted: promoted != 0, small, large, answers, caution: caution.min(MAX_CAUTION), kind, unlike }
    }

    /// Packs the rule into a word.
    #[inline]
    pub fn to_word(self) -> u64 {
        let ([low, high], promoted) = (self.kind.to_le_bytes(), u8::from(self.promoted));
        u64::from_le_bytes([promoted, self.small, self.large, self.answers, self.caution, low, high, self.unlike])
    }

    /// The word after a send of that size, for a connection in a ring; `None`: ask [`Rule::sends`]. Fast path of most
    /// sends.
    #[inline]
    pub fn sends_in_ring(word: u64, bytes: usize) -> Option<u64> {
        let mut kept = word.to_le_bytes();
        let [promoted, small, large, ..] = &mut kept;
        *small = small.saturating_add(1);
        (*promoted == 1 && *large == 0 && bytes < LARGE).then_some(u64::from_le_bytes(kept))
    }

    /// The program sends `bytes` bytes.
    #[inline]
    pub fn sends(&mut self, bytes: usize) -> Advice {
        if bytes >= LARGE {
            self.small = 0;
            self.large = self.large.saturating_add(1);
            let leaves = self.promoted && self.large >= LARGE_IN_A_ROW;
            return if leaves { self.leave(PathReason::Large) } else { Advice::Stay };
        }
        self.large = 0;
        if bytes >= SMALL && !self.promoted {
            self.small = 0;
            return Advice::Stay;
        }
        self.small = self.small.saturating_add(1);
        if self.promoted || self.small < IN_A_ROW.saturating_mul(1 << self.caution) {
            Advice::Stay
        } else {
            Advice::Promote
        }
    }

    /// The program sends a datagram of `bytes` bytes; `to` holds some bits of its destination. The kernel groups
    /// datagrams of one length and destination: a different one begins a new row.
    #[inline]
    pub fn sends_datagram(&mut self, bytes: usize, to: u16) -> Advice {
        let kind = to ^ bytes as u16;
        if self.kind == kind {
            self.unlike = self.unlike.saturating_sub(1);
            return self.sends(bytes);
        }
        (self.kind, self.small, self.unlike) = (kind, 0, self.unlike.saturating_add(1));
        let advice = self.sends(bytes);
        let leaves = self.promoted && self.unlike >= UNLIKE && advice == Advice::Stay;
        if leaves { self.leave(PathReason::Unlike) } else { advice }
    }

    /// The program receives, or asks whether there is something.
    #[inline]
    pub fn receives(&mut self) -> Advice {
        let sent = core::mem::take(&mut self.small);
        if sent >= IN_A_ROW {
            self.caution = self.caution.saturating_sub(1);
        }
        if sent == 0 {
            return Advice::Stay;
        }
        if sent > ANSWER {
            self.answers = 0;
            return Advice::Stay;
        }
        self.answers = self.answers.saturating_add(1);
        let leaves = self.promoted && self.answers >= ANSWERS_IN_A_ROW;
        if leaves { self.leave(PathReason::Answers) } else { Advice::Stay }
    }

    /// Why the last sends enter no ring. `None`: there is no such reason.
    pub fn reason(self) -> Option<PathReason> {
        if self.large > 0 {
            Some(PathReason::Large)
        } else if self.unlike >= UNLIKE {
            Some(PathReason::Unlike)
        } else {
            (self.answers > 0).then_some(PathReason::Answers)
        }
    }

    /// The advice to enter a ring was followed.
    pub fn promoted(&mut self) {
        (self.promoted, self.answers, self.unlike) = (true, 0, 0);
    }

    /// It left its ring for another reason, or could not enter one: it asks again, less often each time.
    pub fn demoted(&mut self) {
        let _ = self.leave(PathReason::Special);
    }

    /// No ring is ready yet: it asks again after another row of the same length.
    pub fn put_off(&mut self) {
        *self = Self { caution: self.caution, ..Self::default() };
    }

    fn leave(&mut self, why: PathReason) -> Advice {
        let caution = (self.caution + 1).min(MAX_CAUTION);
        *self = Self { caution, ..Self::default() };
        Advice::Demote(why)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn small(rule: &mut Rule, count: u8) -> Vec<Advice> {
        (0..count).map(|_| rule.sends(64)).collect()
    }

    extern crate std;
    use std::vec::Vec;

    fn promoted() -> Rule {
        let mut rule = Rule::default();
        assert_eq!(small(&mut rule, IN_A_ROW).last(), Some(&Advice::Promote));
        rule.promoted();
        rule
    }

    #[test]
    fn small_sends_in_a_row_enter_a_ring() {
        let mut rule = Rule::default();
        assert!(small(&mut rule, IN_A_ROW - 1).iter().all(|advice| *advice == Advice::Stay));
        assert_eq!(rule.sends(64), Advice::Promote);
    }

    #[test]
    fn datagrams_of_one_kind_are_a_row_and_others_are_none() {
        let mut rule = Rule::default();
        assert!((0..1_000).all(|at| rule.sends_datagram(64, 1 + at % 2) == Advice::Stay), "to several");
        assert!((0..1_000).all(|at| rule.sends_datagram(64 + at % 2, 1) == Advice::Stay), "of several lengths");
        let alike: Vec<Advice> = (0..IN_A_ROW).map(|_| rule.sends_datagram(64, 7)).collect();
        assert_eq!(alike.last(), Some(&Advice::Promote));
        assert!(alike[..alike.len() - 1].iter().all(|advice| *advice == Advice::Stay));
    }

    #[test]
    fn datagrams_of_changing_lengths_leave_and_a_few_others_do_not() {
        let mut rule = promoted();
        assert!((0..10_000).all(|at| rule.sends_datagram(if at % 5 == 0 { 9 } else { 64 }, 7) == Advice::Stay));
        let left = (0..1_000).find_map(|at| match rule.sends_datagram(64 + at % 3, 7) {
            Advice::Stay => None,
            advice => Some(advice),
        });
        assert_eq!(left, Some(Advice::Demote(PathReason::Unlike)));
    }

    #[test]
    fn an_echo_and_large_sends_never_do() {
        let mut rule = Rule::default();
        for _ in 0..1_000 {
            assert_eq!((rule.sends(64), rule.receives()), (Advice::Stay, Advice::Stay));
        }
        for _ in 0..1_000 {
            let advice = [rule.sends(64), rule.sends(64), rule.sends(SMALL), rule.sends(LARGE)];
            assert!(advice.iter().all(|advice| *advice == Advice::Stay));
        }
    }

    #[test]
    fn pipelined_replies_stay_and_answers_leave() {
        let mut rule = promoted();
        for _ in 0..1_000 {
            small(&mut rule, 16);
            assert_eq!(rule.receives(), Advice::Stay);
        }
        let left = (0..u32::from(ANSWERS_IN_A_ROW)).map(|_| (rule.sends(64), rule.receives())).last();
        assert_eq!(left, Some((Advice::Stay, Advice::Demote(PathReason::Answers))));
        assert!(
            small(&mut rule, IN_A_ROW * 2 - 1).iter().all(|advice| *advice == Advice::Stay),
            "it is more cautious now"
        );
        assert_eq!(rule.sends(64), Advice::Promote);
    }

    #[test]
    fn a_cautious_connection_enters_again_when_its_ways_have_changed() {
        let mut rule = promoted();
        (0..10).for_each(|_| rule.demoted());
        let batches = (1..=100).find(|_| {
            let asks = small(&mut rule, 16).contains(&Advice::Promote);
            rule.receives();
            asks
        });
        assert_eq!(batches, Some(u32::from(MAX_CAUTION)), "each batch of 16 takes one back");
    }

    #[test]
    fn one_large_message_stays_and_several_leave() {
        let mut rule = promoted();
        assert!((1..LARGE_IN_A_ROW).all(|_| rule.sends(LARGE) == Advice::Stay));
        assert_eq!(rule.sends(64), Advice::Stay);
        let advice: Vec<Advice> = (0..LARGE_IN_A_ROW).map(|_| rule.sends(LARGE)).collect();
        assert_eq!(advice.last(), Some(&Advice::Demote(PathReason::Large)));
    }

    #[test]
    fn the_last_sends_of_a_socket_on_the_kernel_are_its_reason() {
        let mut rule = Rule::default();
        small(&mut rule, IN_A_ROW - 1);
        assert_eq!(rule.reason(), None);
        rule.sends(LARGE);
        assert_eq!(rule.reason(), Some(PathReason::Large));
        rule.sends(64);
        rule.receives();
        assert_eq!(rule.reason(), Some(PathReason::Answers));
        small(&mut rule, IN_A_ROW - 1);
        rule.receives();
        assert_eq!(rule.reason(), None, "several messages are no answer");
        (0..UNLIKE).for_each(|at| assert_eq!(rule.sends_datagram(64, 1 + u16::from(at % 2)), Advice::Stay));
        assert_eq!(rule.reason(), Some(PathReason::Unlike));
        assert!((0..IN_A_ROW).any(|_| rule.sends_datagram(64, 7) == Advice::Promote));
        rule.promoted();
        assert_eq!(rule.reason(), None);
    }

    #[test]
    fn receives_that_nothing_was_sent_between_say_nothing() {
        let mut rule = promoted();
        rule.sends(64);
        assert!((0..1_000).all(|_| rule.receives() == Advice::Stay));
    }

    #[test]
    fn the_short_way_in_a_ring_says_what_the_long_one_does() {
        let rules = [Rule::default(), promoted()].into_iter().flat_map(|rule| {
            (0..=u8::MAX)
                .flat_map(move |small| [0, 1].map(|large| Rule { small, large, answers: 3, caution: 2, ..rule }))
        });
        let mut short = 0;
        for (rule, bytes) in rules.flat_map(|rule| [1, SMALL, LARGE - 1, LARGE].map(|bytes| (rule, bytes))) {
            let mut long = rule;
            let advice = long.sends(bytes);
            if let Some(word) = Rule::sends_in_ring(rule.to_word(), bytes) {
                assert_eq!((word, advice), (long.to_word(), Advice::Stay), "{rule:?} {bytes}");
                short += 1;
            }
        }
        assert_eq!(short, 256 * 3, "all small ones in a ring");
    }

    #[test]
    fn a_word_keeps_it() {
        let rule = promoted();
        assert_eq!(Rule::from_word(rule.to_word()), rule);
        assert_eq!(Rule::from_word(u64::MAX).caution, MAX_CAUTION);
        assert!(PathReason::ALL.iter().all(|why| PathReason::of(*why as u64) == Some(*why)));
    }
}
