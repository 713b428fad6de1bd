//! Records of decisions, as files.
//!
//! A sidecore records into memory that it reserved at its start. The file is written when the record has ended, by the
//! control thread or after the sidecore's last round: never on the data path.

use crate::config::Config;
use sidecore_core::dispatch::record::Tape;
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Words of tape that each sidecore has, if there is a record.
pub(super) fn room(config: &Config) -> Option<usize> {
    config.record.as_ref().map(|_| (config.record_mib as usize) << 20 >> 3)
}

/// Writes a record to a new file that only this user can read, in the place of an older one.
pub(super) fn write(path: &Path, tape: Tape) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut file = BufWriter::new(file);
    for word in tape.into_words() {
        file.write_all(&word.to_le_bytes())?;
    }
    file.flush()
}
