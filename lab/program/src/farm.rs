//! `sidecore farm bench`: the farm and NATS alone, measured in turn in one run; `sidecore farm try`: its main job.
//!
//! |Module|For|
//! |---|---|
//! |`share`, `tail`, `rate`, `kills`|the scenarios; `contest` alternates their variants|
//! |`trial`, `drill`|`try`; processes killed under load, for it and for `kills`, with `ledger` as the judge|
//! |`stand`, `server`, `crew`, `roles`, `running`|a nats-server and the processes of a run|
//! |`pull`|the baseline: nodes with pull consumers of `JetStream`|
//! |`load`, `feeding`, `script`|events: their sizes and times; how they are fed|
//! |`watch`, `results`, `found`|what is seen from outside: who had an event when, and what is stored|
//! |`columns`, `rows`, `names`, `error`|figures and tables; names of streams and subjects; errors|

mod columns;
mod contest;
mod crew;
mod drill;
pub(crate) mod error;
mod feeding;
mod found;
mod kills;
mod ledger;
mod load;
mod names;
mod pull;
mod rate;
mod results;
mod roles;
mod rows;
mod running;
mod script;
mod server;
mod share;
mod stand;
mod tail;
mod trial;
mod watch;

pub(crate) use share::{UNIT, devices};

use crate::args::farm::{Bench, FarmCommand, Scenario};
use contest::Measured;
use error::{FarmError, Unmeasured};
use sidecore_report::{Row, grouped};
use sidecore_terminal::output::print;
use stand::{Stand, unless_stopped};

/// The default scenarios, in their order. `kills` takes ten minutes, so it must be named.
const ALL: [Scenario; 3] = [Scenario::Share, Scenario::Tail, Scenario::Rate];
const HEADINGS: [(&str, &str); 5] = [
    ("share", "nodes with enough to do: share of the sum of their rates"),
    ("tail", "Poisson arrivals at 0.8 of what the nodes can do: an event's time"),
    ("rate", "events without work through one node: events a second"),
    ("way", "500 events a second: from publishing until a worker has one"),
    ("kills", "kill -9: ids fed and committed, compared one by one"),
];

/// Runs the command. Returns the exit code.
pub(crate) fn run(command: &FarmCommand) -> Result<u8, FarmError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(FarmError::system("cannot start"))?;
    let code = runtime.block_on(async {
        match command {
            FarmCommand::Try(args) => unless_stopped(Box::pin(trial::run(args))).await,
            FarmCommand::Bench(args) => unless_stopped(Box::pin(bench(args))).await,
            FarmCommand::Pull(args) => pull::work(args).await,
        }
    });
    runtime.shutdown_background();
    code
}

/// Measures, prints a table for each scenario, and writes rows if a file is named. The exit code is 1 if an event was
/// lost or committed twice.
async fn bench(args: &Bench) -> Result<u8, FarmError> {
    let mut stand = Stand::new(&args.common, args.quick).await?;
    let scenarios = if args.scenarios.is_empty() { &ALL } else { args.scenarios.as_slice() };
    let mut rows = Vec::new();
    for scenario in scenarios {
        let (found, best) = match measure(&mut stand, *scenario, args).await {
            Ok(measured) => measured,
            Err(why) => return Err(Unmeasured::Failed { source: why.into(), logs: stand.server.keep() }.into()),
        };
        print(&tables(&found, best)).map_err(FarmError::output)?;
        rows.extend(found);
    }
    if let Some(file) = &args.common.json {
        rows::write(&rows, file)?;
    }
    Ok(u8::from(!rows.iter().all(is_well)))
}

async fn measure(stand: &mut Stand, scenario: Scenario, args: &Bench) -> Result<Measured, FarmError> {
    match scenario {
        Scenario::Share => share::measure(stand).await,
        Scenario::Tail => tail::measure(stand).await,
        Scenario::Rate => rate::measure(stand).await,
        Scenario::Kills => kills::measure(stand, args).await,
    }
}

fn is_well(row: &Row) -> bool {
    let (fed, committed) = (row.number(columns::FED), row.number(columns::COMMITTED));
    fed.is_none() || fed == committed && row.number(columns::TWICE) == Some(0.0)
}

fn tables(rows: &[Row], best: Option<usize>) -> String {
    let table = |(name, of): (&str, Vec<&Row>)| {
        let heading = HEADINGS.iter().find(|(known, _)| *known == name).map_or("", |(_, heading)| heading);
        format!("{name}: {heading}\n{}\n\n", rows::table(&of, best))
    };
    grouped(&rows.iter().collect::<Vec<_>>(), Row::scenario).into_iter().map(table).collect()
}
