//! `sidecore farm top` and `farm status`: nodes, their credit and the times of events, from the dispatcher's status
//! messages. Watching sends no requests, so it disturbs no other process.

mod live;
mod rows;
#[cfg(test)]
mod tests;

use crate::args::watch::{Status, Top};
use crate::error::FarmError;
use crate::status_watch::{View, Words};
use sidecore_terminal::error::REFUSED;
use sidecore_terminal::output;
use std::io::{self, IsTerminal};
use std::time::Instant;

/// Prints the state of the farm. The exit code shows whether a dispatcher is active.
pub(crate) async fn status(args: &Status) -> Result<u8, FarmError> {
    let view = Words::of(&args.farm).await?.now().await?.view(Instant::now());
    let Some(active) = &view.active else {
        output::tell(rows::nobody(&args.farm.farm, view.standing_by));
        return Ok(REFUSED);
    };
    if args.json {
        let line =
            serde_json::to_string(active).map_err(|error| FarmError::output(format!("cannot write JSON: {error}")))?;
        output::print(&(line + "\n")).map_err(FarmError::output)?;
    } else {
        output::print(&render(&args.farm.farm, &view)).map_err(FarmError::output)?;
    }
    Ok(0)
}

/// Shows the state of the farm until the user quits. With `once`, or if standard output is no terminal, the same as
/// `status`.
pub(crate) async fn top(args: Top) -> Result<u8, FarmError> {
    if args.once || !io::stdout().is_terminal() {
        return status(&Status { farm: args.farm, json: false }).await;
    }
    live::run(&args.farm).await.map(|()| 0)
}

fn render(farm: &str, view: &View) -> String {
    let lines: Vec<String> = rows::header(farm, view).into_iter().chain(rows::trouble(view)).collect();
    let nodes = view.active.as_ref().map(rows::nodes).unwrap_or_default();
    let table = if nodes.cells.is_empty() { String::new() } else { format!("\n{}\n", nodes.to_text()) };
    lines.join("\n") + "\n" + &table
}
