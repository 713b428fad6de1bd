//! Shared by programs that measure: rows and their exporters, the machine and commit of figures, checks of result files.
//!
//! |Module|For|
//! |---|---|
//! |`column`, `row`, `format`|a row's values by column; formats of numbers|
//! |`grid`|tables as text and Markdown|
//! |`report`, `section`, `caveat`, `outcome`, `about`|the rows of a run, their descriptions, reasons to doubt them|
//! |`text`, `markdown`, `json`, `html`|a report in each format|
//! |`statistics`|medians, spreads, ratios|
//! |`machine`, `paths`|machine and commit; files of results|

mod about;
pub mod caveat;
pub mod column;
pub mod format;
mod grid;
mod html;
mod json;
pub mod machine;
mod markdown;
mod outcome;
pub mod paths;
mod report;
mod row;
mod section;
pub mod statistics;
mod text;

pub use about::About;
pub use caveat::{Caveat, Reason};
pub use column::{Better, Column};
pub use grid::Grid;
pub use outcome::Outcome;
pub use report::{Report, grouped};
pub use row::{Row, RowError, Times};
pub use section::{COLOURS, Figure, Group, Headline, Section, colour};
