//! Processors with a scheduler.
//!
//! A world submits sections of work ([`Cpu::run`]), and an event reports the end of each. A section has an owner (a
//! thread, an interrupt line), a level and an account. Levels: an interrupt preempts all others; a kernel section is
//! preempted by interrupts only, and waiting kernel sections go before users; user sections go in turn. If the owner
//! on a processor changes, a context switch is paid, except by interrupts.

use crate::engine::{Engine, Timer};
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Preempted by all others.
    User,
    /// Preempted by interrupts; waits for no user.
    Kernel,
    /// Never preempted.
    Interrupt,
}

const LEVELS: usize = 3;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    /// Thread or interrupt line.
    pub(crate) owner: u32,
    pub(crate) level: Level,
    pub(crate) account: usize,
    /// Time on a processor of its own, ns.
    pub(crate) time: Nanos,
}

impl Section {
    fn whole(self) -> (Self, f64) {
        (self, self.time as f64)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) cores: u32,
    /// Time of a context switch, ns.
    pub(crate) switch: Nanos,
    pub(crate) accounts: usize,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    section: Section,
    /// Work left at `since`, ns.
    left: f64,
    since: Nanos,
    timer: Timer,
}

#[derive(Debug, Default)]
struct Processor {
    running: Option<Running>,
    /// Sections interrupted here, the last one on top.
    interrupted: Vec<(Section, f64)>,
    last_owner: Option<u32>,
}

pub(crate) struct Cpu<E> {
    shape: Shape,
    processors: Vec<Processor>,
    waiting: [VecDeque<Section>; LEVELS],
    /// CPU time on each account, ns.
    pub(crate) booked: Vec<f64>,
    pub(crate) switches: u64,
    done: fn(u32) -> E,
}

impl<E: Copy> Cpu<E> {
    /// Idle processors. `done` makes the event for the end of a section on a processor; the world must answer it with
    /// [`Cpu::finish`].
    pub(crate) fn new(shape: Shape, done: fn(u32) -> E) -> Self {
        let processors = (0..shape.cores.max(1)).map(|_| Processor::default()).collect();
        let booked = vec![0.0; shape.accounts];
        Self { shape, processors, waiting: Default::default(), booked, switches: 0, done }
    }

    pub(crate) fn run(&mut self, engine: &mut Engine<E>, section: Section) {
        match self.free_processor(&section).or_else(|| self.interrupt(engine, section.level)) {
            Some(processor) => self.start(engine, processor, section.whole()),
            None => self.waiting[section.level as usize].push_back(section),
        }
    }

    pub(crate) fn current(&self, processor: u32) -> Section {
        self.processors[processor as usize].running.expect("an event tells of a section that runs").section
    }

    /// Ends the section on this processor. Its owner continues with `follow` before any other section gets the
    /// processor; the scheduler then sees `arrivals`. Call it once per event, before adding new work.
    pub(crate) fn finish(
        &mut self,
        engine: &mut Engine<E>,
        processor: u32,
        follow: Option<Section>,
        arrivals: &[Section],
    ) -> Section {
        let done = self.current(processor);
        let index = processor as usize;
        self.settle(engine.now(), index);
        self.processors[index].running = None;
        if let Some(section) = follow {
            self.start(engine, index, section.whole());
            for section in arrivals {
                self.run(engine, *section);
            }
            return done;
        }
        for section in arrivals {
            self.waiting[section.level as usize].push_back(*section);
        }
        self.next(engine, index);
        for level in 0..LEVELS {
            let arrived = arrivals.iter().filter(|section| section.level as usize == level).count();
            let others = self.waiting[level].len().saturating_sub(arrived);
            for section in self.waiting[level].split_off(others) {
                self.run(engine, section);
            }
        }
        done
    }

    /// Chooses an idle processor: the last one of this owner (warm caches), else any.
    fn free_processor(&self, section: &Section) -> Option<usize> {
        let idle = |index: &usize| self.processors[*index].running.is_none();
        let is_other = |index: &usize| self.processors[*index].last_owner != Some(section.owner);
        (0..self.processors.len()).filter(idle).min_by_key(is_other)
    }

    /// An interrupt takes the processor with the lowest level, a kernel section one with a user. The interrupted
    /// section continues afterwards.
    fn interrupt(&mut self, engine: &mut Engine<E>, level: Level) -> Option<usize> {
        let level_at = |index: &usize| self.processors[*index].running.map(|running| running.section.level);
        let lowest = (0..self.processors.len()).min_by_key(level_at)?;
        level_at(&lowest).filter(|running| *running < level)?;
        self.settle(engine.now(), lowest);
        let processor = &mut self.processors[lowest];
        let running = processor.running.take()?;
        engine.cancel(running.timer);
        processor.interrupted.push((running.section, running.left));
        Some(lowest)
    }

    /// Starts the section with this work left, ns, and with a context switch if another thread ran last.
    fn start(&mut self, engine: &mut Engine<E>, index: usize, (section, mut left): (Section, f64)) {
        let last = &mut self.processors[index].last_owner;
        if section.level != Level::Interrupt && last.replace(section.owner) != Some(section.owner) {
            self.switches += 1;
            left += self.shape.switch as f64;
        }
        let timer = engine.after(left.ceil() as Nanos, (self.done)(index as u32));
        self.processors[index].running = Some(Running { section, left, since: engine.now(), timer });
    }

    /// Starts the next section on a processor. Order: waiting interrupts, interrupted kernel sections, waiting kernel
    /// sections, interrupted user sections, waiting users.
    fn next(&mut self, engine: &mut Engine<E>, index: usize) {
        for level in [Level::Interrupt, Level::Kernel, Level::User] {
            let interrupted = self.processors[index].interrupted.pop_if(|(section, _)| section.level == level);
            let next = interrupted.or_else(|| self.waiting[level as usize].pop_front().map(Section::whole));
            if let Some(next) = next {
                return self.start(engine, index, next);
            }
        }
    }

    fn settle(&mut self, now: Nanos, index: usize) {
        if let Some(running) = &mut self.processors[index].running {
            let elapsed = (now - running.since) as f64;
            self.booked[running.section.account] += elapsed;
            running.left = (running.left - elapsed).max(0.0);
            running.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::World;

    struct Machine {
        cpu: Cpu<CpuEvent>,
        done: Vec<(Nanos, u32)>,
    }

    #[derive(Clone, Copy)]
    enum CpuEvent {
        Done(u32),
        Arrive(Section),
    }

    impl World for Machine {
        type Event = CpuEvent;

        fn handle(&mut self, engine: &mut Engine<CpuEvent>, event: CpuEvent) {
            match event {
                CpuEvent::Done(processor) => {
                    let owner = self.cpu.finish(engine, processor, None, &[]).owner;
                    self.done.push((engine.now(), owner));
                }
                CpuEvent::Arrive(section) => self.cpu.run(engine, section),
            }
        }
    }

    fn shape() -> Shape {
        Shape { cores: 1, switch: 10, accounts: 3 }
    }

    fn run(shape: Shape, arrivals: &[(Nanos, u32, Level, Nanos)]) -> Machine {
        let mut engine = Engine::new(1);
        for &(at, owner, level, time) in arrivals {
            engine.schedule(at, CpuEvent::Arrive(Section { owner, level, account: level as usize, time }));
        }
        let mut machine = Machine { cpu: Cpu::new(shape, CpuEvent::Done), done: Vec::new() };
        engine.run(&mut machine, 1_000_000);
        machine
    }

    #[test]
    fn owners_take_turns_and_pay_for_the_switch() {
        let machine = run(shape(), &[(0, 1, Level::User, 100), (0, 2, Level::User, 100), (500, 2, Level::User, 100)]);
        assert_eq!(machine.done, [(110, 1), (220, 2), (600, 2)]);
        assert_eq!((machine.cpu.switches, machine.cpu.booked[0]), (2, 320.0));
    }

    #[test]
    fn interrupts_preempt_and_kernel_goes_before_users() {
        let arrivals = [
            (0, 1, Level::User, 100),
            (20, 9, Level::Interrupt, 50),
            (30, 2, Level::Kernel, 100),
            (40, 3, Level::User, 100),
        ];
        let machine = run(shape(), &arrivals);
        // 1 ran 10 switch + 10; interrupt to 70; kernel 2 to 180; back to 1 with 90 left and a switch; then 3.
        assert_eq!(machine.done, [(70, 9), (180, 2), (280, 1), (390, 3)]);
        assert_eq!(machine.cpu.booked.iter().sum::<f64>().to_bits(), 390.0_f64.to_bits());
        assert!(machine.cpu.processors[0].running.is_none());
    }

    #[test]
    fn an_interrupt_in_the_kernel_comes_back_to_it_first() {
        let arrivals = [
            (0, 1, Level::Kernel, 100),
            (20, 9, Level::Interrupt, 50),
            (30, 8, Level::Interrupt, 50),
            (40, 2, Level::Kernel, 10),
        ];
        assert_eq!(run(shape(), &arrivals).done, [(70, 9), (120, 8), (210, 1), (230, 2)]);
    }

    #[test]
    fn two_cores_work_side_by_side() {
        let two = run(Shape { cores: 2, switch: 0, ..shape() }, &[(0, 1, Level::User, 100), (50, 2, Level::User, 100)]);
        assert_eq!(two.done, [(100, 1), (150, 2)]);
    }

    /// Each section after the first follows the previous one; the first one causes 9.
    struct Chain {
        cpu: Cpu<CpuEvent>,
        follows: u32,
        done: Vec<(Nanos, u32)>,
    }

    impl World for Chain {
        type Event = CpuEvent;

        fn handle(&mut self, engine: &mut Engine<CpuEvent>, event: CpuEvent) {
            match event {
                CpuEvent::Arrive(section) => self.cpu.run(engine, section),
                CpuEvent::Done(processor) => {
                    let ended = self.cpu.current(processor);
                    self.done.push((engine.now(), ended.owner));
                    let follow = (ended.owner == 1 && self.follows > 0).then_some(ended);
                    self.follows -= u32::from(follow.is_some());
                    let caused = Section { owner: 9, level: Level::Kernel, account: 1, time: 50 };
                    let caused = &[caused][usize::from(self.done.len() > 1)..];
                    self.cpu.finish(engine, processor, follow, caused);
                }
            }
        }
    }

    fn chain(follows: u32) -> (Vec<(Nanos, u32)>, u64) {
        let mut engine = Engine::new(1);
        for owner in [1, 2] {
            let section = Section { owner, level: Level::User, account: 0, time: 100 };
            engine.schedule(0, CpuEvent::Arrive(section));
        }
        let mut chain = Chain { cpu: Cpu::new(shape(), CpuEvent::Done), follows, done: Vec::new() };
        engine.run(&mut chain, 1_000_000);
        (chain.done, chain.cpu.switches)
    }

    #[test]
    fn what_an_end_causes_goes_before_who_waits() {
        // Otherwise 2 would start, be preempted by 9 and pay for a second switch.
        assert_eq!(chain(0), (vec![(110, 1), (170, 9), (280, 2)], 3));
    }

    #[test]
    fn what_follows_keeps_the_processor_from_users() {
        // The kernel section 9 preempts the user section that follows, and 2 waits for both.
        assert_eq!(chain(1), (vec![(110, 1), (170, 9), (280, 1), (390, 2)], 4));
    }
}
