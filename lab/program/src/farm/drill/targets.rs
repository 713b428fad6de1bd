//! The processes of a farm under test: running, killed, and due for a restart.

use super::{FARM, FEEDER};
use crate::farm::crew::Process;
use crate::farm::error::FarmError;
use crate::farm::error::Unmeasured;
use crate::farm::script::{self, Script};
use crate::farm::stand::{Stand, until};
use crate::farm::watch::Watcher;
use crate::farm::{load, roles};
use async_nats::jetstream::Context;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const AWAY: Duration = Duration::from_millis(250);
/// A process that finds no server ends. Within this time after the server's kill it is restarted, as a service manager
/// would.
const EXCUSED: Duration = Duration::from_secs(3);
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Node(usize),
    Feeder,
    Dispatcher(usize),
    Server,
}

pub(super) struct CrashTargets<'a> {
    stand: &'a mut Stand,
    dispatchers: Vec<Process>,
    nodes: Vec<Process>,
    feeder: Option<Feeder>,
    away: Vec<(Instant, Who)>,
    served: Option<Instant>,
}

struct Feeder {
    process: Process,
    script: Arc<Script>,
    begun: Instant,
    giving: JoinHandle<()>,
}

impl<'a> CrashTargets<'a> {
    pub(super) async fn start(
        stand: &'a mut Stand,
        unit: Duration,
        standby: bool,
        watcher: &Watcher,
    ) -> Result<Self, FarmError> {
        let mut dispatchers = vec![roles::dispatcher(stand, FARM, 0, &[])?];
        let nodes = (0..load::NODES).map(|number| roles::node(stand, FARM, number, load::unit_of(number, unit)));
        let mut nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        let ended = |dispatchers: &mut [Process], nodes: &mut [Process]| {
            dispatchers.iter_mut().chain(nodes).find_map(Process::ended)
        };
        until("nodes to join", JOIN_TIMEOUT, async || match ended(&mut dispatchers, &mut nodes) {
            Some(why) => Err(why.into()),
            None => Ok(watcher.seen().welcomed() == load::NODES),
        })
        .await?;
        if standby {
            dispatchers.push(roles::dispatcher(stand, FARM, 1, &[])?);
        }
        Ok(Self { stand, dispatchers, nodes, feeder: None, away: Vec::new(), served: None })
    }

    pub(super) fn feed(&mut self, script: Arc<Script>, begun: Instant) -> Result<(), FarmError> {
        let mut process = roles::feeder(self.stand, FARM, FEEDER)?;
        let giving = give(&mut process, &script, begun)?;
        self.feeder = Some(Feeder { process, script, begun, giving });
        Ok(())
    }

    pub(super) fn js(&self) -> &Context {
        &self.stand.js
    }

    pub(super) fn kill(&mut self, who: Who) -> bool {
        let now = Instant::now();
        if self.is_away(who) || who == Who::Feeder && self.has_fed_all() {
            return false;
        }
        match who {
            Who::Server => {
                self.stand.server.kill();
                self.served = Some(now);
            }
            _ => self.process(who).into_iter().for_each(Process::kill),
        }
        self.away.push((now + AWAY, who));
        true
    }

    pub(super) async fn rise(&mut self) -> Result<(), FarmError> {
        let now = Instant::now();
        self.away.sort_by_key(|(at, who)| (*who != Who::Server, *at));
        while let Some(place) = self.away.iter().position(|(at, _)| *at <= now) {
            if self.is_away(Who::Server) && self.away[place].1 != Who::Server {
                return Ok(());
            }
            match self.away.remove(place).1 {
                Who::Server => self.stand.server.start_again().await?,
                Who::Feeder => self.feed_again()?,
                who => self.process(who).map_or(Ok(()), Process::start_again)?,
            }
        }
        Ok(())
    }

    /// Checks that no process has ended by itself. A feeder that is done may end, and so may a process without a
    /// server.
    pub(super) fn look(&mut self) -> Result<(), FarmError> {
        if let Some(why) = self.stand.server.ended() {
            return Err(why.into());
        }
        let is_excused = self.served.is_some_and(|killed| killed.elapsed() < EXCUSED);
        let nodes = (0..self.nodes.len()).map(Who::Node);
        let all = nodes.chain((0..self.dispatchers.len()).map(Who::Dispatcher)).chain([Who::Feeder]);
        for who in all.collect::<Vec<_>>() {
            if who == Who::Feeder && self.has_fed_all() {
                continue;
            }
            match self.process(who).and_then(Process::ended) {
                Some(why) if !is_excused => return Err(why.into()),
                Some(_) => drop(self.kill(who)),
                None => {}
            }
        }
        Ok(())
    }

    pub(super) fn has_fed_all(&mut self) -> bool {
        self.feeder.as_mut().is_some_and(|feeder| feeder.process.is_done())
    }

    fn is_away(&self, who: Who) -> bool {
        self.away.iter().any(|(_, away)| *away == who)
    }

    fn process(&mut self, who: Who) -> Option<&mut Process> {
        match who {
            Who::Node(number) => self.nodes.get_mut(number),
            Who::Dispatcher(number) => self.dispatchers.get_mut(number),
            Who::Feeder => self.feeder.as_mut().map(|feeder| &mut feeder.process),
            Who::Server => None,
        }
    }

    fn feed_again(&mut self) -> Result<(), FarmError> {
        let Some(feeder) = &mut self.feeder else { return Ok(()) };
        feeder.giving.abort();
        feeder.process.start_again()?;
        feeder.giving = give(&mut feeder.process, &feeder.script, feeder.begun)?;
        Ok(())
    }
}

fn give(process: &mut Process, script: &Arc<Script>, begun: Instant) -> Result<JoinHandle<()>, FarmError> {
    script::give(script.clone(), begun, process.input().ok_or(Unmeasured::NoInput)?)
}
