//! The packaged alternative for keys outside of a program's code: `SoftHSM` 2, in the program itself and in a process
//! behind p11-kit's remoting.

use crate::baseline::private_key;
use crate::bench::error::BenchError;
use sidecore_measure::programs::{ProgramError, Server, done, need, write_pem};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const INSTALL: &str = "apt-get install softhsm2 p11-kit p11-kit-modules openssl";
const FOLDERS: [&str; 3] = ["/usr/lib", "/usr/lib64", "/usr/local/lib"];
/// Of a token that protects nothing.
pub(super) const PIN: &str = "1234";
const LABEL: &str = "bench";

/// A token with the keys of some operations. It lies in the folder of the measured service.
pub(super) struct SoftHsm {
    pub(super) module: PathBuf,
    /// p11-kit's module for programs.
    pub(super) client: PathBuf,
    configuration: PathBuf,
    folder: PathBuf,
}

impl SoftHsm {
    /// # Errors
    /// A part is not installed: [`ProgramError::Missing`], with the packages that bring it.
    pub(super) fn prepare(folder: &Path, ops: &[&str]) -> Result<Self, BenchError> {
        let missing =
            |name: &str| ProgramError::Missing { what: format!("{name} is not installed"), remedy: INSTALL.to_owned() };
        let file = |name: &str| find(name).ok_or_else(|| missing(name));
        let module = file("softhsm/libsofthsm2.so").or_else(|_| file("pkcs11/libsofthsm2.so"))?;
        let client = file("pkcs11/p11-kit-client.so")?;
        need(&["softhsm2-util", "p11-kit", "openssl"], INSTALL)?;
        let (configuration, tokens) = (folder.join("softhsm2.conf"), folder.join("tokens"));
        fs::create_dir_all(&tokens)?;
        let text = format!("directories.tokendir = {}\nobjectstore.backend = file\n", tokens.display());
        fs::write(&configuration, text)?;
        let softhsm = Self { module, client, configuration, folder: folder.to_owned() };
        softhsm.make_token(ops)?;
        Ok(softhsm)
    }

    /// Environment of a program that loads `SoftHSM` itself.
    pub(super) fn environment(&self) -> (&'static str, PathBuf) {
        ("SOFTHSM2_CONF", self.configuration.clone())
    }

    fn make_token(&self, ops: &[&str]) -> Result<(), BenchError> {
        let softhsm = || {
            let (name, value) = self.environment();
            let mut command = Command::new("softhsm2-util");
            command.env(name, value);
            command
        };
        let so = ["--so-pin", PIN, "--pin", PIN];
        done(softhsm().args(["--init-token", "--free", "--label", LABEL]).args(so))?;
        for (number, op) in ops.iter().enumerate() {
            let pem = self.folder.join(format!("{op}.pem"));
            write_pem(&private_key(op)?, &pem)?;
            let id = format!("0{}", number + 1);
            let key = ["--token", LABEL, "--pin", PIN, "--label", op, "--id", &id];
            done(softhsm().arg("--import").arg(&pem).args(key))?;
        }
        Ok(())
    }

    /// p11-kit's server, and its address for a program's environment.
    pub(super) fn serve(&self) -> Result<(Server, (&'static str, String)), BenchError> {
        let socket = self.folder.join("p11-kit");
        let mut command = Command::new("p11-kit");
        command.args(["server", "-f", "-n"]).arg(&socket).arg("--provider").arg(&self.module).arg("pkcs11:");
        let (name, value) = self.environment();
        let mut server = Server::start(command.env(name, value), "p11-kit", Stdio::null())?;
        if !server.wait_until(|| Ok::<_, BenchError>(socket.exists()))? {
            return Err(BenchError::State("p11-kit server makes no socket"));
        }
        Ok((server, ("P11_KIT_SERVER_ADDRESS", format!("unix:path={}", socket.display()))))
    }
}

fn find(name: &str) -> Option<PathBuf> {
    let architecture = format!("{}-linux-gnu", std::env::consts::ARCH);
    let places = FOLDERS.iter().flat_map(|folder| [Path::new(folder).join(&architecture), PathBuf::from(folder)]);
    places.map(|place| place.join(name)).find(|path| path.exists())
}
