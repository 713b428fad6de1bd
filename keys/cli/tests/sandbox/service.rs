//! A real service process.

use sidecore::client::{Admin, Client, Options};
pub(crate) use sidecore_testing::Running;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

pub(crate) const USER: &str = "nobody";
pub(crate) const USER_ID: u32 = 65534;

pub(crate) fn sidecore() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sidecore"))
}

pub(crate) struct ServiceFolder(TempDir);

impl ServiceFolder {
    /// `top`: lines of the configuration after the paths. `sandbox`: lines of its section `[sandbox]`.
    pub(crate) fn new(top: &str, sandbox: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        // Other users need access to the service's files.
        fs::set_permissions(folder.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let config = format!("socket = '{}'\n{top}\n[sandbox]\n{sandbox}\n", folder.socket().display());
        fs::write(folder.config(), config).unwrap();
        folder
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.file("run/sidecore/socket")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.file("sidecore.toml")
    }

    pub(crate) fn start(&self) -> Running {
        self.start_by(sidecore())
    }

    pub(crate) fn start_by(&self, mut command: Command) -> Running {
        command.arg("serve").arg("--config").arg(self.config());
        Running::start(command, self.file("log"))
    }

    pub(crate) fn refusal(&self, mut command: Command) -> String {
        let output = command.arg("serve").arg("--config").arg(self.config()).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = sidecore();
        command.args(arguments).env("SIDECORE_SOCKET", self.socket()).env("SIDECORE_SERVICE_USER", USER);
        command.output().unwrap()
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(&self.options()).unwrap()
    }

    pub(crate) fn administer(&self) -> Admin {
        Admin::connect(&self.options()).unwrap()
    }

    pub(crate) fn options(&self) -> Options {
        let service_users = vec![USER.to_owned()];
        Options { socket: self.socket(), service_users, name: "test".to_owned(), ..Options::default() }
    }
}
