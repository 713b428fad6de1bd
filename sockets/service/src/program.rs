//! One program: its connection, its banks and the streams in them.
//!
//! Its messages are read until it hangs up. The bytes in its rings are still sent then, and after that it is
//! forgotten. The service hangs up on a program that breaks the protocol. That does no harm: the program continues by
//! itself, from the service's last position.

use super::content::Content;
use super::ledger::{Kind, Permit};
use super::rows::Listed;
use super::source::{Source, What};
use super::transfer::{Over, PlaceRef, Stream, Turn};
use super::user_context::UserContext;
use sidecore_core::words;
use sidecore_daemon::sys::message::take_descriptors;
use sidecore_daemon::sys::{peer, wake};
use sidecore_ipc::message;
use sidecore_ipc::sys::clock;
use sidecore_ipc::sys::packet::{MAX_PACKET, receive};
use sidecore_ipc::versions::{SIDECORE, other_version};
use sidecore_sockets::protocol::{Ask, MAX_NAME, RefusalCode, Refused, Reply};
use sidecore_sockets::shm::BankMemory;
use sidecore_streams::layout::{ABI, Bank, MAX_BANKS, PLACES};
use sidecore_streams::own::Recent;
use sidecore_streams::saving::BreakEven;
use sidecore_streams::sweep::{ClientId, Outcome, StreamId};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most messages of one program in a row.
pub(super) const MAX_MESSAGES: usize = 16;
/// Most messages read of an ended process: more than a connection has room for. Its child may send forever.
pub(super) const MAX_LAST_MESSAGES: usize = 1024;

#[derive(Debug)]
pub(super) struct Program {
    pub(super) serial: u32,
    client: ClientId,
    socket: OwnedFd,
    role: Role,
    banks: Vec<Arc<BankMemory>>,
    slots: Vec<Slot>,
    open: u32,
    recent: Recent,
    hung_up: bool,
    /// The service ends: new streams are refused.
    parting: bool,
    /// Dropped last.
    permits: Vec<Permit>,
}

/// Its role, which its first message states.
#[derive(Debug)]
enum Role {
    New,
    Asking,
    Sending(Sending),
}

#[derive(Debug)]
struct Sending {
    listed: Arc<Listed>,
    /// The end of the doorbell's pipe that is waited on, and never read.
    doorbell: OwnedFd,
    /// Reports the end of the process, also where its child still holds the connection.
    process: Option<OwnedFd>,
}

#[derive(Debug, Default)]
struct Slot {
    stream: Option<Stream>,
    /// Number of the present stream, or of the last one.
    number: u32,
}

#[derive(Debug)]
enum End {
    Gone,
    /// The service hangs up, after sending this.
    Refused(Refused),
}

impl Program {
    pub(super) fn new(socket: OwnedFd, permit: Permit, serial: u32, context: &mut UserContext) -> io::Result<Self> {
        let client = context.sweep.add_client(1);
        let program = Self {
            serial,
            client,
            socket,
            role: Role::New,
            banks: Vec::new(),
            slots: Vec::new(),
            open: 0,
            recent: Recent::default(),
            hung_up: false,
            parting: false,
            permits: vec![permit],
        };
        match context.poller.add_level(&program.socket, program.source(What::Control)) {
            Ok(()) => Ok(program),
            Err(error) => {
                program.dismiss(context);
                Err(error)
            }
        }
    }

    pub(super) fn client(&self) -> ClientId {
        self.client
    }

    fn source(&self, what: What) -> u64 {
        Source { client: self.client, serial: self.serial, what }.number()
    }

    pub(super) fn is_over(&self) -> bool {
        (self.hung_up || self.parting) && self.open == 0
    }

    fn has_come_to_something(&self) -> bool {
        matches!(self.role, Role::Asking) || self.slots.iter().any(|slot| slot.number != 0)
    }

    pub(super) fn dismiss(self, context: &mut UserContext) {
        context.sweep.remove_client(self.client);
        if !self.has_come_to_something() {
            context.shared.wasted.fetch_add(1, Ordering::Relaxed);
        }
        context.poller.remove(&self.socket);
        if let Role::Sending(Sending { doorbell, process, .. }) = &self.role {
            // The program has the other references to these open files, and the poller would keep them.
            context.poller.remove(doorbell);
            if let Some(process) = process {
                context.poller.remove(process);
            }
            context.shared.registry.remove(self.serial, clock::now());
        }
        context.close(self);
    }

    pub(super) fn hear(&mut self, context: &mut UserContext, most: usize) {
        for _ in 0..most {
            if self.hung_up {
                return;
            }
            match self.hear_one(context) {
                Ok(true) => {}
                Ok(false) => return,
                Err(End::Gone) => self.bereave(context, self.cannot_be_watched()),
                Err(End::Refused(why)) => self.hang_up(context, why),
            }
        }
    }

    fn cannot_be_watched(&self) -> bool {
        !matches!(self.role, Role::Sending(Sending { process: Some(_), .. }))
    }

    /// Reads one message. `false`: there is none now.
    fn hear_one(&mut self, context: &mut UserContext) -> Result<bool, End> {
        let mut buffer = [0; MAX_PACKET];
        let (len, fds) = match receive(&self.socket, &mut buffer) {
            Ok(received) => received,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(false),
                // It ended without reading an answer. Its earlier messages come next.
                io::ErrorKind::ConnectionReset => return Ok(true),
                io::ErrorKind::InvalidData | io::ErrorKind::QuotaExceeded => {
                    return Err(End::Refused(Refused::protocol(
                        "more than a message of this protocol, or no descriptor left: program and service must be of one version; else \
                         raise the service's limit on files",
                    )));
                }
                _ => return Err(End::Gone),
            },
        };
        let mut fds = fds.into_iter();
        let socket = fds.next();
        let more: Vec<OwnedFd> = fds.collect();
        let only_one = more.is_empty();
        if !only_one {
            context.close(more);
        }
        if len == 0 && socket.is_none() && only_one {
            return Err(End::Gone);
        }
        let ask = message::decode(&buffer[..len]).ok().filter(|_| only_one);
        match (ask, socket) {
            (Some(Ask::Promote { place, stream }), Some(socket)) => {
                self.promote(context, (place, stream), socket, None)?;
            }
            (Some(Ask::PromoteTo { place, stream, to }), Some(socket)) => {
                self.promote(context, (place, stream), socket, Some(to))?;
            }
            (Some(ask), None) => self.answer(context, ask)?,
            (_, socket) => {
                if let Some(socket) = socket {
                    context.close(socket);
                }
                let other = message::stated_layout(&buffer[..len]).and_then(of_other_layout);
                let what = other.unwrap_or_else(|| {
                    Refused::protocol(format_args!(
                        "no message of this protocol: restart the program; the service is sidecore {SIDECORE}"
                    ))
                });
                return Err(End::Refused(what));
            }
        }
        Ok(true)
    }

    fn answer(&mut self, context: &mut UserContext, ask: Ask) -> Result<(), End> {
        match (ask, &self.role) {
            (Ask::Hello { abi, name }, Role::New) => self.welcome(context, abi, &name).map_err(End::Refused),
            (Ask::Bank, Role::Sending(_)) => match self.add_bank(context) {
                Ok(memory) => self.reply(&Reply::Bank, &[memory.as_fd()]).map_err(End::Refused),
                Err(why) => self.reply(&Reply::NoBank(why.text), &[]).map_err(End::Refused),
            },
            (Ask::List { from }, Role::New | Role::Asking) => {
                self.role = Role::Asking;
                let (rows, next) = context.shared.registry.page(context.uid, from, clock::now());
                self.reply(&Reply::Sockets { rows, next }, &[]).map_err(End::Refused)
            }
            (Ask::Reports { fresh }, Role::New | Role::Asking) => {
                self.role = Role::Asking;
                let (pending, others) = context.shared.registry.reports(context.uid, fresh);
                self.reply(&Reply::Reports { pending, others }, &[]).map_err(End::Refused)
            }
            (Ask::Report(report), Role::Sending(sending)) => {
                sending.listed.reports.take(report).map_err(|why| End::Refused(Refused::protocol(why)))
            }
            _ => Err(End::Refused(Refused::protocol(
                "out of turn: connect, say hello, and ask for sockets or about them",
            ))),
        }
    }

    /// Sends an answer. A program that does not read its answers loses its connection. One that is gone may have sent
    /// messages before.
    fn reply(&self, reply: &Reply, fds: &[BorrowedFd<'_>]) -> Result<(), Refused> {
        match message::send(&self.socket, reply, fds) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Refused::protocol("answers are not read")),
            _ => Ok(()),
        }
    }

    fn welcome(&mut self, context: &mut UserContext, abi: u32, name: &str) -> Result<(), Refused> {
        if let Some(refusal) = of_other_layout(abi) {
            return Err(refusal);
        }
        let system = |error: io::Error| {
            Refused::limit(format_args!(
                "the service has no means for one more program: {error}; end some, or raise its limits on files and memory"
            ))
        };
        let peer = peer::credentials(&self.socket).map_err(system)?;
        let (reader, writer) = wake::pipe().map_err(system)?;
        take_descriptors(&self.socket).map_err(system)?;
        context.poller.add_edge(&reader, self.source(What::Doorbell)).map_err(system)?;
        // From Linux 6.5 on.
        let process = peer::process(&self.socket).ok();
        let process = process.filter(|process| context.poller.add_once(process, self.source(What::Process)).is_ok());
        let name = cut(name);
        context.sweep.set_weight(self.client, context.shared.limits.weight_of(&name));
        let listed =
            Arc::new(Listed::new((context.uid, peer.pid), name, context.meter.price().clone(), context.bell.clone()));
        context.shared.registry.add(self.serial, listed.clone());
        let given = reader.try_clone();
        self.role = Role::Sending(Sending { listed, doorbell: reader, process });
        let memory = self.add_bank(context)?;
        if let Some(first) = self.banks.first() {
            first.doorbell().arm();
        }
        self.tell(context.break_even());
        let ring_bytes = context.shared.limits.ring_bytes();
        self.reply(&Reply::Welcome { ring_bytes }, &[memory.as_fd(), writer.as_fd(), given.map_err(system)?.as_fd()])
    }

    fn add_bank(&mut self, context: &mut UserContext) -> Result<OwnedFd, Refused> {
        if self.banks.len() == MAX_BANKS as usize {
            let why = format_args!("a program has {MAX_BANKS} banks at most: its other connections stay on the kernel");
            return Err(Refused::limit(why));
        }
        let bank = Bank::new(context.shared.limits.ring_bytes()).ok_or_else(|| Refused::other("no such ring"))?;
        let permit = context.ledger.take(Kind::Bytes, bank.total_bytes() as u64)?;
        let (memory, file) = BankMemory::create(bank)
            .map_err(|error| Refused::limit(format_args!("the service has no memory for it: {error}")))?;
        let memory = Arc::new(memory);
        if let Role::Sending(sending) = &self.role {
            sending.listed.add(memory.clone());
        }
        self.banks.push(memory);
        self.slots.extend((0..PLACES).map(|_| Slot::default()));
        self.permits.push(permit);
        context.sweep.add_places(self.client, PLACES);
        Ok(file)
    }

    fn promote(
        &mut self,
        context: &mut UserContext,
        (place, number): (u32, u32),
        socket: OwnedFd,
        to: Option<SocketAddr>,
    ) -> Result<(), End> {
        let refused = |why: &str| Err(End::Refused(Refused::protocol(why)));
        let Some(slot) = self.slots.get_mut(place as usize).filter(|slot| slot.stream.is_none()) else {
            context.close(socket);
            return refused("a stream where there is no place for one");
        };
        if slot.number == number {
            context.close(socket);
            return refused("a stream with the number of the one before");
        }
        let permit = match context.ledger.take(Kind::Sockets, 1) {
            Ok(permit) => permit,
            Err(why) => {
                context.close(socket);
                return Err(End::Refused(why));
            }
        };
        slot.number = number;
        let at = PlaceRef { memory: &self.banks[(place / PLACES) as usize], place: place % PLACES };
        let Some(kind) = Content::of(&socket, to).filter(|_| !self.parting) else {
            at.refuse(number);
            context.close((socket, permit));
            return Ok(());
        };
        let peer = kind.peer(&socket);
        slot.stream = Some(Stream::begin(at, number, (socket, kind), permit, context.ledger.sockets_exceed()));
        self.open += 1;
        if let Role::Sending(sending) = &self.role {
            sending.listed.begin(place, peer);
        }
        context.sweep.announce(self.client, place);
        Ok(())
    }

    /// True: the question is sent. While the program reads nothing, the report stays wanted.
    pub(super) fn ask_for_report(&self) -> bool {
        let Role::Sending(Sending { listed, .. }) = &self.role else { return false };
        let asks = listed.reports.is_wanted() && message::send(&self.socket, &Reply::Describe, &[]).is_ok();
        if asks {
            listed.reports.asked();
        }
        asks
    }

    fn silence(&mut self) {
        self.hung_up = true;
        if let Role::Sending(Sending { listed, .. }) = &self.role {
            listed.reports.end();
        }
    }

    pub(super) fn tell(&self, break_even: BreakEven) {
        if let Some(first) = self.banks.first() {
            first.gathered()[0].store(break_even.to_word(), Ordering::Relaxed);
        }
    }

    /// The kernel has room for a stream again, or an error.
    pub(super) fn resume(&mut self, context: &mut UserContext, id: StreamId) {
        let Some(memory) = self.banks.get((id / PLACES) as usize) else { return };
        let at = PlaceRef { memory, place: id % PLACES };
        let is_broken = self.slots[id as usize].stream.as_mut().is_some_and(|stream| stream.is_broken(at));
        if is_broken {
            self.end(context, id, Over::GivenBack);
        } else {
            context.sweep.announce(self.client, id);
        }
    }

    pub(super) fn serve(&mut self, context: &mut UserContext, id: StreamId) -> (Outcome, u32) {
        let Some(memory) = self.banks.get((id / PLACES) as usize) else { return (Outcome::Empty, 0) };
        let at = PlaceRef { memory, place: id % PLACES };
        let Some(stream) = &mut self.slots[id as usize].stream else { return (Outcome::Empty, 0) };
        let turn = stream.serve(at, &mut context.meter);
        let moved = stream.moved();
        if moved > 0 {
            let ([_, messages, calls], gathered) = (self.banks[0].gathered(), stream.gathered(at));
            words::add(messages, gathered);
            words::add(calls, 1);
            if self.recent.is_in_vain(gathered) && !context.spins {
                self.banks[0].doorbell().arm();
            }
        }
        let outcome = match turn {
            Turn::More => Outcome::More,
            Turn::Empty => Outcome::Empty,
            Turn::Held => {
                context.held.push((self.client, id));
                Outcome::Empty
            }
            Turn::Blocked => {
                let number = Source { client: self.client, serial: self.serial, what: What::Stream(id) }.number();
                let known = stream.now_polled();
                if context.poller.watch_writable(stream.socket(), number, known).is_err() {
                    let over = stream.part(at, &mut context.meter, false).unwrap_or(Over::Cut);
                    self.end(context, id, over);
                }
                Outcome::Blocked
            }
            Turn::Over(over) => {
                self.end(context, id, over);
                Outcome::Empty
            }
        };
        (outcome, moved)
    }

    fn end(&mut self, context: &UserContext, id: StreamId, over: Over) {
        let Some(stream) = self.slots[id as usize].stream.take() else { return };
        self.open -= 1;
        if stream.is_polled() {
            context.poller.remove(stream.socket());
        }
        if let Role::Sending(sending) = &self.role {
            sending.listed.end(id);
        }
        stream.conclude(PlaceRef { memory: &self.banks[(id / PLACES) as usize], place: id % PLACES }, over);
        context.close(stream);
    }

    fn each(
        &mut self,
        context: &mut UserContext,
        mut act: impl FnMut(&mut UserContext, StreamId, &mut Stream, PlaceRef<'_>) -> Option<Over>,
    ) {
        for id in 0..self.slots.len() {
            let at = PlaceRef { memory: &self.banks[id / PLACES as usize], place: id as u32 % PLACES };
            let over = self.slots[id].stream.as_mut().and_then(|stream| act(context, id as u32, stream, at));
            if let Some(over) = over {
                self.end(context, id as u32, over);
            }
        }
    }

    /// It has hung up, or is `dead`. The bytes in its rings are still sent.
    pub(super) fn bereave(&mut self, context: &mut UserContext, dead: bool) {
        self.silence();
        context.poller.remove(&self.socket);
        let client = self.client;
        self.each(context, |context, id, stream, at| {
            if stream.bereave(at, dead) {
                context.sweep.announce(client, id);
                return None;
            }
            Some(Over::Cut)
        });
    }

    /// Ends the connection of a program that broke the protocol, which continues alone. Streams that it left before
    /// are still sent.
    pub(super) fn hang_up(&mut self, context: &mut UserContext, why: Refused) {
        self.silence();
        let _ = self.reply(&Reply::Refused(why), &[]);
        context.poller.remove(&self.socket);
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        self.give_streams_back(context, false);
    }

    /// The service ends, and the program continues alone. The connection stays open until its rings are empty: after
    /// its end the program would take over a hold from the sidecore during a transfer.
    pub(super) fn part(&mut self, context: &mut UserContext) {
        self.parting = true;
        self.give_streams_back(context, true);
    }

    fn give_streams_back(&mut self, context: &mut UserContext, ending: bool) {
        let client = self.client;
        self.each(context, |context, id, stream, at| {
            let over = stream.part(at, &mut context.meter, ending);
            if over.is_none() {
                context.sweep.announce(client, id);
            }
            over
        });
    }

    /// After the bell is shut a program does not ring.
    pub(super) fn look_again(&self, context: &mut UserContext) {
        for (id, _) in self.slots.iter().enumerate().filter(|(_, slot)| slot.stream.is_some()) {
            context.sweep.announce(self.client, id as u32);
        }
    }

    /// Connections of left streams with bytes in their rings are reset.
    pub(super) fn cut(&mut self, context: &mut UserContext) {
        self.each(context, |_, _, stream, at| Some(stream.cut(at)));
    }

    pub(super) fn collect(&self, context: &mut UserContext) {
        let Some(first) = self.banks.first() else { return };
        for (index, word) in first.announced_banks().0.iter().enumerate().take(self.banks.len().div_ceil(64)) {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            for bit in bits(word.swap(0, Ordering::Acquire)) {
                let bank = index as u32 * 64 + bit;
                let Some(memory) = self.banks.get(bank as usize) else { continue };
                for place in bits(memory.announced().swap(0, Ordering::Acquire)) {
                    context.sweep.announce(self.client, bank * PLACES + place);
                }
            }
        }
    }

    pub(super) fn arm(&self) {
        self.banks.iter().take(1).for_each(|first| first.doorbell().arm());
    }

    pub(super) fn disarm(&self) {
        self.banks.iter().take(1).for_each(|first| first.doorbell().disarm());
    }
}

fn of_other_layout(theirs: u32) -> Option<Refused> {
    let why = (theirs != ABI).then(|| other_version("the program speaks socket layout", theirs, ABI));
    why.map(|why| Refused::new(RefusalCode::OtherVersion, why))
}

fn cut(name: &str) -> String {
    let whole = |(at, char): (usize, char)| Some(at + char.len_utf8()).filter(|end| *end <= MAX_NAME);
    name[..name.char_indices().map_while(whole).last().unwrap_or(0)].to_owned()
}

fn bits(word: u64) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(word), |rest| Some(rest & rest.wrapping_sub(1)))
        .take_while(|rest| *rest != 0)
        .map(u64::trailing_zeros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SocketsConfig;
    use crate::ledger::Ledger;
    use crate::meter::Meter;
    use crate::reports::Bell;
    use crate::shared::Shared;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use sidecore_daemon::sys::poller::Poller;
    use sidecore_streams::sweep::Sweep;
    use std::collections::BTreeMap;
    use std::sync::mpsc;

    const TRANSFERS: u32 = 20_000;
    /// Time of each, ns.
    const TOOK: u64 = 10_000;

    fn context(limits: SocketsConfig) -> UserContext {
        let ledger = Ledger::new(limits.clone());
        let (poller, sweep, meter) = (Poller::new().unwrap(), Sweep::new(), Meter::new());
        let closing = mpsc::channel().0;
        UserContext {
            shared: Arc::new(Shared::of(limits)),
            uid: 0,
            bell: Arc::new(Bell::new().unwrap()),
            ledger,
            poller,
            sweep,
            meter,
            spins: false,
            held: Vec::new(),
            closing,
        }
    }

    fn named(context: &mut UserContext, name: &str) -> (Program, OwnedFd) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (here, there) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        message::send(&there, &Ask::Hello { abi: ABI, name: name.to_owned() }, &[]).unwrap();
        let permit = context.ledger.take(Kind::Programs, 1).unwrap();
        let mut program = Program::new(here, permit, 0, context).unwrap();
        program.hear(context, MAX_MESSAGES);
        assert!(matches!(program.role, Role::Sending(_)));
        (program, there)
    }

    #[test]
    fn programs_of_one_user_have_shares_by_weight() {
        let weights = BTreeMap::from([("heavy".to_owned(), 4)]);
        let mut context = context(SocketsConfig { weights, ..SocketsConfig::default() });
        let programs = ["light", "heavy"].map(|name| named(&mut context, name));
        for (program, _) in &programs {
            (0..PLACES).for_each(|place| context.sweep.announce(program.client, place));
        }
        let mut turns = [0_u32; 2];
        for _ in 0..TRANSFERS {
            let (client, stream) = context.sweep.take().unwrap();
            turns[programs.iter().position(|(program, _)| program.client == client).unwrap()] += 1;
            context.sweep.served(client, stream, TOOK, u32::MAX, Outcome::More);
        }
        assert_eq!(turns, [TRANSFERS / 5, TRANSFERS / 5 * 4]);
    }
}
