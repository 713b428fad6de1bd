//! A guest: threads on one virtual CPU, and its kernel's queue of requests to a virtual adapter.
//!
//! The queue is driven as Linux' `ap_bus` drives it: whenever a thread submits, and whenever the poll timer ticks, the
//! kernel takes replies and sends requests by turns until neither goes on. Source: `ap_sm_event_loop` and the functions
//! that it calls in `drivers/s390/crypto/ap_queue.c`.

use sidecore_core::time::Nanos;
use std::collections::VecDeque;

/// What a virtual CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    Idle,
    /// The host gives it a CPU after it was idle.
    Dispatch,
    /// The kernel was told to look by its timer or an interrupt.
    Wake,
    /// A thread uses its reply and makes its next request.
    Request,
    /// The instruction that takes a reply, if there is one.
    Receive,
    /// The instruction that sends a request.
    Send,
}

/// What a step did to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing.
    None,
    /// Took a reply that was ready since that instant.
    Took(Nanos),
    /// Sent a request.
    Sent,
}

/// One guest.
pub(super) struct Guest {
    step: Step,
    depth: u32,
    /// Threads that may run.
    runnable: u32,
    /// Requests that the kernel holds back, since the virtual queue is full.
    held: u32,
    /// Requests sent whose replies it has not taken.
    pub(super) in_flight: u32,
    /// When each reply in the virtual queue became ready.
    pub(super) replies: VecDeque<Nanos>,
    /// The kernel is to look as soon as the virtual CPU can.
    told: bool,
    /// The pass that is under way took a reply.
    got: bool,
}

impl Guest {
    /// So many threads that begin when it is told; `depth` requests may be in the virtual queue.
    pub(super) fn new(depth: u32, runnable: u32) -> Self {
        let replies = VecDeque::with_capacity(depth as usize);
        Self { step: Step::Idle, depth, runnable, held: 0, in_flight: 0, replies, told: false, got: false }
    }

    /// The kernel is to look. The step that begins now, or `Idle` if another is under way.
    pub(super) fn tell(&mut self) -> Step {
        self.told = true;
        if self.step == Step::Idle { self.enter(Step::Dispatch) } else { Step::Idle }
    }

    /// The step under way is done: what it did, and the next one.
    pub(super) fn finish(&mut self) -> (Effect, Step) {
        match self.step {
            Step::Idle | Step::Dispatch => (Effect::None, self.next()),
            Step::Wake => (Effect::None, self.receive()),
            Step::Request => {
                self.held += 1;
                (Effect::None, self.receive())
            }
            Step::Receive => {
                let reply = self.replies.pop_front();
                self.got = reply.is_some();
                if self.got {
                    self.in_flight -= 1;
                    self.runnable += 1;
                }
                (reply.map_or(Effect::None, Effect::Took), self.send())
            }
            Step::Send => {
                self.held -= 1;
                self.in_flight += 1;
                let room = self.in_flight < self.depth;
                (Effect::Sent, if room || self.got { self.receive() } else { self.next() })
            }
        }
    }

    /// The kernel looks whether there is a reply.
    pub(super) fn receive(&mut self) -> Step {
        self.got = false;
        if self.in_flight > 0 { self.enter(Step::Receive) } else { self.send() }
    }

    fn send(&mut self) -> Step {
        if self.held > 0 && self.in_flight < self.depth {
            self.enter(Step::Send)
        } else if self.got && self.in_flight > 0 {
            self.receive()
        } else {
            self.next()
        }
    }

    /// After the kernel's queue: what it was told, then threads.
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

    /// Steps until the virtual CPU is idle.
    fn steps(guest: &mut Guest, first: Step) -> Vec<Step> {
        let mut seen = vec![first];
        while *seen.last().unwrap() != Step::Idle {
            seen.push(guest.finish().1);
        }
        seen
    }

    #[test]
    fn one_thread_sends_and_looks_once_in_vain() {
        use Step::{Dispatch, Idle, Receive, Request, Send, Wake};
        let mut guest = Guest::new(7, 1);
        let first = guest.tell();
        assert_eq!(steps(&mut guest, first), [Dispatch, Wake, Request, Send, Receive, Idle]);
        guest.replies.push_back(5);
        let first = guest.tell();
        assert_eq!(steps(&mut guest, first), [Dispatch, Wake, Receive, Request, Send, Receive, Idle]);
        assert_eq!((guest.in_flight, guest.replies.len()), (1, 0));
    }

    #[test]
    fn what_exceeds_the_depth_is_held_until_a_reply_is_taken() {
        let mut guest = Guest::new(2, 3);
        let first = guest.tell();
        steps(&mut guest, first);
        assert_eq!((guest.in_flight, guest.held), (2, 1));
        guest.replies.push_back(5);
        let first = guest.tell();
        let seen = steps(&mut guest, first);
        // The held request goes as the reply is taken; the thread's next one is held.
        assert_eq!(seen[2..4], [Step::Receive, Step::Send]);
        assert_eq!((guest.in_flight, guest.held), (2, 1));
    }

    #[test]
    fn a_submission_takes_the_replies_that_are_ready() {
        let mut guest = Guest::new(7, 2);
        guest.tell();
        while guest.finish().1 != Step::Send {}
        assert_eq!(guest.finish(), (Effect::Sent, Step::Receive));
        guest.replies.push_back(9);
        assert_eq!(guest.finish(), (Effect::Took(9), Step::Request));
    }

    #[test]
    fn it_is_told_once_however_often() {
        let mut guest = Guest::new(1, 1);
        assert_eq!((guest.tell(), guest.tell(), guest.tell()), (Step::Dispatch, Step::Idle, Step::Idle));
        assert_eq!((guest.finish().1, guest.finish().1), (Step::Wake, Step::Request));
    }
}
