//! The packaged alternative for keys outside of programs: `SoftHSM` 2 in its own process behind p11-kit's remoting.

use super::case;
use crate::baseline::private_key;
use crate::bench::error::BenchError;
use crate::bench::experiment::{By, Case, Run, Turn, Variant, measure_all};
use crate::bench::programs::{Server, done, need, on_core, write_pem};
use crate::bench::scenario::Settings;
use crate::bench::task::{Measured, Task};
use crate::bench::testbed::{HEAD_START, Member, Plan, Testbed};
use crate::progress::Progress;
use crate::report::figures::ratios;
use crate::report::{Outcome, Section, column, section};
use sidecore::sys::clock;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(super) const SECTION: Section = section(
    "keys-packaged",
    "Keys: against what is packaged today",
    "One process that signs with a key that it does not have: through the provider, and through \
     PKCS#11 with SoftHSM 2 behind p11-kit's remoting.",
)
.plots(|rows| vec![ratios(rows)]);

const OPS: [&str; 2] = ["rsa-2048-sign", "p-256-sign"];
const BASELINE: &str = "softhsm2+p11-kit";
const INSTALL: &str = "apt-get install softhsm2 p11-kit p11-kit-modules openssl";
const FOLDERS: [&str; 3] = ["/usr/lib", "/usr/lib64", "/usr/local/lib"];
/// Of a token that protects nothing.
const PIN: &str = "1234";
const LABEL: &str = "bench";
/// Requests in flight of the sidecore variant when throughput is compared: PKCS#11 has one.
const JOBS: u32 = 8;

struct Installed {
    softhsm: PathBuf,
    client: PathBuf,
}

impl Installed {
    fn find() -> Result<Self, BenchError> {
        let missing =
            |name: &str| BenchError::Missing { what: format!("{name} is not installed"), remedy: INSTALL.to_owned() };
        let file = |name: &str| find(name).ok_or_else(|| missing(name));
        let installed = Self {
            softhsm: file("softhsm/libsofthsm2.so").or_else(|_| file("pkcs11/libsofthsm2.so"))?,
            client: file("pkcs11/p11-kit-client.so")?,
        };
        need(&["softhsm2-util", "p11-kit", "openssl"], INSTALL)?;
        Ok(installed)
    }
}

fn find(name: &str) -> Option<PathBuf> {
    let architecture = format!("{}-linux-gnu", std::env::consts::ARCH);
    let places = FOLDERS.iter().flat_map(|folder| [Path::new(folder).join(&architecture), PathBuf::from(folder)]);
    places.map(|place| place.join(name)).find(|path| path.exists())
}

struct Remote {
    client: Member,
    _server: Server,
    module: PathBuf,
}

impl Remote {
    fn start(installed: Installed, directory: &Path, cpus: (Option<usize>, Option<usize>)) -> Result<Self, BenchError> {
        let configuration = directory.join("softhsm2.conf");
        let tokens = directory.join("tokens");
        fs::create_dir_all(&tokens)?;
        let text = format!("directories.tokendir = {}\nobjectstore.backend = file\n", tokens.display());
        fs::write(&configuration, text)?;
        make_token(directory, &configuration)?;
        let socket = directory.join("p11-kit");
        let mut command = on_core(cpus.1, "p11-kit");
        command.args(["server", "-f", "-n"]).arg(&socket).arg("--provider").arg(&installed.softhsm).arg("pkcs11:");
        let mut server = Server::start(command.env("SOFTHSM2_CONF", &configuration), "p11-kit", Stdio::null())?;
        if !server.wait_until(|| Ok(socket.exists()))? {
            return Err(BenchError::State("p11-kit server makes no socket"));
        }
        let address = format!("unix:path={}", socket.display());
        let mut client = Member::start(&[("P11_KIT_SERVER_ADDRESS", address.as_ref())])?;
        if let Some(cpu) = cpus.0 {
            client.measure(&Task::Pin { cpu })?;
        }
        Ok(Self { client, _server: server, module: installed.client })
    }

    fn sign(&mut self, op: &str, ns: u64) -> Result<Measured, BenchError> {
        let (module, pin, op, start) = (self.module.clone(), PIN.to_owned(), op.to_owned(), clock::now() + HEAD_START);
        self.client.measure(&Task::Token { module, pin, op, start, ns })
    }
}

fn make_token(directory: &Path, configuration: &Path) -> Result<(), BenchError> {
    let softhsm = || {
        let mut command = Command::new("softhsm2-util");
        command.env("SOFTHSM2_CONF", configuration);
        command
    };
    let so = ["--so-pin", PIN, "--pin", PIN];
    done(softhsm().args(["--init-token", "--free", "--label", LABEL]).args(so))?;
    for (number, op) in OPS.iter().enumerate() {
        let pem = directory.join("key.pem");
        write_pem(&private_key(op)?, &pem)?;
        let id = format!("0{}", number + 1);
        done(softhsm().arg("--import").arg(&pem).args(["--token", LABEL, "--pin", PIN, "--label", op, "--id", &id]))?;
    }
    Ok(())
}

struct Pair {
    testbed: Testbed,
    remote: Remote,
}

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let ops: Vec<&str> = OPS.into_iter().filter(|op| settings.wants(op)).collect();
    if ops.is_empty() {
        return Ok(Outcome::default());
    }
    let installed = match Installed::find() {
        Ok(installed) => installed,
        Err(why) => return Ok(Outcome::left_out(format!("keys-packaged: {why}"))),
    };
    let testbed = Testbed::with_keys(&Plan::inline(1), &ops)?;
    let pinning = &testbed.pinning;
    let cpus = (pinning.client(0), pinning.sidecores.first().copied());
    let remote = Remote::start(installed, testbed.directory(), cpus)?;
    let mut pair = Pair { testbed, remote };
    let (repeats, ns) = settings.pick((2, 80_000_000), (7, 300_000_000));
    let cases = ops.into_iter().map(|op| one(&pair.testbed, op, ns)).collect();
    let outcome = measure_all(&mut pair, cases, repeats, progress)?;
    Ok(outcome.noted(format!(
        "keys-packaged: {BASELINE} is called through PKCS#11 in two calls for a signature; its server is on the \
         sidecore's core. A process has one connection to it, so one request at a time. The rows latency divide the \
         mean times from call to return with one request at a time, the rows signs signatures a second with {JOBS} \
         asynchronous jobs."
    )))
}

fn one(testbed: &Testbed, op: &'static str, ns: u64) -> Case<'static, Pair> {
    let packaged = move |pair: &mut Pair, _: &Turn<'_>| Ok(Run::of(vec![pair.remote.sign(op, ns)?]));
    let sidecore = |name, jobs| {
        let run = move |pair: &mut Pair, _: &Turn<'_>| pair.testbed.provided(op, 1, jobs, ns);
        Variant::new(name, run).with(column::JOBS, jobs).with(column::NOTIFY, "break-even")
    };
    // With one request at a time the time of one is the inverse of the rate.
    let latency = sidecore("sidecore, latency", 1).against(By::Time, BASELINE).with(column::AT_MOST, 0.5);
    let signs = sidecore("sidecore, signs", JOBS).against(By::Rate, BASELINE).with(column::AT_LEAST, 2.0);
    let packaged = Variant::new(BASELINE, packaged).with(column::JOBS, 1);
    case("keys-packaged", testbed, op, 1).variant(packaged).variant(latency).variant(signs)
}
