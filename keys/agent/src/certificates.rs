//! OpenSSH's certificates for keys of the agent, from files that their issuer writes anew.
//!
//! A certificate is of one key, so a renewal with another key changes two things: the key in the service and the file.
//! The agent reads a file again when it has changed, and keeps what the file held before. It offers each certificate as long
//! as the service has its key. So the file is written first, then the key is replaced: the former pair is offered until the
//! service has the new key, and then the new pair, without a moment of half of each.

use crate::error::{AgentError, CertificateError};
use crate::public::certified;
use base64ct::{Base64, Encoding};
use sidecore_ipc::named_file::NamedFile;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Largest file of a certificate, bytes.
const MAX_FILE: u64 = 64 * 1024;
/// Most certificates that are kept of one file: the newest ones.
const KEPT: usize = 4;

/// A certificate of OpenSSH.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(crate) blob: Vec<u8>,
    /// The certified public key.
    pub(crate) key: Vec<u8>,
}

#[derive(Debug)]
struct Watched {
    path: PathBuf,
    /// Of the file that was read last.
    stamp: Option<Stamp>,
    /// The newest first.
    kept: Vec<Arc<Certificate>>,
}

/// Tells a changed file: device, number, size, times of content and entry.
type Stamp = ([u64; 3], [i64; 4]);

#[derive(Debug, Default)]
pub(crate) struct Certificates(Vec<Mutex<Watched>>);

impl Certificates {
    /// # Errors
    /// There is no certificate in one of the files.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Self, AgentError> {
        let watched = |path: &PathBuf| {
            let mut watched = Watched { path: path.clone(), stamp: None, kept: Vec::new() };
            watched.look().map_err(|error| AgentError::Certificate(path.clone(), error))?;
            Ok(Mutex::new(watched))
        };
        paths.iter().map(watched).collect::<Result<_, _>>().map(Self)
    }

    /// What the files hold and held. `tell` has files that cannot be read now, whose certificates stay.
    pub(crate) fn present(&self, tell: impl Fn(&Path, &CertificateError)) -> Vec<(PathBuf, Vec<Arc<Certificate>>)> {
        let present = |watched: &Mutex<Watched>| {
            // A look changes all fields at its end.
            let mut watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = watched.look() {
                tell(&watched.path, &error);
            }
            (watched.path.clone(), watched.kept.clone())
        };
        self.0.iter().map(present).collect()
    }
}

impl Watched {
    /// Reads the file if it is another one than at the last look.
    fn look(&mut self) -> Result<(), CertificateError> {
        let stamp = fs::metadata(&self.path).map(|found| {
            let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
            ([found.dev(), found.ino(), found.size()], times)
        })?;
        if self.stamp == Some(stamp) {
            return Ok(());
        }
        let blob = read_blob(&self.path)?;
        let certificate = Arc::new(Certificate { key: certified(&blob)?, blob });
        self.kept.retain(|kept| *kept != certificate);
        self.kept.insert(0, certificate);
        self.kept.truncate(KEPT);
        self.stamp = Some(stamp);
        Ok(())
    }
}

/// The second word of the first line that is no comment.
fn read_blob(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let mut text = String::new();
    let read = NamedFile::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text));
    match read {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(CertificateError::NoLine),
        read => read?,
    };
    if text.len() as u64 > MAX_FILE {
        return Err(CertificateError::TooLarge(MAX_FILE));
    }
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let word = line.and_then(|line| line.split_whitespace().nth(1)).ok_or(CertificateError::NoLine)?;
    Base64::decode_vec(word).map_err(|_| CertificateError::NoLine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::public::blob;
    use crate::public::tests::{certificate, keys};
    use std::slice::from_ref;

    fn line(blob: &[u8]) -> String {
        format!("# a comment\n\ntype {} me\n", Base64::encode_string(blob))
    }

    #[test]
    fn a_file_without_a_certificate_says_so() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("id-cert.pub");
        let key = blob(&keys()[3]).unwrap();
        fs::write(&path, line(&certificate(&key))).unwrap();
        let kept = Certificates::read(from_ref(&path)).unwrap().present(|_, error| panic!("{error}"));
        assert_eq!(kept[0].1[0].key, key);
        for (text, says) in [
            (line(&key), "it is no certificate"),
            ("ssh-ed25519".to_owned(), "no line of TYPE"),
            ("a ?".to_owned(), "no line of TYPE"),
            ("#".repeat(70_000), "more than 65536 bytes"),
            (String::new(), "no line of TYPE"),
        ] {
            fs::write(&path, text).unwrap();
            let error = Certificates::read(from_ref(&path)).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("ssh-keygen -s"), "{error}");
        }
        fs::write(&path, [0xff; 9]).unwrap();
        assert!(Certificates::read(from_ref(&path)).unwrap_err().to_string().contains("no line"));
    }

    #[test]
    fn a_changed_file_adds_its_certificate_and_a_broken_or_missing_one_takes_none_away() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("id-cert.pub");
        let certified: Vec<Vec<u8>> = keys().iter().map(|key| certificate(&blob(key).unwrap())).collect();
        fs::write(&path, line(&certified[0])).unwrap();
        let certificates = Certificates::read(from_ref(&path)).unwrap();
        let told = Mutex::new(0);
        let blobs = || -> Vec<Vec<u8>> {
            let present = certificates.present(|_, _| *told.lock().unwrap() += 1);
            present[0].1.iter().map(|certificate| certificate.blob.clone()).collect()
        };
        // Another file takes its place, as programs write certificates.
        let write = |text: &str| {
            let draft = scratch.path().join("draft");
            fs::write(&draft, text).unwrap();
            fs::rename(draft, &path).unwrap();
        };
        write(&line(&certified[1]));
        assert_eq!(blobs(), [certified[1].clone(), certified[0].clone()]);
        write("half");
        assert_eq!(blobs().len(), 2);
        fs::remove_file(&path).unwrap();
        assert_eq!((blobs().len(), *told.lock().unwrap()), (2, 2));
        write(&line(&certified[0]));
        assert_eq!(blobs(), [certified[0].clone(), certified[1].clone()]);
    }
}
