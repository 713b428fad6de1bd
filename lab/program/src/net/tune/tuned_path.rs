//! The path to tune: both ends with their settings, and the results of its runs.

use super::estimate::deviation;
use super::goal::Figures;
use super::location::Here;
use super::setting::{self, KNOWN, Setting};
use crate::args::Goal;
use crate::error::LabError;
use crate::net::account::Account;
use crate::net::end::{End, Order};
use crate::net::flow::times;
use crate::net::link::Link;
use crate::net::measure::{Instruments, Run};
use crate::net::path::Path;
use crate::net::protocol::{Direction, Load, Transport};
use crate::net::why::suspects;
use sidecore_report::statistics::median;
use std::collections::BTreeMap;
use std::mem;
use std::slice;
use std::time::Duration;

const WARM_UP: Duration = Duration::from_millis(60);
/// Cost of a path without traffic, added to the original settings' cost; a logarithm.
const BROKEN: f64 = 5.0;

/// Bytes of a datagram that fills a packet of 1500.
pub(super) const DATAGRAM: usize = 1_472;

#[derive(Debug)]
pub(super) struct Tuned {
    pub(super) setting: &'static Setting,
    /// The original value at each end.
    pub(super) start: Vec<String>,
    /// Each for both ends.
    pub(super) others: Vec<String>,
}

pub(super) struct Ends {
    pub(super) near: Here,
    /// With the name of its interface.
    pub(super) far: Option<(End, String)>,
    /// The interfaces end when this drops.
    pub(super) _link: Option<Link>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub(super) window: Duration,
    pub(super) connections: usize,
    /// Round trips a second of each connection.
    pub(super) rate: f64,
}

pub(super) struct TunedPath {
    pub(super) interface: String,
    path: Path,
    ends: Ends,
    pub(super) tuned: Vec<Tuned>,
    now: Vec<usize>,
    goal: Goal,
    manner: Manner,
    pub(super) seen: BTreeMap<Vec<usize>, Vec<Figures>>,
}

impl Ends {
    pub(super) fn read(&mut self, setting: &'static Setting) -> Result<Vec<String>, LabError> {
        let mut values = vec![self.near.read(setting)?];
        if let Some((far, interface)) = &mut self.far {
            let read = Order::Read { interface: interface.clone(), setting: setting.name.to_owned() };
            values.push(far.ask(&read)?);
        }
        Ok(values)
    }

    /// Sets a value for each end; the last one also serves ends without a value.
    pub(super) fn write(&mut self, setting: &'static Setting, values: &[String]) -> Result<(), LabError> {
        let (Some(first), Some(last)) = (values.first(), values.last()) else { return Ok(()) };
        self.near.write(setting, first)?;
        if let Some((far, interface)) = &mut self.far {
            far.order(&Order::Write {
                interface: interface.clone(),
                setting: setting.name.to_owned(),
                value: values.get(1).unwrap_or(last).clone(),
            })?;
        }
        Ok(())
    }

    /// Changeable ones of the named settings, or of all, and the others with reasons.
    ///
    /// With `tries` each value is set briefly, and refused values are left out.
    pub(super) fn discover(&mut self, named: &[String], tries: bool) -> Result<(Vec<Tuned>, Vec<String>), LabError> {
        let wanted = named.iter().map(|name| setting::by_name(name)).collect::<Result<Vec<_>, _>>()?;
        let processors = Account::of_kernel().processors.len();
        let (mut tuned, mut left_out) = (Vec::new(), Vec::new());
        for setting in KNOWN.iter().filter(|setting| wanted.is_empty() || wanted.contains(setting)) {
            if self.far.is_some() && setting.is_of_machine() {
                left_out.push(format!(
                    "{}: it is the whole machine's, and this path is in namespaces of its own",
                    setting.name
                ));
                continue;
            }
            let start = match self.read(setting) {
                Ok(start) => start,
                Err(why) => {
                    left_out.push(format!("{}: {why}", setting.name));
                    continue;
                }
            };
            let mut others = setting.others("", processors);
            others.retain(|value| start.iter().any(|start| start != value));
            others.retain(|value| match Here::lacks(setting, value) {
                Some(why) => {
                    left_out.push(format!("{} {value}: {why}", setting.name));
                    false
                }
                None => true,
            });
            if tries {
                if let Err(why) = self.write(setting, &start) {
                    left_out.push(format!("{}: {why}", setting.name));
                    continue;
                }
                others.retain(|value| match self.write(setting, slice::from_ref(value)) {
                    Ok(()) => true,
                    Err(why) => {
                        left_out.push(format!("{} {value}: {why}", setting.name));
                        false
                    }
                });
                self.write(setting, &start)
                    .map_err(|why| LabError::failed(format!("{} cannot be set back", setting.name), why))?;
            }
            if !others.is_empty() {
                tuned.push(Tuned { setting, start, others });
            }
        }
        Ok((tuned, left_out))
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        // A removed interface takes its queues' settings with it, but the kernel keeps the mark that some queue has
        // RPS. Every packet of the machine would then be checked for it.
        if let (Some(_), Ok(rps)) = (&self.far, setting::by_name("rps")) {
            // The other end exists until this is dropped. If it was lost, nothing can be done.
            let _ = self.write(rps, &["0".to_owned()]);
        }
    }
}

impl Tuned {
    pub(super) fn values(&self, level: usize) -> &[String] {
        match level.checked_sub(1) {
            None => &self.start,
            Some(other) => &self.others[other..=other],
        }
    }
}

impl TunedPath {
    pub(super) fn new(path: Path, ends: Ends, tuned: Vec<Tuned>, goal: Goal, manner: Manner) -> Self {
        let now = vec![0; tuned.len()];
        Self {
            interface: ends.near.interface().to_owned(),
            path,
            ends,
            tuned,
            now,
            goal,
            manner,
            seen: BTreeMap::new(),
        }
    }

    /// Returns the window before.
    pub(super) fn measure_for(&mut self, window: Duration) -> Duration {
        mem::replace(&mut self.manner.window, window)
    }

    /// Whether no run with the original settings had a result.
    pub(super) fn is_empty(&self) -> bool {
        self.start_costs().is_empty()
    }

    pub(super) fn near(&mut self) -> &mut Here {
        &mut self.ends.near
    }

    pub(super) fn levels(&self) -> Vec<usize> {
        self.tuned.iter().map(|tuned| tuned.others.len()).collect()
    }

    pub(super) fn words(&self, levels: &[usize]) -> String {
        let changed = self.tuned.iter().zip(levels).filter(|(_, level)| **level > 0);
        let said: Vec<_> =
            changed.map(|(tuned, level)| format!("{} {}", tuned.setting.name, tuned.values(*level)[0])).collect();
        if said.is_empty() { "as it was".to_owned() } else { said.join(", ") }
    }

    /// Sets those levels. A setting may depend on another one, so refused ones are tried twice.
    pub(super) fn set(&mut self, levels: &[usize]) -> Result<(), LabError> {
        let mut refused = Ok(());
        for _ in 0..2 {
            refused = Ok(());
            for (at, tuned) in self.tuned.iter().enumerate() {
                if self.now[at] == levels[at] {
                    continue;
                }
                match self.ends.write(tuned.setting, tuned.values(levels[at])) {
                    Ok(()) => {
                        self.now[at] = levels[at];
                        // New queues have lost their settings.
                        if tuned.setting.makes_queues() {
                            let own = self.tuned.iter().zip(&mut self.now);
                            own.filter(|(own, _)| own.setting.is_of_queues()).for_each(|(_, now)| *now = usize::MAX);
                        }
                    }
                    // One end may have accepted it: the level is unknown.
                    Err(why) => {
                        self.now[at] = usize::MAX;
                        refused = Err(LabError::failed(tuned.setting.name, why));
                    }
                }
            }
        }
        refused
    }

    pub(super) fn cost(&mut self, levels: &[usize]) -> Result<f64, LabError> {
        if self.set(levels).is_err() {
            return Ok(self.start_cost() + BROKEN);
        }
        let figures = self.measure(self.goal.needs_streams(), self.goal.needs_trips())?;
        self.seen.entry(levels.to_vec()).or_default().push(figures);
        Ok(self.goal.cost(&figures).unwrap_or_else(|| self.start_cost() + BROKEN))
    }

    /// Median cost of the original settings; 0 if they have no result.
    fn start_cost(&self) -> f64 {
        let costs = self.start_costs();
        if costs.is_empty() { 0.0 } else { median(&costs) }
    }

    /// Standard deviation of identical runs, as a logarithm.
    pub(super) fn noise(&self) -> f64 {
        deviation(&self.start_costs())
    }

    fn start_costs(&self) -> Vec<f64> {
        let start = self.seen.get(&vec![0; self.tuned.len()]);
        start.into_iter().flatten().filter_map(|figures| self.goal.cost(figures)).collect()
    }

    pub(super) fn figures(&self, levels: &[usize]) -> Figures {
        let seen = self.seen.get(levels).map_or(&[][..], Vec::as_slice);
        let middle = |of: fn(&Figures) -> Option<f64>| {
            let known: Vec<_> = seen.iter().filter_map(of).collect();
            (!known.is_empty()).then(|| median(&known))
        };
        Figures {
            mbit_per_s: middle(|figures| figures.mbit_per_s),
            latency_us: middle(|figures| figures.latency_us),
            cpu_ns_per_byte: middle(|figures| figures.cpu_ns_per_byte),
        }
    }

    fn measure(&mut self, streams: bool, trips: bool) -> Result<Figures, LabError> {
        let mut figures = Figures::default();
        let load = self.streams();
        if streams {
            let Run { both, .. } = self.run(&load)?;
            let bytes = both.far.received.bytes as f64;
            let busy = both.near.busy_s();
            if bytes > 0.0 {
                figures.mbit_per_s = Some(bytes * 8.0 / both.far.seconds() / 1e6);
                figures.cpu_ns_per_byte = Some(busy * 1e9 / bytes);
            }
        }
        if trips {
            let paced = Load { direction: Direction::RoundTrip, size: 64, rate: Some(self.manner.rate), ..load };
            let trips = times(&self.run(&paced)?.latencies);
            figures.latency_us = trips.map(|trips| trips.p50).filter(|us| *us > 0.0);
        }
        Ok(figures)
    }

    /// Numbers of the settings that bear on what limits the path, and that cause in words.
    pub(super) fn suspects(&mut self, window: Duration) -> Result<(Vec<usize>, String), LabError> {
        let (names, said) = suspects(&mut self.path, window)?;
        let mut first = Vec::new();
        for name in names {
            let own = self.tuned.iter().position(|tuned| tuned.setting.name == name);
            first.extend(own.filter(|own| !first.contains(own)));
        }
        Ok((first, said))
    }

    pub(super) fn wants_streams(&self) -> bool {
        self.goal.needs_streams()
    }

    /// Logarithm of the payload by datagrams divided by that of streams at those levels. `None`: one of them carried
    /// nothing.
    pub(super) fn datagrams(&mut self, levels: &[usize]) -> Result<Option<f64>, LabError> {
        self.set(levels)?;
        let streams = self.streams();
        let mut bytes_per_s =
            |load| Ok::<_, LabError>(self.run(&load)?.both.far).map(|far| far.received.bytes as f64 / far.seconds());
        let by_streams = bytes_per_s(streams)?;
        let by_datagrams = bytes_per_s(Load { transport: Transport::Udp, size: DATAGRAM, ..streams })?;
        Ok(Some((by_datagrams / by_streams).ln()).filter(|gain| gain.is_finite()))
    }

    fn streams(&self) -> Load {
        Load::new(Transport::Tcp, Direction::Send, 65_536, self.manner.connections)
    }

    fn run(&mut self, load: &Load) -> Result<Run, LabError> {
        Run::of(&mut self.path, load, self.manner.window, &mut Instruments::warmed_up_for(WARM_UP))
    }
}
