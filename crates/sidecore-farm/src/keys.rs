//! The remote device: a service's requests for keys that services on other machines hold.
//!
//! | Module | What |
//! |---|---|
//! | `keys/gateway` | `sidecore farm gateway`: the process of the service that needs keys |
//! | `keys/router` | its decisions: the choice of a machine, and the requests of a lost one |
//! | `keys/server` | `sidecore farm key-server`: the process of a service that holds keys |
//! | `keys/notes` | lines of the log, at a bounded rate |
//! | `keys/subjects`, `keys/wire` | subjects and messages between the two over NATS |

pub(crate) mod gateway;
mod notes;
mod router;
pub(crate) mod server;
mod subjects;
mod wire;

use crate::error::FarmError;
use notes::{Notes, Reason};
use sidecore_client::sys::clock;
use sidecore_core::time::Nanos;
use sidecore_terminal::output::tell;

const BEAT: Nanos = 10_000_000;
const DEPTH: u32 = 1024;
/// Bytes of a NATS message that are reserved for fields around its requests or answers.
const HEADROOM: usize = 1024;

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

fn another_version(who: &str, version: u8) -> String {
    let own = wire::VERSION;
    format!(
        "the {who} speaks version {version} of the protocol, this program {own}: install the same version of sidecore on both machines"
    )
}

/// Name of this process in the farm: the given one, or the machine's name with each letter that subjects forbid
/// replaced.
fn own_name(given: Option<&str>) -> String {
    let host = rustix::system::uname();
    let name = given.map_or_else(|| host.nodename().to_string_lossy(), Into::into);
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    let name: String = name.chars().map(plain).take(crate::args::MAX_NAME_BYTES).collect();
    if name.is_empty() { "nameless".to_owned() } else { name }
}

/// A number that is unique among processes and over time.
fn fresh() -> Result<u64, FarmError> {
    let mut bytes = [0; 8];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    match got {
        Ok(8) => Ok(u64::from_le_bytes(bytes)),
        _ => Err(FarmError::NoRandom),
    }
}
