//! The remote device: a service's requests for keys that services on other machines hold.
//!
//! | Module | What |
//! |---|---|
//! | `keys/gateway` | the process beside the service that asks: `sidecore farm gateway` |
//! | `keys/desk` | its decisions: which machine is asked, and what becomes of the requests of a lost one |
//! | `keys/server` | the process beside a service that holds keys: `sidecore farm key-server` |
//! | `keys/notes` | lines of the log, at a bounded rate |
//! | `keys/subjects`, `keys/wire` | what they say to each other over NATS, and where |

mod desk;
pub(crate) mod gateway;
mod notes;
pub(crate) mod server;
mod subjects;
mod wire;

use notes::{Notes, Reason};
use sidecore_client::sys::clock;
use sidecore_core::time::Nanos;
use sidecore_terminal::output::tell;

/// Gateways and key servers say that they are there so often, ns.
const BEAT: Nanos = 10_000_000;
/// Most requests of one gateway with one key server at a time.
const DEPTH: u32 = 1024;
/// Room in a message of NATS beside its requests or answers, bytes.
const HEADROOM: usize = 1024;

/// Tells people what the NATS servers say that this process may not do.
async fn tell_what_is_denied() {
    let mut notes = Notes::new();
    loop {
        let said = crate::connect::denied().await;
        let now = clock::now();
        notes.note(now, "", Reason::Denied, denial(&said));
        notes.take(now).into_iter().for_each(tell);
    }
}

fn denial(said: &str) -> String {
    format!("NATS says: {said}; see the permissions in docs/remote-keys.md")
}

/// What this process is called in the farm, unless told: the machine's name, as far as it can be part of a subject.
fn own_name(given: Option<&str>) -> String {
    let host = rustix::system::uname();
    let name = given.map_or_else(|| host.nodename().to_string_lossy(), Into::into);
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    let name: String = name.chars().map(plain).take(crate::args::LONGEST_NAME).collect();
    if name.is_empty() { "nameless".to_owned() } else { name }
}

/// A number that no other process, and no other time of this one, has taken.
///
/// # Errors
/// The kernel gives no random bytes.
fn fresh() -> Result<u64, String> {
    let mut bytes = [0; 8];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    match got {
        Ok(8) => Ok(u64::from_le_bytes(bytes)),
        _ => Err("the kernel gives no random bytes".to_owned()),
    }
}
