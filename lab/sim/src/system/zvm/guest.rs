//! A guest: threads on one virtual CPU, and its kernel's queue of requests to a virtual adapter.
//!
//! The queue works like Linux' `ap_bus`: at each submission and at each tick of the poll timer, the kernel alternately
//! takes replies and sends requests until neither is possible. Source: `ap_sm_event_loop` and the functions that it
//! calls in `drivers/s390/crypto/ap_queue.c`.

use sidecore_core::time::Nanos;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Idle,
    Dispatch,
    Wake,
    Request,
    Receive,
    Send,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Took(Reply),
    Sent(Nanos),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// Time of its request's arrival at the guest's programs, or of making it in a closed loop, ns.
    pub(super) came: Nanos,
    /// Time of becoming ready, ns.
    pub(super) ready: Nanos,
}

pub(super) struct Guest {
    step: Step,
    depth: u32,
    runnable: u32,
    /// Idle threads; and, under open load, requests that no thread has taken.
    idle: u32,
    came: Option<VecDeque<Nanos>>,
    asked: VecDeque<Nanos>,
    /// Requests that the kernel defers, because the virtual queue is full.
    held: VecDeque<Nanos>,
    pub(super) in_flight: u32,
    pub(super) replies: VecDeque<Reply>,
    told: bool,
    got: bool,
}

impl Guest {
    /// A guest with `threads` threads. They begin at the first tell, or with arrivals if `is_open`; the virtual queue
    /// holds `depth` requests.
    pub(super) fn new(depth: u32, threads: u32, is_open: bool) -> Self {
        Self {
            step: Step::Idle,
            depth,
            runnable: if is_open { 0 } else { threads },
            idle: if is_open { threads } else { 0 },
            came: is_open.then(VecDeque::new),
            asked: VecDeque::new(),
            held: VecDeque::new(),
            in_flight: 0,
            replies: VecDeque::with_capacity(depth as usize),
            told: false,
            got: false,
        }
    }

    /// A request arrives. Returns the step that begins now, or `Idle` if another is in progress or no thread is free.
    pub(super) fn came(&mut self, now: Nanos) -> Step {
        if let Some(came) = &mut self.came {
            came.push_back(now);
        }
        self.begin();
        if self.step == Step::Idle && self.runnable > 0 { self.enter(Step::Dispatch) } else { Step::Idle }
    }

    fn begin(&mut self) {
        let Some(came) = &mut self.came else { return };
        while self.idle > 0
            && let Some(at) = came.pop_front()
        {
            self.asked.push_back(at);
            (self.idle, self.runnable) = (self.idle - 1, self.runnable + 1);
        }
    }

    /// Tells the kernel to look. Returns the step that begins now, or `Idle` if another is in progress.
    pub(super) fn tell(&mut self) -> Step {
        self.told = true;
        if self.step == Step::Idle { self.enter(Step::Dispatch) } else { Step::Idle }
    }

    pub(super) fn finish(&mut self, now: Nanos) -> (Effect, Step) {
        match self.step {
            Step::Idle | Step::Dispatch => (Effect::None, self.next()),
            Step::Wake => (Effect::None, self.receive()),
            Step::Request => {
                self.held.push_back(self.asked.pop_front().unwrap_or(now));
                (Effect::None, self.receive())
            }
            Step::Receive => {
                let reply = self.replies.pop_front();
                self.got = reply.is_some();
                if self.got {
                    self.in_flight -= 1;
                    let thread = if self.came.is_some() { &mut self.idle } else { &mut self.runnable };
                    *thread += 1;
                    self.begin();
                }
                (reply.map_or(Effect::None, Effect::Took), self.send())
            }
            Step::Send => {
                let came = self.held.pop_front().unwrap_or(now);
                self.in_flight += 1;
                let room = self.in_flight < self.depth;
                (Effect::Sent(came), if room || self.got { self.receive() } else { self.next() })
            }
        }
    }

    pub(super) fn receive(&mut self) -> Step {
        self.got = false;
        if self.in_flight > 0 { self.enter(Step::Receive) } else { self.send() }
    }

    fn send(&mut self) -> Step {
        if !self.held.is_empty() && self.in_flight < self.depth {
            self.enter(Step::Send)
        } else if self.got && self.in_flight > 0 {
            self.receive()
        } else {
            self.next()
        }
    }

    fn next(&mut self) -> Step {
        if std::mem::take(&mut self.told) {
            self.enter(Step::Wake)
        } else if self.runnable > 0 {
            self.runnable -= 1;
            self.enter(Step::Request)
        } else {
            self.enter(Step::Idle)
        }
    }

    fn enter(&mut self, step: Step) -> Step {
        self.step = step;
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(guest: &mut Guest, first: Step) -> Vec<Step> {
        let mut seen = vec![first];
        while *seen.last().unwrap() != Step::Idle {
            seen.push(guest.finish(1).1);
        }
        seen
    }

    #[test]
    fn one_thread_sends_and_looks_once_in_vain() {
        use Step::{Dispatch, Idle, Receive, Request, Send, Wake};
        let mut guest = Guest::new(7, 1, false);
        let first = guest.tell();
        assert_eq!(steps(&mut guest, first), [Dispatch, Wake, Request, Send, Receive, Idle]);
        guest.replies.push_back(Reply { came: 1, ready: 5 });
        let first = guest.tell();
        assert_eq!(steps(&mut guest, first), [Dispatch, Wake, Receive, Request, Send, Receive, Idle]);
        assert_eq!((guest.in_flight, guest.replies.len()), (1, 0));
    }

    #[test]
    fn what_exceeds_the_depth_is_held_until_a_reply_is_taken() {
        let mut guest = Guest::new(2, 3, false);
        let first = guest.tell();
        steps(&mut guest, first);
        assert_eq!((guest.in_flight, guest.held.len()), (2, 1));
        guest.replies.push_back(Reply { came: 1, ready: 5 });
        let first = guest.tell();
        let seen = steps(&mut guest, first);
        // The deferred request is sent when the reply is taken; the thread's next one is deferred.
        assert_eq!(seen[2..4], [Step::Receive, Step::Send]);
        assert_eq!((guest.in_flight, guest.held.len()), (2, 1));
    }

    #[test]
    fn a_submission_takes_the_replies_that_are_ready() {
        let mut guest = Guest::new(7, 2, false);
        guest.tell();
        while guest.finish(1).1 != Step::Send {}
        assert_eq!(guest.finish(1), (Effect::Sent(1), Step::Receive));
        guest.replies.push_back(Reply { came: 1, ready: 9 });
        assert_eq!(guest.finish(1), (Effect::Took(Reply { came: 1, ready: 9 }), Step::Request));
    }

    #[test]
    fn it_is_told_once_however_often() {
        let mut guest = Guest::new(1, 1, false);
        assert_eq!((guest.tell(), guest.tell(), guest.tell()), (Step::Dispatch, Step::Idle, Step::Idle));
        assert_eq!((guest.finish(1).1, guest.finish(1).1), (Step::Wake, Step::Request));
    }
}
