//! Axes that several plots have.

use super::series::Along;
use crate::report::column;
use crate::report::plot::Scale;

pub(crate) const SIZE: Along = ("message size", Scale::Log2, column::SIZE);
pub(crate) const LOAD: Along = ("offered load, share of capacity", Scale::Linear, column::LOAD);
pub(crate) const RATE: Along = ("operations a second", Scale::Linear, column::OPS_PER_S);
pub(crate) const PAYLOAD: Along = ("payload", Scale::Log10, column::MBIT_PER_S);
pub(crate) const RATIO: Along = ("ratio, more is better", Scale::Linear, column::RATIO);
pub(crate) const RATIO_OF_TIMES: Along = ("ratio, less is better", Scale::Linear, column::RATIO);
pub(crate) const RATIO_OF_BOTH: Along = ("ratio", Scale::Linear, column::RATIO);
pub(crate) const MEDIAN: Along = ("latency", Scale::Log10, column::TOTAL_P50);
pub(crate) const TAIL: Along = ("latency", Scale::Log10, column::TOTAL_P99);
pub(crate) const CPU: Along = ("CPU time per operation", Scale::Log10, column::CLIENT_CPU);
