//! `sidecore top`: what the service does, its clients, and where the time goes.
//!
//! It only reads the counter file, so it does not disturb the service. It can show the last numbers of a service that
//! has ended.

use crate::args::{CounterFile, Top};
use crate::error::WatchError;
use rows::{ALLEGED, View, classes, clients, devices, header, keys, sidecores};
use sidecore_counters::Snapshot;
use sidecore_terminal::output::unless_closed;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

mod live;
mod rows;
#[cfg(test)]
mod tests;
mod units;

/// Shows a service's counters until the user quits, with rates over each `interval`. With `once`, or if standard output
/// is no terminal, prints them once as text with rates over one interval. An interval of zero: since the start.
pub(crate) fn run(args: &Top, interval: Duration) -> Result<(), WatchError> {
    args.sockets.refuse("sidecore sockets top")?;
    expect_counters(&args.counters)?;
    let counters = args.counters.path();
    if args.once || !io::stdout().is_terminal() {
        return print(&counters, interval, &mut io::stdout().lock());
    }
    live::run(&counters, interval)
}

/// Refuses a socket without a counter file beside it: it is that of a service of sockets, or the configuration names
/// another file.
fn expect_counters(file: &CounterFile) -> Result<(), WatchError> {
    let (counters, socket) = (file.path(), &file.socket);
    let is_socket = socket.metadata().is_ok_and(|found| found.file_type().is_socket());
    if file.counters.is_none() && is_socket && !counters.exists() {
        return Err(WatchError::NoCounters { counters, socket: socket.clone() });
    }
    Ok(())
}

/// Prints the counters of this file. Rates are those of one interval, which the call waits for. Quantiles and counts
/// are those since the start, and so are rates if the interval is zero or the service does not run.
fn print(counters: &Path, interval: Duration, output: &mut impl Write) -> Result<(), WatchError> {
    let first = read(counters)?;
    let view = if first.is_alive() && !interval.is_zero() {
        std::thread::sleep(interval);
        View::new(read(counters)?, Some(&first), false)
    } else {
        View::new(first, None, false)
    };
    Ok(unless_closed(output.write_all(render(&view).as_bytes()).and_then(|()| output.flush()))?)
}

fn read(counters: &Path) -> Result<Snapshot, WatchError> {
    Snapshot::read(counters).map_err(WatchError::library)
}

fn render(view: &View) -> String {
    let mut text = header(view).join("\n") + "\n";
    let tables = [keys(view), clients(view, 0), devices(view), sidecores(view), classes(view)];
    for rows in tables.iter().filter(|rows| !rows.cells.is_empty()) {
        text = text + "\n" + &rows.to_text() + "\n";
    }
    if !view.total.lanes.is_empty() {
        text = text + "\n" + ALLEGED + "\n";
    }
    text
}
