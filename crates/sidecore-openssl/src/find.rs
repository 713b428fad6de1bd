//! Finding a stored key by its name.

use crate::failure::{Failure, Reason};
use crate::key::{Key, Private, Public};
use crate::lanes::{self, Take, is_gone};
use sidecore::client::{Error, Options};
use sidecore::keys::KeyInfo;
use std::time::Instant;

/// The key of this name, as far as this process may know it.
pub(crate) fn find(options: &Options, name: &str) -> Result<Key, Failure> {
    let deadline = Instant::now() + options.patience;
    let info = match ask(options, name, deadline)? {
        // The service may have started again since the lane was made.
        Err(error) if is_gone(&error) && Instant::now() < deadline => {
            lanes::pool()?.drop_idle();
            ask(options, name, deadline)?
        }
        other => other,
    };
    let info = info.map_err(|error| match error {
        Error::Service(reason) => Failure::new(Reason::Key, reason),
        Error::NoAnswer(_) => Failure::late(options.patience),
        other => Failure::new(Reason::Service, other.to_string()),
    })?;
    Ok(Key::new(Public::from_spki(&info.public)?, Private::Stored(name.to_owned())))
}

fn ask(options: &Options, name: &str, deadline: Instant) -> Result<Result<KeyInfo, Error>, Failure> {
    let pool = lanes::pool()?;
    loop {
        match pool.take(options, None, 0, deadline)? {
            Take::Lane(mut lane) => {
                lane.client.set_deadline(Some(deadline));
                let answer = lane.client.key_info(name);
                if !matches!(&answer, Err(error) if is_gone(error)) {
                    lane.give_back();
                }
                return Ok(answer);
            }
            Take::Full(seen) if pool.wait(seen, deadline) => {}
            Take::Full(_) => return Err(lanes::none_free()),
        }
    }
}
