//! The passphrase, from a file: a systemd credential, or a file that only the reader's user may read.

use super::error::{MAX_PASSPHRASE, PassphraseError, UnfitPassphrase};
use crate::spec::Secret;
use sidecore_ipc::named_file::NamedFile;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use zeroize::Zeroizing;

/// Reads a passphrase: the whole file without one line end at its end.
///
/// # Errors
/// The file cannot be read, others may read it too, or it is empty or too long.
pub fn read_passphrase(path: &Path) -> Result<Secret, PassphraseError> {
    let system = |error| PassphraseError::Unreadable { path: path.to_owned(), error };
    let file = NamedFile::open(path).map_err(system)?;
    let metadata = file.metadata().map_err(system)?;
    if metadata.is_file() && metadata.mode() & 0o007 != 0 {
        return Err(PassphraseError::Open { path: path.to_owned(), mode: metadata.mode() & 0o777 });
    }
    // The capacity exceeds the reads: a vector that grows leaves a copy behind.
    let mut buffer = Zeroizing::new(Vec::with_capacity(2 * MAX_PASSPHRASE));
    file.take(MAX_PASSPHRASE as u64 + 2).read_to_end(&mut buffer).map_err(system)?;
    let text = buffer.strip_suffix(b"\n").unwrap_or(&buffer);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    check_passphrase(text).map_err(|why| PassphraseError::Unfit { path: path.to_owned(), why })?;
    Ok(text.into())
}

pub(crate) fn check_passphrase(text: &[u8]) -> Result<(), UnfitPassphrase> {
    match text.len() {
        0 => Err(UnfitPassphrase::Empty),
        1..=MAX_PASSPHRASE => Ok(()),
        _ => Err(UnfitPassphrase::TooLong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    fn read(content: &[u8], mode: u32) -> Result<Vec<u8>, PassphraseError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        write(file.path(), content).unwrap();
        set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
        read_passphrase(file.path()).map(|secret| secret.expose().to_vec())
    }

    #[test]
    fn it_is_the_file_without_its_line_end() {
        assert_eq!(read(b"open sesame\n", 0o600).unwrap(), b"open sesame");
        assert_eq!(read(b"open sesame\r\n", 0o400).unwrap(), b"open sesame");
        assert_eq!(read(b" a\n\n", 0o440).unwrap(), b" a\n");
        assert_eq!(read(&[7; MAX_PASSPHRASE], 0o600).unwrap().len(), MAX_PASSPHRASE);
    }

    #[test]
    fn what_is_no_passphrase_is_refused_in_words() {
        for (content, mode, what) in [
            (&b""[..], 0o600, "empty"),
            (b"\n", 0o600, "empty"),
            (b"secret", 0o604, "chmod 600"),
            (&[7; MAX_PASSPHRASE + 1], 0o600, "at most"),
            (&[7; 2 * MAX_PASSPHRASE], 0o600, "at most"),
        ] {
            let said = read(content, mode).unwrap_err().to_string();
            assert!(said.contains(what), "{said}");
        }
        assert!(read_passphrase(Path::new("no/such/file")).unwrap_err().to_string().contains("no/such/file"));
    }
}
