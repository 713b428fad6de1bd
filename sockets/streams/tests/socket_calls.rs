//! A model of program, service and kernel at the level of calls: all orders of sends, shutdowns, closes, aborts, reads
//! and resets of the peer, with the service stopped and killed between any two of its steps.
//!
//! Two connections of one program go through rings of two bytes to a kernel with room for three. The service moves one
//! byte at a time, in three steps: it takes the ring, sends, and stores its position. Left out: a program's drain of a
//! ring is one step, and a program that dies after its service did so in the same instant loses what is in the ring.

use std::collections::HashSet;

const RING: u8 = 2;
const KERNEL: u8 = 3;
/// Bytes that the program sends on a connection, at most. The second one only shares the service.
const MOST: [u8; 2] = [6, 1];

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    Nothing,
    /// The library has the kernel announce room after a send that the service held up.
    Edges,
    /// An abort discards the ring, and resets the connection itself.
    Aborts,
    /// A program keeps what it left, for the case that the service dies.
    Keeping,
    /// An error that the service met is told in place of the kernel's next one.
    FirstErrors,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Service {
    Runs,
    Stopped,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Side {
    Open,
    /// The program shut its sending side, and has the descriptor.
    Shut,
    Closed,
    Aborted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Taken,
    Sent,
    Full,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Seen {
    End,
    Reset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Told {
    Reset,
    Pipe,
}

#[expect(clippy::struct_excessive_bools, reason = "facts that are independent of each other")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Connection {
    accepted: u8,
    ring: u8,
    kernel: u8,
    got: u8,
    side: Side,
    /// The service has the socket.
    served: bool,
    step: Option<Step>,
    /// The program keeps the ring that it left.
    kept: bool,
    /// The kernel tells it to the next caller.
    error: bool,
    /// The service left word of it.
    noted: bool,
    told: Option<Told>,
    /// The kernel refused a byte, and will announce room.
    refused: bool,
    edge: bool,
    waits: bool,
    owed: bool,
    /// The end of the stream is behind the kernel's bytes.
    end: bool,
    reset: bool,
    seen: Option<Seen>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    service: Service,
    stops: u8,
    resets: u8,
    program: bool,
    all: [Connection; 2],
}

impl Connection {
    const NEW: Self = Self {
        accepted: 0,
        ring: 0,
        kernel: 0,
        got: 0,
        side: Side::Open,
        served: true,
        step: None,
        kept: false,
        error: false,
        noted: false,
        told: None,
        refused: false,
        edge: false,
        waits: false,
        owed: false,
        end: false,
        reset: false,
        seen: None,
    };

    /// The program gives the ring to the kernel. `false`: the kernel has no room for all.
    fn drain(&mut self, without: Without) -> bool {
        if self.reset && self.ring > 0 {
            let known = self.noted && without != Without::FirstErrors || std::mem::take(&mut self.error);
            self.told.get_or_insert(if known { Told::Reset } else { Told::Pipe });
            (self.ring, self.served) = (0, false);
            return true;
        }
        while self.ring > 0 && self.kernel < KERNEL {
            (self.ring, self.kernel) = (self.ring - 1, self.kernel + 1);
        }
        self.refused |= self.ring > 0;
        self.ring == 0
    }

    fn send(&mut self, without: Without) {
        let is_held = self.step.is_some();
        if self.ring == RING && is_held {
            (self.waits, self.owed) = (true, without != Without::Edges);
            return;
        }
        let alone = !self.served;
        if self.ring == RING || alone && self.ring > 0 {
            self.drain(without);
        }
        if self.told.is_some() {
            return;
        }
        if self.ring == RING {
            self.waits = true;
            return;
        }
        (self.ring, self.accepted) = (self.ring + 1, self.accepted + 1);
        if alone {
            self.drain(without);
        }
    }

    /// A shutdown or a close.
    fn leave(&mut self, side: Side, without: Without) {
        self.side = side;
        self.waits = false;
        if self.step.is_none() {
            self.drain(without);
        }
        if self.ring == 0 && self.step.is_none() {
            (self.end, self.served) = (true, false);
        } else {
            self.kept = without != Without::Keeping || !self.served;
        }
    }

    fn abort(&mut self, without: Without) {
        if without == Without::Aborts {
            return self.leave(Side::Closed, without);
        }
        (self.side, self.waits, self.ring) = (Side::Aborted, false, 0);
        self.break_off();
    }

    fn break_off(&mut self) {
        (self.reset, self.kernel) = (true, 0);
        self.seen.get_or_insert(Seen::Reset);
    }

    /// The step of the service that follows. `false`: there is none.
    fn serve(&mut self) -> bool {
        match self.step {
            None if self.served && self.ring > 0 => self.step = Some(Step::Taken),
            None if self.served && self.has_ended() => {
                (self.end, self.served, self.kept) = (true, false, false);
            }
            None => return false,
            Some(Step::Taken) if self.reset => {
                self.step = Some(Step::Failed);
                // The kernel's next answer is another one.
                self.noted |= std::mem::take(&mut self.error);
            }
            Some(Step::Taken) if self.kernel < KERNEL => {
                self.kernel += 1;
                self.step = Some(Step::Sent);
            }
            Some(Step::Taken) => {
                self.refused = true;
                self.step = Some(Step::Full);
            }
            Some(Step::Sent) => {
                self.ring = self.ring.saturating_sub(1);
                self.step = None;
            }
            Some(Step::Full) => self.step = None,
            Some(Step::Failed) => (self.step, self.served, self.kept) = (None, false, false),
        }
        true
    }

    /// The service is killed: the kernel's count tells what it has sent.
    fn lose_service(&mut self, program: bool) {
        if self.step == Some(Step::Sent) {
            self.ring = self.ring.saturating_sub(1);
        }
        let was_served = std::mem::take(&mut self.served);
        self.step = None;
        if was_served && self.side == Side::Closed && !(self.kept && program) {
            // That was the last descriptor.
            if self.ring > 0 { self.break_off() } else { self.end = true }
        }
    }

    /// The program is killed, and the kernel closes its descriptors. The service sends the rest.
    fn lose_program(&mut self) {
        (self.waits, self.owed, self.kept) = (false, false, false);
        if self.side != Side::Aborted {
            self.side = Side::Closed;
            self.end |= !self.served;
        }
    }

    fn has_ended(&self) -> bool {
        matches!(self.side, Side::Shut | Side::Closed)
    }

    /// What the library's threads do by themselves. `false`: nothing.
    fn help(&mut self, without: Without, service: Service) -> bool {
        if self.owed && self.step.is_none() {
            let has_room = self.drain(without) && self.kernel < KERNEL;
            self.refused |= !has_room;
            self.edge |= has_room || self.told.is_some();
            self.owed = false;
            return true;
        }
        if service == Service::Dead && self.kept && self.has_ended() {
            let before = *self;
            if self.drain(without) {
                (self.end, self.kept) = (true, false);
            }
            return *self != before;
        }
        if service == Service::Dead && self.side == Side::Open && self.ring > 0 && !self.reset {
            let before = *self;
            self.drain(without);
            return *self != before;
        }
        false
    }

    /// The peer reads a byte or the end. `false`: there is nothing.
    fn read(&mut self) -> bool {
        if self.seen.is_some() {
            return false;
        }
        if self.kernel > 0 {
            (self.kernel, self.got) = (self.kernel - 1, self.got + 1);
            self.edge |= std::mem::take(&mut self.refused);
            return true;
        }
        if self.end {
            self.seen = Some(Seen::End);
        }
        self.end
    }

    fn check(&self) -> Result<(), &'static str> {
        match (self.seen, self.side) {
            _ if self.told == Some(Told::Pipe) && self.side == Side::Open => Err("the reason is lost"),
            (Some(Seen::End), Side::Aborted) => Err("an abort looks like an end"),
            (Some(Seen::End), _) if self.got != self.accepted => Err("an end comes before the last byte"),
            _ if self.got + self.kernel > self.accepted => Err("a byte is sent twice"),
            _ => Ok(()),
        }
    }

    /// In a world where nothing more happens by itself.
    fn check_at_rest(&self, aborted: bool) -> Result<(), &'static str> {
        match (self.seen, self.side) {
            _ if self.waits => Err("the program waits for ever"),
            (None, Side::Shut | Side::Closed | Side::Aborted) => Err("the peer waits for ever"),
            (Some(Seen::End), _) if aborted => Err("an abort looks like an end"),
            _ => Ok(()),
        }
    }
}

impl World {
    const START: Self =
        Self { service: Service::Runs, stops: 1, resets: 1, program: true, all: [Connection::NEW, Connection::NEW] };

    /// The worlds after a step that happens by itself sooner or later.
    fn next(&self, without: Without, to: &mut Vec<Self>) {
        for (at, connection) in self.all.iter().enumerate() {
            let mut change = |act: &dyn Fn(&mut Connection) -> bool| {
                let mut next = *self;
                if act(&mut next.all[at]) {
                    to.push(next);
                }
            };
            let is_alone = self.all.iter().enumerate().all(|(other, one)| other == at || one.step.is_none());
            if self.service == Service::Runs && is_alone {
                change(&Connection::serve);
            }
            change(&Connection::read);
            if self.program {
                change(&|one| one.help(without, self.service));
            }
            if self.program && connection.waits && connection.edge {
                change(&|one| {
                    (one.waits, one.edge) = (false, false);
                    one.send(without);
                    true
                });
            }
        }
        if self.service == Service::Stopped {
            to.push(Self { service: Service::Runs, ..*self });
        }
    }

    /// The worlds after what program, peer and operator may do.
    fn choices(&self, without: Without, to: &mut Vec<(Self, bool)>) {
        for (at, connection) in self.all.iter().enumerate() {
            let mut change = |aborts: bool, act: &dyn Fn(&mut Connection)| {
                let mut next = *self;
                act(&mut next.all[at]);
                to.push((next, aborts));
            };
            let acts = self.program && connection.side == Side::Open;
            if acts && !connection.waits && connection.told.is_none() && connection.accepted < MOST[at] {
                change(false, &|one| one.send(without));
            }
            if acts {
                change(false, &|one| one.leave(Side::Shut, without));
                change(false, &|one| one.leave(Side::Closed, without));
                change(at == 0, &|one| one.abort(without));
            }
        }
        if self.resets > 0 && self.all[0].seen.is_none() {
            let mut next = Self { resets: 0, ..*self };
            let one = &mut next.all[0];
            one.break_off();
            (one.error, one.edge) = (true, true);
            to.push((next, false));
        }
        if self.service == Service::Runs && self.stops > 0 {
            to.push((Self { service: Service::Stopped, stops: self.stops - 1, ..*self }, false));
        }
        if self.program && self.service != Service::Dead {
            let mut next = Self { program: false, ..*self };
            next.all.iter_mut().for_each(Connection::lose_program);
            to.push((next, false));
        }
        if self.service != Service::Dead {
            let mut next = Self { service: Service::Dead, ..*self };
            next.all.iter_mut().for_each(|one| one.lose_service(self.program));
            to.push((next, false));
        }
    }
}

/// The number of worlds that can be, or the first broken promise.
fn explore(without: Without) -> Result<usize, String> {
    let mut known = HashSet::from([(World::START, false)]);
    let mut open = vec![(World::START, false)];
    while let Some((world, aborted)) = open.pop() {
        let (mut by_itself, mut choices) = (Vec::new(), Vec::new());
        world.next(without, &mut by_itself);
        let told = |why: &str| format!("{why}: {world:?}");
        for (at, connection) in world.all.iter().enumerate() {
            connection.check().map_err(told)?;
            if by_itself.is_empty() {
                connection.check_at_rest(aborted && at == 0).map_err(told)?;
            }
        }
        world.choices(without, &mut choices);
        let by_itself = by_itself.into_iter().map(|next| (next, false));
        for (next, aborts) in by_itself.chain(choices) {
            let next = (next, aborted || aborts);
            if known.insert(next) {
                open.push(next);
            }
        }
    }
    Ok(known.len())
}

#[test]
fn accepted_bytes_arrive_or_a_reset_and_nobody_waits_for_ever() {
    let worlds = explore(Without::Nothing).unwrap();
    assert!(worlds > 100_000, "{worlds} worlds");
}

#[test]
fn each_rule_is_needed() {
    for (without, promise) in [
        (Without::Edges, "the program waits for ever"),
        (Without::Aborts, "an abort looks like an end"),
        (Without::Keeping, "the peer waits for ever"),
        (Without::FirstErrors, "the reason is lost"),
    ] {
        let broken = explore(without).unwrap_err();
        assert!(broken.starts_with(promise), "{without:?}: {broken}");
    }
}
