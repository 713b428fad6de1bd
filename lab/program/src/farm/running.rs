//! Sixteen nodes at work, fed by credit or pulling: started, measured, ended.

use super::columns::CPU;
use super::feeding::Target;
use super::stand::{Stand, until};
use super::watch::Watcher;
use super::{load, names, pull, results, roles};
use crate::farm::crew::{Process, ProcessError, Role};
use crate::farm::error::FarmError;
use sidecore_report::Row;
use std::time::Duration;

pub(crate) const FARM: &str = "bench";
const KIND: &str = "event";
const READY_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    Farm(&'static str),
    Unstored(&'static str),
    /// Each node pulls, with that number of messages in flight.
    Pull(usize),
    Bare(usize),
}

impl Variant {
    pub(crate) fn balance(self) -> Option<&'static str> {
        match self {
            Self::Farm(balance) | Self::Unstored(balance) => Some(balance),
            Self::Pull(_) | Self::Bare(_) => None,
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Farm(balance) => balance.to_owned(),
            Self::Unstored(balance) => format!("{balance}, no result"),
            Self::Pull(in_flight) => format!("pull {in_flight}"),
            Self::Bare(in_flight) => format!("pull {in_flight}, no result"),
        }
    }
}

pub(crate) struct Running<'a> {
    stand: &'a Stand,
    pub(crate) target: Target,
    pub(crate) events: String,
    pub(crate) results: String,
    dispatcher: Option<Process>,
    pub(crate) nodes: Vec<Process>,
    streams: Vec<String>,
    /// CPU times of server, dispatcher and nodes before the first event.
    before: [Duration; 3],
}

impl<'a> Running<'a> {
    pub(crate) async fn start(
        stand: &'a Stand,
        variant: Variant,
        units: &[Duration],
        further: &[&str],
    ) -> Result<Self, FarmError> {
        let mut running = Self::without_nodes(stand, variant, further).await?;
        match variant {
            Variant::Farm(_) | Variant::Unstored(_) => running.join(units).await?,
            Variant::Pull(in_flight) | Variant::Bare(in_flight) => running.pull(in_flight, units).await?,
        }
        running.begin();
        Ok(running)
    }

    pub(crate) async fn without_nodes(stand: &'a Stand, variant: Variant, further: &[&str]) -> Result<Self, FarmError> {
        let js = stand.js.clone();
        let (subject, streams, dispatcher) = match variant {
            Variant::Farm(balance) | Variant::Unstored(balance) => {
                let keep = if matches!(variant, Variant::Farm(_)) { "stream" } else { "none" };
                let further = [&["--balance", balance, "--results", keep], further].concat();
                let mut dispatcher = roles::dispatcher(stand, FARM, 0, &further)?;
                let streams = names::streams(FARM);
                until("the farm's streams", READY_TIMEOUT, async || match dispatcher.ended() {
                    Some(why) => Err(why.into()),
                    None => Ok(results::count(&js, names::last(&streams)).await.is_ok()),
                })
                .await?;
                (names::event(FARM, KIND), streams.to_vec(), Some(dispatcher))
            }
            Variant::Pull(_) | Variant::Bare(_) => {
                pull::set_up(&js).await?;
                (pull::EVENT.into(), vec![pull::EVENTS.into(), pull::RESULTS.into()], None)
            }
        };
        let target = Target { js, subject, prefix: "event".into() };
        let [events, results] = [streams[0].clone(), streams[1].clone()];
        Ok(Self { stand, target, events, results, dispatcher, nodes: Vec::new(), streams, before: [Duration::ZERO; 3] })
    }

    pub(crate) fn begin(&mut self) {
        self.before = self.cpu_times();
    }

    async fn join(&mut self, units: &[Duration]) -> Result<(), FarmError> {
        let watcher = Watcher::new(&self.stand.client, FARM).await?;
        let nodes = units.iter().enumerate().map(|(number, unit)| roles::node(self.stand, FARM, number, *unit));
        self.nodes = nodes.collect::<Result<_, _>>()?;
        until("nodes to join", READY_TIMEOUT, async || match self.ended() {
            Some(why) => Err(why.into()),
            None => Ok(watcher.seen().welcomed() == units.len()),
        })
        .await
    }

    async fn pull(&mut self, in_flight: usize, units: &[Duration]) -> Result<(), FarmError> {
        let nodes = units.iter().enumerate().map(|(number, unit)| pull_node(self.stand, number, in_flight, *unit, &[]));
        self.nodes = nodes.collect::<Result<_, _>>()?;
        let (stand, wanted) = (self.stand, units.len() * in_flight);
        until("nodes to pull", READY_TIMEOUT, async || Ok(waiting(stand).await? == wanted)).await
    }

    pub(crate) async fn finish(&mut self, count: usize, patience: Duration) -> Result<u64, FarmError> {
        let (js, results) = (self.stand.js.clone(), self.results.clone());
        let all = until("results", patience, async || Ok(results::count(&js, &results).await? >= count as u64)).await;
        if let Some(why) = self.ended() {
            return Err(why.into());
        }
        drop(all);
        results::count(&js, &results).await
    }

    pub(crate) fn cpu(&self, events: usize) -> Row {
        let now = self.cpu_times();
        let us = |who: usize| (now[who].saturating_sub(self.before[who])).as_secs_f64() * 1e6 / events.max(1) as f64;
        CPU.into_iter().enumerate().fold(Row::default(), |row, (who, column)| row.with(column, us(who)))
    }

    pub(crate) async fn end(mut self) {
        self.nodes.clear();
        self.dispatcher = None;
        for stream in &self.streams {
            // The server ends with the run: a stream that stays only takes space until then.
            let _ = self.stand.js.delete_stream(stream).await;
        }
    }

    fn cpu_times(&self) -> [Duration; 3] {
        let nodes = self.nodes.iter().map(Process::cpu_time).sum();
        [self.stand.server.cpu_time(), self.dispatcher.as_ref().map_or(Duration::ZERO, Process::cpu_time), nodes]
    }

    fn ended(&mut self) -> Option<ProcessError> {
        self.dispatcher.iter_mut().chain(&mut self.nodes).find_map(Process::ended)
    }
}

pub(crate) fn pull_node(
    stand: &Stand,
    number: usize,
    in_flight: usize,
    unit: Duration,
    further: &[String],
) -> Result<Process, FarmError> {
    let mut arguments = ["farm", "pull", "--server", &stand.server.url(), "--in-flight"].map(str::to_owned).to_vec();
    arguments.extend([in_flight.to_string(), "--sleep".into(), format!("{}ns", unit.as_nanos())]);
    arguments.extend_from_slice(further);
    Ok(Role::of_this_program(format!("node {number}"), arguments, stand.logs())?.start()?)
}

async fn waiting(stand: &Stand) -> Result<usize, FarmError> {
    Ok(pull::consumer(&stand.js).await?.cached_info().num_waiting)
}

pub(crate) fn sixteen(unit: Duration) -> Vec<Duration> {
    (0..load::NODES).map(|node| load::unit_of(node, unit)).collect()
}
