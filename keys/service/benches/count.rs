//! The program that `cargo xtask count` runs under callgrind: rounds of requests of one kind, client and sidecore in
//! threads of one process, or the same operation by the library alone. Only the rounds after a few are instrumented.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use sidecore::client::{Buffer, Client, Options, Request, Session};
use sidecore::config::{Config, NotifyConfig};
use sidecore::core::policy::notify::Notify;
use sidecore::core::session::Class;
use sidecore::core::wire::{Extent, Status};
use sidecore::engine::crypto::sample::{Sample, sample};
use sidecore::service::Service;
use sidecore_testing::sys;
use std::error::Error;
use std::hint::black_box;
use std::slice;
use std::thread;
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const SLOTS: u32 = 256;
/// Rounds before the first counted one: tables, buffers and histories are as in a service that has run for a while.
const WARM_UP: u32 = 8;
/// Interval of the client's looks for completions: the sidecore is done within it, too.
const NAP: Duration = Duration::from_millis(5);
/// The name of the operation without sidecore: [`PAYLOAD`] bytes sealed by the library.
const LIBRARY: &str = "library";
/// Bytes of payload of an operation that has one.
const PAYLOAD: usize = 64;

/// Called with the name of a class or [`LIBRARY`], the number of rounds to count, and how many requests a round has.
fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, rounds, depth] = arguments.as_slice() else { return Err("run it by `cargo xtask count`".into()) };
    let (rounds, depth) = (rounds.parse()?, depth.parse()?);
    if what == LIBRARY {
        return library(rounds * depth);
    }
    let class = Class::from_name(what).ok_or_else(|| format!("no operation {what:?}"))?;
    through_a_lane(class, rounds, depth)
}

/// The sidecore parks when it has done a whole round, and the client sleeps until then. So no spinning is counted,
/// whose amount depends on valgrind.
fn through_a_lane(class: Class, rounds: u32, depth: u32) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let service = Service::start(Config {
        socket: directory.path().join("socket"),
        notify: NotifyConfig { service: Notify::Park, client: Notify::Park, ..NotifyConfig::default() },
        ..Config::default()
    })?;
    // A service under valgrind on a busy machine answers late.
    let timeout = Duration::from_secs(60);
    let options = Options { socket: service.socket().to_owned(), slots: SLOTS, timeout, ..Options::default() };
    let mut load = Load::new(&options, class, depth)?;
    load.run(WARM_UP)?;
    sys::start_instrumentation();
    load.run(rounds)?;
    sys::stop_instrumentation();
    Ok(())
}

fn library(times: u32) -> Result<()> {
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[7; 32]).map_err(|_| "the key is refused")?);
    let mut payload = [0; PAYLOAD];
    let mut seal = |times: u32| {
        for _ in 0..times {
            let nonce = Nonce::assume_unique_for_key(black_box([0; 12]));
            let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), black_box(&mut payload));
            let _ = black_box(tag.map_err(|_| "not sealed")?);
        }
        Ok::<(), Box<dyn Error>>(())
    };
    seal(WARM_UP)?;
    sys::start_instrumentation();
    seal(times)?;
    sys::stop_instrumentation();
    Ok(())
}

/// One session, and a place in the arena for each request. The input stays; the result goes after it.
struct Load {
    client: Client,
    session: Session,
    sample: Sample,
    places: Vec<[Extent; 2]>,
}

impl Load {
    fn new(options: &Options, class: Class, depth: u32) -> Result<Self> {
        let mut client = Client::connect(options)?;
        let size = if class.name() == "noop" { 0 } else { PAYLOAD };
        let sample = sample(class, size, 1);
        let session = client.open_session(&sample.spec)?;
        let places = (0..depth).map(|_| place(&mut client, &sample)).collect::<Result<Vec<_>>>()?;
        Ok(Self { client, session, sample, places })
    }

    fn run(&mut self, rounds: u32) -> Result<()> {
        let (session, op, head_len) = (self.session, self.sample.op, self.sample.head_len as u32);
        for _ in 0..rounds {
            for (tag, [input, output]) in self.places.iter().enumerate() {
                let (inputs, outputs) = (slice::from_ref(input), slice::from_ref(output));
                let request = Request { session, op, head_len, inputs, outputs, urgent: false };
                self.client.submit(tag as u32, &request)?;
            }
            self.client.ring();
            while self.client.in_flight() > 0 {
                thread::sleep(NAP);
                while let Some(received) = self.client.poll() {
                    if !matches!(received.status, Status::Done { .. }) {
                        return Err(format!("a request ended with {:?}", received.status).into());
                    }
                }
            }
        }
        Ok(())
    }
}

fn place(client: &mut Client, sample: &Sample) -> Result<[Extent; 2]> {
    let len = sample.input.len() as u32;
    let buffer: Buffer = client.alloc(len.next_multiple_of(16) + sample.output_len as u32 + 16)?;
    client.write(&buffer, 0, &sample.input)?;
    let Extent { offset, len: room } = buffer.extent();
    let behind = len.next_multiple_of(16);
    Ok([Extent::new(offset, len), Extent::new(offset + behind, room - behind)])
}
