//! Result files. They are checked before a run begins, so that a missing directory does not cost a long measurement. An
//! existing file keeps its content until its replacement is ready.

use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The argument that names a file, and the file.
pub type Named<'p> = (&'static str, &'p Path);

/// A result file that cannot be written, with a remedy.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The argument, its file, and the reason.
    #[error("{0} {path}: {2}", path = .1.display())]
    Unwritable(&'static str, PathBuf, #[source] Box<dyn Error + Send + Sync>),
    /// Two arguments and their file.
    #[error("{0} and {1} both name {path}: name two files", path = .2.display())]
    Twice(&'static str, &'static str, PathBuf),
}

#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error("is a directory: name a file in it")]
    IsDirectory,
    #[error("names a directory: name a file in it")]
    NamesDirectory,
    #[error("there is no directory {place}: make it with `mkdir -p {place}`, or name another file", place = .0.display())]
    NoDirectory(PathBuf),
    #[error("{0} ({1}): {remedy}", remedy = remedy(.1.kind()))]
    System(String, #[source] io::Error),
}

/// Checks that each file can be written, and is named only once.
///
/// # Errors
/// Names the file, the reason and a remedy.
pub fn check<'p>(named: impl IntoIterator<Item = Named<'p>>) -> Result<(), PathError> {
    let mut known: Vec<(&'static str, PathBuf)> = Vec::new();
    for (argument, path) in named {
        writable(path).map_err(|reason| PathError::Unwritable(argument, path.to_owned(), reason.into()))?;
        // A special file such as /dev/stdout may receive several outputs.
        let own = place(path).filter(|own| fs::metadata(own).is_ok_and(|about| about.is_file()) || !own.exists());
        let Some(own) = own else { continue };
        if let Some((first, _)) = known.iter().find(|(_, known)| *known == own) {
            return Err(PathError::Twice(first, argument, path.to_owned()));
        }
        known.push((argument, own));
    }
    Ok(())
}

fn place(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| Some(directory(path).canonicalize().ok()?.join(path.file_name()?)))
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn writable(path: &Path) -> Result<(), Reason> {
    match fs::metadata(path) {
        Ok(about) if about.is_dir() => Err(Reason::IsDirectory),
        // Opening for writing keeps the content.
        Ok(about) if about.is_file() => {
            let opened = OpenOptions::new().write(true).open(path);
            opened.map(drop).map_err(|error| cannot("this file cannot be written", error))
        }
        // Opening a pipe would wait for its reader.
        Ok(_) => accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)
            .map_err(|error| cannot("this cannot be written", error.into())),
        // A link may lead to a missing file.
        Err(error) if error.kind() == ErrorKind::NotFound => match fs::read_link(path) {
            Ok(target) => can_be_made(&directory(path).join(target)),
            Err(_) => can_be_made(path),
        },
        Err(error) => Err(cannot("this cannot be looked at", error)),
    }
}

fn can_be_made(path: &Path) -> Result<(), Reason> {
    let directory = directory(path);
    if path.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(Reason::NamesDirectory);
    }
    if !directory.is_dir() {
        return Err(Reason::NoDirectory(directory.to_owned()));
    }
    // A nameless temporary file, because permissions alone do not decide on all file systems.
    let made = tempfile::tempfile_in(directory).map(drop);
    made.map_err(|error| cannot(format!("no file can be made in {}", directory.display()), error))
}

fn cannot(operation: impl Into<String>, error: io::Error) -> Reason {
    Reason::System(operation.into(), error)
}

fn remedy(refusal: ErrorKind) -> &'static str {
    match refusal {
        ErrorKind::PermissionDenied => "name one that this user may write",
        ErrorKind::ReadOnlyFilesystem => "name one on a file system that can be written",
        _ => "name another one",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn said(path: &Path) -> String {
        check([("--json", path)]).unwrap_err().to_string()
    }

    #[test]
    fn a_file_that_cannot_be_made_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("none/rows.json");
        assert!(said(&missing).starts_with("--json ") && said(&missing).contains("mkdir -p"), "{}", said(&missing));
        assert!(said(folder.path()).contains("is a directory"));
        assert!(said(&folder.path().join("rows/")).contains("name a file in it"));
        let link = folder.path().join("link");
        symlink(folder.path().join("none/rows.json"), &link).unwrap();
        assert!(said(&link).contains("mkdir -p"), "{}", said(&link));
        let behind_a_file = folder.path().join("file/rows.json");
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(said(&behind_a_file).contains("name another one"), "{}", said(&behind_a_file));
    }

    #[test]
    fn a_directory_that_takes_no_files_is_refused_also_for_root() {
        let said = said(Path::new("/proc/rows.json"));
        assert!(said.starts_with("--json /proc/rows.json: no file can be made in /proc ("), "{said}");
        let told = |kind: ErrorKind| cannot("it", kind.into()).to_string();
        assert!(told(ErrorKind::PermissionDenied).ends_with("this user may write"));
        assert!(told(ErrorKind::ReadOnlyFilesystem).ends_with("can be written"));
    }

    #[test]
    fn what_can_be_written_is_neither_made_nor_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old.json"), folder.path().join("new.json"));
        fs::write(&old, "kept").unwrap();
        check([("--json", &*old), ("--html", &*new), ("--markdown", Path::new("/dev/null"))]).unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "kept");
        assert!(!new.exists());
    }

    #[test]
    fn two_outputs_are_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        let twice = check([("--json", &*one), ("--html", &*folder.path().join("./one"))]).unwrap_err().to_string();
        assert!(twice.starts_with("--json and --html both name"), "{twice}");
        fs::write(&one, "").unwrap();
        symlink(&one, &other).unwrap();
        assert!(check([("--json", &*one), ("--html", &*other)]).is_err());
        let device = Path::new("/dev/null");
        check([("--json", device), ("--html", device)]).unwrap();
    }
}
