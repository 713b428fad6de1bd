//! Handshakes by `openssl s_time` in a closed loop.

use crate::bench::error::BenchError;
use sidecore_measure::programs::{counted, on_core};
use std::process::{Child, Stdio};

#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Load {
    /// Processes, each with one handshake after the other.
    pub(in crate::bench) clients: usize,
    pub(in crate::bench) seconds: u64,
    /// Core of the processes; `None`: not pinned.
    pub(in crate::bench) cpu: Option<usize>,
}

impl Load {
    pub(super) fn handshakes(&self, port: u16) -> Result<u64, BenchError> {
        let clients = (0..self.clients).map(|_| self.client(port)).collect::<Result<Vec<_>, _>>()?;
        let mut count = 0;
        for client in clients {
            let output = client.wait_with_output()?;
            let made = counted(&String::from_utf8_lossy(&output.stdout));
            count += made.ok_or(BenchError::State("openssl s_time made no handshake"))?;
        }
        Ok(count)
    }

    fn client(&self, port: u16) -> Result<Child, BenchError> {
        let mut command = on_core(self.cpu, "openssl");
        command.args(["s_time", "-new", "-tls1_3", "-connect", &format!("127.0.0.1:{port}")]);
        command.args(["-time", &self.seconds.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
        Ok(command.stderr(Stdio::null()).spawn()?)
    }
}
