//! Finding a stored key by its name.

use crate::credentials::Credentials;
use crate::failure::{Failure, Reason};
use crate::key::{Key, Private, Public};
use crate::lanes::{self, Take, is_gone};
use sidecore::client::{Error, Options};
use sidecore::keys::KeyInfo;
use std::time::{Duration, Instant};

/// How long to wait for a lane to ask on.
const PATIENCE: Duration = Duration::from_secs(30);

/// The key of this name, as far as this process may know it.
pub(crate) fn find(options: &Options, name: &str) -> Result<Key, Failure> {
    let deadline = Instant::now() + PATIENCE;
    let info = match ask(options, name, deadline)? {
        // The service may have started again since the lane was made.
        Err(error) if is_gone(&error) => {
            lanes::pool()?.drop_idle();
            ask(options, name, deadline)?
        }
        other => other,
    };
    let info = info.map_err(|error| match error {
        Error::Service(reason) => Failure::new(Reason::Key, reason),
        other => Failure::new(Reason::Service, other.to_string()),
    })?;
    Ok(Key::new(Public::from_spki(&info.public)?, Private::Stored(name.to_owned())))
}

fn ask(options: &Options, name: &str, deadline: Instant) -> Result<Result<KeyInfo, Error>, Failure> {
    let pool = lanes::pool()?;
    loop {
        match pool.take(options, None, 0, Some(&Credentials::present()))? {
            // Not given back: who loads keys is often root, and whoever works with them later is not.
            Take::Lane(mut lane) => return Ok(lane.client.key_info(name)),
            Take::Full(seen) if pool.wait(seen, deadline) => {}
            Take::Full(_) => return Err(lanes::none_free()),
        }
    }
}
