//! How fast the simulator is here.

use crate::output::print;
use crate::report::Grid;
use sidecore_sim::speed;
use std::time::Instant;

/// Events in each measurement.
const EVENTS: u64 = 20_000_000;
const REPEATS: usize = 5;
const WORLDS: [(&str, usize); 3] = [("small world", 8), ("400 pending timers", 400), ("4000 pending timers", 4_000)];

pub(super) fn run() -> Result<(), String> {
    let mut grid = Grid::new(format!("Events a second, one core, {EVENTS} events"), &["world", "M/s"]);
    for (name, timers) in WORLDS {
        let mut rates: Vec<f64> = (0..REPEATS).map(|_| rate(timers)).collect();
        rates.sort_by(f64::total_cmp);
        grid.rows.push(vec![name.to_owned(), format!("{:.1}", rates[REPEATS / 2] / 1e6)]);
    }
    grid.notes.push(format!("Medians of {REPEATS} repeats."));
    print(&grid.to_text())
}

fn rate(timers: usize) -> f64 {
    let start = Instant::now();
    let handled = speed::timers(timers, EVENTS);
    handled as f64 / start.elapsed().as_secs_f64()
}
