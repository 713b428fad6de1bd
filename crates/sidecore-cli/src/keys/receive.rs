//! `sidecore keys receive`: has the service open sealed keys, and prints its receipts for the sender.

use super::called;
use super::send::{MAX_KEYS, MAX_TEXT};
use crate::error::{CliError, failed, unusable};
use crate::set::connect;
use sidecore::client::Error;
use sidecore::keys::transfer::sealed_from_pem;
use sidecore_terminal::output;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// One refused key does not keep others out. A text that was cut off brings none.
pub(super) fn run(socket: &Path, file: &Path, replace: bool) -> Result<(), CliError> {
    let text = text_of(file).map_err(unusable(called(file), "name a file with the output of `sidecore keys send`"))?;
    let keys = sealed_from_pem(&text).map_err(failed(called(file)))?;
    if keys.len() > MAX_KEYS {
        return Err(CliError::Usage(format!("there are more than {MAX_KEYS} sealed keys in it: send fewer at a time")));
    }
    let mut service = connect(socket)?;
    let mut refused = 0;
    for (index, sealed) in keys.iter().enumerate() {
        match service.receive(sealed, replace) {
            Ok(received) => output::written(&(received.to_line() + "\n"))?,
            Err(Error::Service(why)) => {
                refused += 1;
                output::tell(format_args!("sealed key {} of {}: {why}", index + 1, keys.len()));
            }
            Err(other) => return Err(other.into()),
        }
    }
    if refused == 0 { Ok(()) } else { Err(CliError::NotReceived { refused, of: keys.len() }) }
}

fn text_of(file: &Path) -> io::Result<Vec<u8>> {
    let from: Box<dyn Read> =
        if file == Path::new("-") { Box::new(io::stdin().lock()) } else { Box::new(File::open(file)?) };
    let mut text = Vec::new();
    match from.take(MAX_TEXT as u64 + 1).read_to_end(&mut text)? {
        0..=MAX_TEXT => Ok(text),
        _ => Err(io::Error::other(format!("it has more than {MAX_TEXT} bytes"))),
    }
}
