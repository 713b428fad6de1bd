//! Measurements: variants in turn, with baselines and reasons to doubt them, and pages with plots.
//!
//! |Module|For|
//! |---|---|
//! |`experiment`, `pinning`|variants of a case in turn; cores of sidecores and clients|
//! |`programs`, `servers`, `provider`|other programs and their CPU time; TLS servers; parts of this project|
//! |`host_monitor`, `caveats`|other programs' use of the machine; reasons to doubt figures|
//! |`progress`, `interrupt`|progress of a run; its early end|
//! |`figures`, `plot`, `headline`|plots of rows, as SVG; the figure of a section|
//! |`export`, `files`, `about`|rows on standard output and in files; the run that made them|

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod about;
pub mod caveats;
pub mod experiment;
pub mod export;
pub mod figures;
pub mod files;
pub mod headline;
pub mod host_monitor;
pub mod interrupt;
pub mod pinning;
pub mod plot;
pub mod programs;
pub mod progress;
pub mod provider;
pub mod servers;
