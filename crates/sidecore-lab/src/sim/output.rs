//! What a simulation leaves: text on standard output, and the files that were asked for.

use crate::args::Output;
use crate::output::print;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// Prints the text and writes the files, as [`write`] does. What took so long to simulate is written wherever it can be.
pub(super) fn show<T: Serialize>(
    text: &str,
    files: &Output,
    lines: &[T],
    markdown: impl FnOnce() -> String,
    plots: &[(String, String)],
) -> Result<(), String> {
    let printed = print(text);
    write(files, lines, markdown, plots)?;
    printed
}

/// Writes the files that were asked for; `plots` are names and contents of SVG files beside the Markdown.
pub(super) fn write<T: Serialize>(
    files: &Output,
    lines: &[T],
    markdown: impl FnOnce() -> String,
    plots: &[(String, String)],
) -> Result<(), String> {
    if let Some(path) = &files.json {
        let lines: Result<Vec<String>, _> = lines.iter().map(serde_json::to_string).collect();
        let lines = lines.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        write_file(path, &(lines.join("\n") + "\n"))?;
    }
    if let Some(path) = &files.markdown {
        write_file(path, &markdown())?;
        for (name, svg) in plots {
            write_file(&path.with_file_name(name), svg)?;
        }
    }
    Ok(())
}

fn write_file(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
