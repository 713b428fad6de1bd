//! `sidecore farm top` and `farm status`: nodes, their credit and where the time of events goes, from what the farm's
//! dispatcher publishes. Whoever watches asks nobody, so it disturbs nobody.

mod live;
mod rows;
#[cfg(test)]
mod tests;

use crate::args::watch::{Status, Top};
use crate::heard::{View, Words};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use sidecore_terminal::output;
use sidecore_terminal::table::Rows;
use std::io::{self, IsTerminal};
use std::time::Instant;

/// Exit code where nobody dispatches.
const NOBODY: u8 = 1;

/// Prints how the farm is. The exit code says whether anybody dispatches.
///
/// # Errors
/// No server answers, or standard output cannot be written.
pub(crate) async fn status(args: &Status) -> Result<u8, String> {
    let view = Words::of(&args.farm).await?.now().await?.view(Instant::now());
    let Some(active) = &view.active else {
        output::tell(rows::nobody(&args.farm.farm, view.standing_by));
        return Ok(NOBODY);
    };
    if args.json {
        let line = serde_json::to_string(active).map_err(|error| format!("cannot write JSON: {error}"))?;
        output::print(&(line + "\n"))?;
    } else {
        output::print(&render(&args.farm.farm, &view))?;
    }
    Ok(0)
}

/// Shows how the farm is until the user quits. With `once`, and where standard output is no terminal, as `status`.
///
/// # Errors
/// The same, and that the terminal cannot be used.
pub(crate) async fn top(args: Top) -> Result<u8, String> {
    if args.once || !io::stdout().is_terminal() {
        return status(&Status { farm: args.farm, json: false }).await;
    }
    live::run(&args.farm).await.map(|()| 0)
}

/// The whole text.
fn render(farm: &str, view: &View) -> String {
    let lines: Vec<String> = rows::header(farm, view).into_iter().chain(rows::trouble(view)).collect();
    let nodes = view.active.as_ref().map(rows::nodes).unwrap_or_default();
    let table = if nodes.cells.is_empty() { String::new() } else { format!("\n{}\n", text(&nodes)) };
    lines.join("\n") + "\n" + &table
}

/// A table as text.
fn text(rows: &Rows) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(rows.columns.iter().map(|(heading, _)| heading)).add_rows(&rows.cells);
    for (column, (_, number)) in table.column_iter_mut().zip(&rows.columns) {
        column.set_padding((0, 2));
        column.set_cell_alignment(if *number { CellAlignment::Right } else { CellAlignment::Left });
    }
    table.trim_fmt()
}
