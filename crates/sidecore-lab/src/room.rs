//! Whether files can be written, asked before a long measurement and not after it. Both programs that measure have this module.

use std::fs::{self, OpenOptions};
use std::path::Path;

/// Tries to open each for writing. What was not there before is not there afterwards either.
///
/// # Errors
/// One cannot be written: says which, why, and what to do.
pub(crate) fn for_all<'a>(files: impl IntoIterator<Item = &'a Path>) -> Result<(), String> {
    files.into_iter().try_for_each(for_one)
}

fn for_one(file: &Path) -> Result<(), String> {
    let cannot = |why: &str| Err(format!("cannot write {}: {why}; nothing was measured", file.display()));
    let found = file.metadata();
    match &found {
        Ok(found) if found.is_dir() => return cannot("it is a directory, name a file"),
        // To open a pipe could wait for its reader.
        Ok(found) if !found.is_file() => return Ok(()),
        _ => {}
    }
    match OpenOptions::new().append(true).create(true).open(file) {
        Ok(_) if found.is_ok() => Ok(()),
        Ok(_) => fs::remove_file(file).or_else(|error| cannot(&error.to_string())),
        Err(error) => cannot(&format!("{error}, name a file in a directory that is there")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_written_is_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let [there, new] = ["there", "new"].map(|name| folder.path().join(name));
        fs::write(&there, "before").unwrap();
        for_all([there.as_path(), &new, Path::new("/dev/null")]).unwrap();
        assert_eq!((fs::read_to_string(&there).unwrap().as_str(), new.exists()), ("before", false));
        assert!(for_all([folder.path()]).unwrap_err().contains("it is a directory"));
        assert!(
            for_all([folder.path().join("none/rows.json").as_path()]).unwrap_err().contains("nothing was measured")
        );
    }
}
