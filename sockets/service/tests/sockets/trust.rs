//! A program's trust in a service.

use crate::common::{OTHER, own_user};
use sidecore_sockets::ask;
use sidecore_testing::skipped;
use std::fs::{Permissions, set_permissions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// A process of another user at a socket, which is not a service. Killed when dropped.
struct Impostor {
    process: Child,
    said: BufReader<ChildStdout>,
    _directory: TempDir,
}

fn impostor(uid: u32) -> (Impostor, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
    let socket = directory.path().join("socket");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore-sockets-peer"));
    command.args(["impostor", socket.to_str().unwrap(), &uid.to_string()]).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let said = BufReader::new(process.stdout.take().unwrap());
    let mut impostor = Impostor { process, said, _directory: directory };
    assert_eq!(impostor.says(), "listening\n");
    (impostor, socket)
}

impl Impostor {
    fn says(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn who_listens_for_sockets_without_being_trusted_gets_none() {
    if own_user() != 0 {
        skipped("only root can: play another user");
        return;
    }
    let (mut impostor, socket) = impostor(OTHER);
    let refused = ask::listens(&socket).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    assert!(refused.to_string().contains(&format!("user {OTHER}")), "{refused}");
    assert_eq!(impostor.says(), "0 bytes\n");
    assert!(ask::rows(&socket).unwrap_err().to_string().contains(&format!("user {OTHER}")));
    assert_eq!(impostor.says(), "0 bytes\n");
}
