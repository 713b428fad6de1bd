//! Cores that a configuration names and this process may use.

use super::start_error::StartError;
use crate::config::{Config, DeviceConfig};
use crate::sys::cpu;

/// Checks that the process may use the configured cores.
///
/// # Errors
/// The first core that it may not use, and all permitted ones.
pub fn check_cpus(config: &Config) -> Result<(), StartError> {
    let workers = config.devices.iter().filter_map(|device: &DeviceConfig| device.cpu);
    config.sidecores.cpus.iter().copied().chain(workers).try_for_each(check_cpu)
}

pub(super) fn check_cpu(cpu: usize) -> Result<(), StartError> {
    if cpu::is_usable(cpu) { Ok(()) } else { Err(StartError::NoSuchCpu { cpu, allowed: cpu::allowed() }) }
}
