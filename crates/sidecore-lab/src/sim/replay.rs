//! `sidecore sim replay`: a recorded run of the service, decided again.

use crate::output::print;
use crate::report::{Grid, count};
use sidecore_sim::replay::{Replayed, replay};
use std::fs;
use std::path::Path;

/// `false`: a decision came out otherwise.
pub(super) fn run(path: &Path) -> Result<bool, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = fs::read(path).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    let replayed = replay(&bytes).map_err(|error| wrong(&error))?;
    print(&grid(path, &replayed).to_text())?;
    Ok(replayed.first_difference.is_none())
}

fn grid(path: &Path, replayed: &Replayed) -> Grid {
    let mut grid = Grid::new(format!("Replay of {}", path.display()), &["what", "count"]);
    grid.rows.push(vec!["calls".to_owned(), count(replayed.events)]);
    grid.rows.push(vec!["decisions among them".to_owned(), count(replayed.decisions)]);
    let verdict = match &replayed.first_difference {
        None => "Every decision was made again, bit for bit.".to_owned(),
        Some(first) => {
            let (recorded, made) = (first.recorded, first.made);
            format!("Call {} came out otherwise: {}: recorded {recorded:x?}, now {made:x?}.", first.event, first.call)
        }
    };
    grid.notes.push(verdict);
    if replayed.cut_off {
        grid.notes
            .push("The record ends before the run did: its room was used up. Raise record_mib for more.".to_owned());
    }
    grid
}
