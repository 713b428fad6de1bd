//! A gateway with a key server in it: a thread that speaks the protocol and serves requests with its keys.

use crate::common::{TIMEOUT, options, run, session_of};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sidecore::client::Options;
use sidecore::core::session::Refusal;
use sidecore::engine::crypto::Session;
use sidecore::gateway::{
    Answer, Ask, BEAT, ConnectError, Gateway, MAX_PACKET, Offer, Outcome, Request, Task, Tell, Welcome,
};
use sidecore::service::Service;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

#[derive(Clone, Copy)]
pub(crate) struct OwnKey {
    pub(crate) name: &'static str,
    pub(crate) pkcs8: &'static [u8],
    pub(crate) public: &'static [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Honest,
    Mute,
    DiesAfter(u32),
    /// It answers each request with the hint that others may do it.
    Elsewhere,
}

pub(crate) struct Line {
    pub(crate) gateway: Gateway,
    pub(crate) welcome: Welcome,
    pub(crate) wrong: Vec<u64>,
    buffer: Vec<u8>,
}

impl Line {
    pub(crate) fn to(service: &Service) -> Self {
        Self::of(service, "far")
    }

    fn of(service: &Service, device: &str) -> Self {
        let end = Instant::now() + TIMEOUT;
        loop {
            match Gateway::connect(&options(service), device) {
                Ok((gateway, welcome)) => {
                    return Self { gateway, welcome, wrong: Vec::new(), buffer: vec![0; MAX_PACKET] };
                }
                Err(ConnectError::Refused(why))
                    if why.to_string().contains("has a gateway already") && Instant::now() < end =>
                {
                    thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn again(options: &Options, device: &str) -> Option<Self> {
        let (gateway, welcome) = Gateway::connect(options, device).ok()?;
        Some(Self { gateway, welcome, wrong: Vec::new(), buffer: vec![0; MAX_PACKET] })
    }

    pub(crate) fn tell(&self, message: &Tell<'_>) -> Result<(), ErrorKind> {
        loop {
            match self.gateway.tell(message) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(PollFlags::OUT),
                Err(error) => return Err(error.kind()),
            }
        }
    }

    pub(crate) fn offer(&self, key: &OwnKey) {
        let _ = self.tell(&Tell::Offer(Offer { key: key.name, public: key.public }));
    }

    /// The service's next message, passed to `then`. `None`: no message within a beat. It beats meanwhile.
    pub(crate) fn hear<T>(&mut self, then: impl FnOnce(Ask<'_>) -> T) -> Result<Option<T>, ErrorKind> {
        self.wait(PollFlags::IN);
        match self.gateway.hear(&mut self.buffer) {
            Ok(ask) => Ok(Some(then(ask))),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error.kind()),
        }
    }

    pub(crate) fn request(&mut self) -> (u64, Vec<u8>) {
        loop {
            let _ = self.tell(&Tell::Beat);
            let heard = self.hear(|ask| match ask {
                Ask::Request(Request { ticket, input, .. }) => (ticket, Some(input.to_vec())),
                Ask::Wrong(ticket) => (ticket, None),
                Ask::Beat | Ask::Known(_) => (u64::MAX, None),
            });
            match heard.unwrap() {
                Some((ticket, Some(input))) => return (ticket, input),
                Some((u64::MAX, None)) | None => {}
                Some((ticket, None)) => self.wrong.push(ticket),
            }
        }
    }

    pub(crate) fn is_ended(&mut self) -> bool {
        let end = Instant::now() + TIMEOUT;
        while Instant::now() < end {
            if self.hear(|_| ()).is_err() {
                return true;
            }
        }
        false
    }

    fn wait(&self, what: PollFlags) {
        let beat = Timespec { tv_sec: 0, tv_nsec: BEAT.cast_signed() / 2 };
        let _ = poll(&mut [PollFd::new(&self.gateway, what)], Some(&beat));
    }
}

pub(crate) struct Far {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

impl Far {
    pub(crate) fn start(service: &Service, keys: &[OwnKey], manner: Manner) -> Self {
        Self::start_as(service, "far", keys, manner)
    }

    pub(crate) fn start_as(service: &Service, device: &str, keys: &[OwnKey], manner: Manner) -> Self {
        let line = Line::of(service, device);
        let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (stopped, counted, keys) = (stop.clone(), asked.clone(), keys.to_vec());
        let (options, device) = (options(service), device.to_owned());
        let thread = thread::spawn(move || {
            let mut line = Some(line);
            while !stopped.load(Ordering::SeqCst) {
                // A busy machine may delay its beat: then it connects again.
                match line.take().or_else(|| Line::again(&options, &device)) {
                    Some(line) => serve(line, &keys, manner, &stopped, &counted),
                    None => thread::sleep(Duration::from_millis(1)),
                }
            }
        });
        Self { stop, asked, thread: Some(thread) }
    }

    pub(crate) fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().map(JoinHandle::join);
    }
}

fn serve(mut line: Line, keys: &[OwnKey], manner: Manner, stop: &AtomicBool, asked: &AtomicU32) {
    let (mut beat, mut sessions) = (Instant::now(), Sessions::default());
    for key in keys {
        line.offer(key);
    }
    while !stop.load(Ordering::SeqCst) {
        if beat.elapsed() > Duration::from_nanos(BEAT / 2) {
            beat = Instant::now();
            if line.tell(&Tell::Beat).is_err() {
                return;
            }
        }
        let answer = line.hear(|ask| match ask {
            Ask::Beat | Ask::Wrong(_) | Ask::Known(_) => None,
            Ask::Request(request) => {
                let count = asked.fetch_add(1, Ordering::SeqCst) + 1;
                match manner {
                    Manner::Honest => Some((request.ticket, Some(answer_of(keys, &mut sessions, &request)))),
                    Manner::Elsewhere => Some((request.ticket, None)),
                    Manner::DiesAfter(most) if count >= most => {
                        stop.store(true, Ordering::SeqCst);
                        None
                    }
                    Manner::Mute | Manner::DiesAfter(_) => None,
                }
            }
        });
        let Ok(answer) = answer else { return };
        let Some((ticket, result)) = answer.flatten() else { continue };
        let outcome = match &result {
            Some(Ok(result)) => Outcome::Done(result),
            Some(Err(refusal)) => Outcome::refused(*refusal),
            None => Outcome::Elsewhere,
        };
        if line.tell(&Tell::Answer(Answer { ticket, outcome })).is_err() {
            return;
        }
    }
}

type Sessions = HashMap<String, Session>;

fn answer_of(keys: &[OwnKey], sessions: &mut Sessions, request: &Request<'_>) -> Result<Vec<u8>, Refusal> {
    let key = keys.iter().find(|key| key.name == request.key).unwrap();
    let Task::Open { scheme, operation } = &request.task else { panic!("a sealed request without a far service") };
    let name = format!("{} {scheme:?}", request.key);
    let session = sessions.entry(name).or_insert_with(|| session_of(scheme, key.pkcs8));
    run(session, operation.op(), request.input)
}
