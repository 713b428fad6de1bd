//! A recorded run of the service: its decisions repeated, or its requests run on other devices.

use super::output::{self, Members};
use crate::args::{Output, Replay};
use crate::error::LabError;
use crate::report::{Grid, count, digits};
use sidecore::core::policy::balance::Balance;
use sidecore_measure::export::print;
use sidecore_sim::replay::{Again, ClosedLoop, Pool, Replayed, Traffic, again, replay, traffic};
use std::error::Error;
use std::path::Path;

/// Returns `false` if a decision differs.
pub(super) fn run(args: &Replay) -> Result<bool, LabError> {
    let path = &args.file;
    let bytes = std::fs::read(path).map_err(|error| {
        let remedy = "name what a service with record = \"FILE\" wrote";
        LabError::missing(format!("{}: cannot be read", path.display()), error, remedy)
    })?;
    let asks = args.devices.is_some() || args.like.is_some() || args.depth.is_some();
    if asks || args.balance.is_some() {
        let traffic = traffic(&bytes).map_err(|error| wrong(path, error))?;
        return elsewhere(args, &traffic);
    }
    let replayed = replay(&bytes).map_err(|error| wrong(path, error))?;
    let mut grid = decided(path, &replayed);
    grid.notes.extend(traffic(&bytes).ok().as_ref().and_then(closed_loop));
    print(&grid.to_text())?;
    Ok(replayed.first_difference.is_none())
}

fn wrong(path: &Path, error: impl Into<Box<dyn Error + Send + Sync>>) -> LabError {
    LabError::failed(path.display().to_string(), error)
}

fn decided(path: &Path, replayed: &Replayed) -> Grid {
    let mut grid = Grid::new(format!("Replay of {}", path.display()), &["what", "count"]);
    grid.push(["calls".to_owned(), count(replayed.events)]);
    grid.push(["decisions among them".to_owned(), count(replayed.decisions)]);
    grid.notes.push(match &replayed.first_difference {
        None => "Every decision was made again, bit for bit.".to_owned(),
        Some(first) => {
            let (recorded, made) = (first.recorded, first.made);
            format!("Call {} came out otherwise: {}: recorded {recorded:x?}, now {made:x?}.", first.event, first.call)
        }
    });
    if replayed.cut_off {
        let cut_off = "The record ends before the run did: its room was used up. Raise record_mib for more.";
        grid.notes.push(cut_off.to_owned());
    }
    grid
}

fn closed_loop(traffic: &Traffic) -> Option<String> {
    let ClosedLoop { lanes, of, in_flight } = traffic.closed_loop()?;
    Some(format!(
        "The record is of a closed loop: {lanes} of {of} lanes wait for answers, with at most {in_flight} requests in \
         flight. Faster devices would have received more requests, slower ones fewer; --devices, --like and --depth keep \
         the recorded arrivals."
    ))
}

fn elsewhere(args: &Replay, traffic: &Traffic) -> Result<bool, LabError> {
    let path = &args.file;
    if traffic.requests.is_empty() {
        return Err(wrong(path, "no request in it was done: record while the service has something to do"));
    }
    let recorded = Again::recorded(traffic);
    let most = (0..recorded.busy.len()).max_by_key(|device| recorded.busy[*device]).unwrap_or(0);
    let same = Pool {
        devices: (0..traffic.devices.len()).filter(|device| recorded.busy[*device] > 0).collect(),
        depth: None,
        balance: traffic.balance,
    };
    let other = asked(args, traffic, &same, most)?;
    let run = |pool: &Pool| again(traffic, pool).ok_or_else(|| wrong(path, "a device is like none of the record"));
    let ways =
        [("recorded", recorded), ("simulated, the same devices", run(&same)?), ("simulated, as asked", run(&other)?)];
    print(&grid(path, traffic, &ways, &other).to_text())?;
    let files = Output { json: args.json.clone(), markdown: None };
    let lines: Vec<Members<6>> = ways.iter().map(|(name, found)| line(name, found)).collect();
    output::write(&files, &lines, "", &[])?;
    Ok(true)
}

fn asked(args: &Replay, traffic: &Traffic, same: &Pool, most: usize) -> Result<Pool, LabError> {
    let like = args.like.unwrap_or(most);
    if like >= traffic.devices.len() {
        let last = traffic.devices.len() - 1;
        return Err(LabError::Usage(format!("--like {like}: the record has devices 0 to {last}")));
    }
    let devices = match (args.devices, args.like) {
        (None, None) => same.devices.clone(),
        (count, _) => vec![like; count.unwrap_or(1) as usize],
    };
    let balance = args.balance.as_deref().map(Balance::parse).transpose();
    let balance = balance.map_err(|error| LabError::failed("--balance", error))?.unwrap_or(same.balance);
    Ok(Pool { devices, depth: args.depth, balance })
}

fn us(time: f64) -> String {
    digits(time / 1e3)
}

fn rate(found: &Again) -> f64 {
    found.times.len() as f64 * 1e9 / found.span.max(1) as f64
}

fn busy(found: &Again) -> Vec<f64> {
    found.busy.iter().map(|busy| *busy as f64 / found.span.max(1) as f64).collect()
}

fn grid(path: &Path, traffic: &Traffic, ways: &[(&str, Again); 3], asked: &Pool) -> Grid {
    let headings: Vec<&str> = [""].into_iter().chain(ways.iter().map(|(name, _)| *name)).collect();
    let mut grid = Grid::new(format!("The requests of {} once more", path.display()), &headings);
    let mut row = |name: &str, of: &dyn Fn(&Again) -> String| {
        grid.push([name.to_owned()].into_iter().chain(ways.iter().map(|(_, found)| of(found))));
    };
    row("requests done", &|found| count(found.times.len() as u64));
    row("in a second", &|found| digits(rate(found)));
    row("mean, us", &|found| us(found.mean()));
    for (name, part) in [("median, us", 0.5), ("99th percentile, us", 0.99)] {
        row(name, &|found| found.at(part).map_or("-".to_owned(), |time| us(time as f64)));
    }
    row("devices", &|found| found.busy.iter().filter(|busy| **busy > 0).count().to_string());
    row("busiest device, %", &|found| digits(busy(found).into_iter().fold(0.0, f64::max) * 100.0));
    let (like, number) = (asked.devices[0], asked.devices.len());
    let devices = if asked.devices.iter().all(|device| *device == like) {
        format!("{number} like device {like} of the record")
    } else {
        "as recorded".to_owned()
    };
    grid.notes.push(format!("Asked: devices {devices}, {}.", asked.balance));
    grid.notes.push(
        "A request counts from when the sidecore took it from its lane until it had its completion. Requests come when they came, \
         however quickly they are answered; what they cost the sidecore itself and shares between clients are left out. The second \
         column says how near that comes."
            .to_owned(),
    );
    grid.notes.extend(closed_loop(traffic));
    if traffic.left_out > 0 {
        grid.notes
            .push(format!("{} requests are left out: refused, lost, or not done at the end.", count(traffic.left_out)));
    }
    grid
}

fn line(name: &str, found: &Again) -> Members<6> {
    let at = |part: f64| found.at(part).map(|time| time as f64 / 1e3);
    Members([
        ("what", name.into()),
        ("ops_per_s", rate(found).into()),
        ("mean_us", (found.mean() / 1e3).into()),
        ("p50_us", at(0.5).into()),
        ("p99_us", at(0.99).into()),
        ("busy", busy(found).into()),
    ])
}
