//! Axes that several plots have.

use super::series::Along;
use crate::plot::Scale;
use sidecore_report::column;

/// Sizes of messages, bytes.
pub const SIZE: Along = ("message size", Scale::Log2, column::SIZE);
/// Offered load.
pub const LOAD: Along = ("offered load, share of capacity", Scale::Linear, column::LOAD);
/// Rates.
pub const RATE: Along = ("operations a second", Scale::Linear, column::OPS_PER_S);
/// Payload, Mbit/s.
pub const PAYLOAD: Along = ("payload", Scale::Log10, column::MBIT_PER_S);
/// Ratios of rates.
pub const RATIO: Along = ("ratio, more is better", Scale::Linear, column::RATIO);
/// Ratios of times.
pub const RATIO_OF_TIMES: Along = ("ratio, less is better", Scale::Linear, column::RATIO);
/// Ratios of unknown direction.
pub const RATIO_OF_BOTH: Along = ("ratio", Scale::Linear, column::RATIO);
/// Median latency, us.
pub const MEDIAN: Along = ("latency", Scale::Log10, column::TOTAL_P50);
/// 99th percentile of latency, us.
pub const TAIL: Along = ("latency", Scale::Log10, column::TOTAL_P99);
/// Clients' CPU time for an operation, us.
pub const CPU: Along = ("CPU time per operation", Scale::Log10, column::CLIENT_CPU);
