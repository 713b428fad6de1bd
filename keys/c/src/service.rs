//! The service that a program uses: its address, its users, and time limits.

use sidecore_client::client::Options;
use sidecore_ipc::environment::named_users;
use std::path::PathBuf;
use std::time::Duration;

/// The program's settings; `None` and 0: as without it.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) socket: Option<PathBuf>,
    pub(crate) service_user: Option<String>,
    pub(crate) timeout_ms: u32,
    pub(crate) restart_wait_ms: u32,
}

impl Given {
    /// It sends no message: a service that starts later serves as well.
    pub(crate) fn options(self) -> Options {
        let mut options = Options::default();
        if let Some(socket) = self.socket {
            options.socket = socket;
        }
        if let Some(users) = self.service_user {
            options.service_users = named_users(&users);
        }
        if self.timeout_ms > 0 {
            options.timeout = Duration::from_millis(self.timeout_ms.into());
        }
        if self.restart_wait_ms > 0 {
            options.restart_wait = Duration::from_millis(self.restart_wait_ms.into());
        }
        options.look_up_users();
        options
    }
}
