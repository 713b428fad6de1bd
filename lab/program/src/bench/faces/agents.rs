//! Signatures by ssh-agent's protocol: `sidecore agent` against OpenSSH's agent with the key in its memory.

use super::{FACE, Laboratory, PROCESSES, SIDECORE, THREADS, beside, spinning};
use crate::bench::error::BenchError;
use crate::bench::experiment::{By, Case, Counted, Run, Turn, Variant, measure_all};
use crate::bench::task::Task;
use crate::bench::testbed::Member;
use crate::report::{Outcome, column};
use sidecore_measure::experiment::Measured;
use sidecore_measure::programs::{Server, done, need, on_core};
use sidecore_measure::progress::Progress;
use sidecore_measure::provider::built;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const OPENSSH: &str = "ssh-agent";
const INSTALL: &str = "apt-get install openssh-client";
const PROGRAM: [&str; 1] = ["sidecore-agent"];

pub(super) fn measure(
    laboratory: &mut Laboratory,
    ops: &[&'static str],
    (repeats, ns): (usize, u64),
    progress: &Progress,
) -> Result<Outcome, BenchError> {
    if let Err(why) = need(&["ssh"], INSTALL) {
        return Ok(Outcome::left_out(format!("faces: {why}")));
    }
    let folder = laboratory.alone.directory().to_owned();
    let core = laboratory.alone.pinning.client(0);
    let sockets = [folder.join("ssh-agent"), folder.join("sidecore-agent")];
    let agents = agents(&folder, laboratory.alone.socket(), &sockets, (ops, core))?;
    let processes = agents.each_ref().map(|Server(agent)| agent.id());
    let cases = ops.iter().map(|op| case(laboratory, op, &sockets, processes, ns)).collect();
    let outcome = measure_all(laboratory, cases, repeats, progress);
    drop(agents);
    outcome
}

/// Both agents, on the program's core.
fn agents(
    folder: &Path,
    service: &Path,
    [openssh, ours]: &[PathBuf; 2],
    (ops, core): (&[&str], Option<usize>),
) -> Result<[Server; 2], BenchError> {
    let program = built(&PROGRAM, "sidecore-agent")?;
    let mut command = on_core(core, OPENSSH);
    let openssh_agent = start(command.arg("-D").arg("-a").arg(openssh), OPENSSH, openssh)?;
    for op in ops {
        let pem = folder.join(format!("{op}.pem"));
        // It refuses a key that others may read.
        fs::set_permissions(&pem, Permissions::from_mode(0o600))?;
        done(Command::new("ssh-add").arg(&pem).env("SSH_AUTH_SOCK", openssh))?;
    }
    let mut command = on_core(core, &program.display().to_string());
    command.arg("agent").arg("--socket").arg(ours).arg("--service").arg(service);
    Ok([start(&mut command, "sidecore agent", ours)?, openssh_agent])
}

fn start(command: &mut Command, name: &str, socket: &Path) -> Result<Server, BenchError> {
    let mut server = Server::start(command, name, Stdio::null())?;
    if server.wait_until(|| Ok::<_, BenchError>(socket.exists()))? {
        Ok(server)
    } else {
        Err(BenchError::State("an agent makes no socket"))
    }
}

fn case(
    laboratory: &Laboratory,
    op: &'static str,
    sockets: &[PathBuf; 2],
    [ours, openssh]: [u32; 2],
    ns: u64,
) -> Case<'static, Laboratory> {
    let core = laboratory.alone.pinning.client(0);
    let [mut theirs, mut own] = sockets.each_ref().map(|socket| Program::new(socket, core));
    let baseline = move |laboratory: &mut Laboratory, _: &Turn<'_>| {
        laboratory.resting()?;
        let (measured, cpu) = beside(Some(openssh), || theirs.sign(op, ns))?;
        Ok(Run::of(vec![measured]).counted(Counted::cpu(cpu)))
    };
    let sidecore = move |laboratory: &mut Laboratory, _: &Turn<'_>| {
        laboratory.counting(false, Some(ours), || Ok(vec![own.sign(op, ns)?]))
    };
    Case::new("faces")
        .with(column::OP, op)
        .with(FACE, "agent")
        .with(THREADS, 1)
        .with(PROCESSES, 1)
        .with(column::PINNED, spinning(&laboratory.alone))
        .variant(Variant::new(OPENSSH, baseline))
        .variant(Variant::new(SIDECORE, sidecore).against(By::Rate, OPENSSH))
}

/// A program that asks an agent, started by the first run.
struct Program {
    socket: PathBuf,
    core: Option<usize>,
    member: Option<Member>,
}

impl Program {
    fn new(socket: &Path, core: Option<usize>) -> Self {
        Self { socket: socket.to_owned(), core, member: None }
    }

    fn sign(&mut self, op: &str, ns: u64) -> Result<Measured, BenchError> {
        if self.member.is_none() {
            let mut member = Member::start(&[])?;
            if let Some(cpu) = self.core {
                member.measure(&Task::Pin { cpu })?;
            }
            self.member = Some(member);
        }
        let member = self.member.as_mut().ok_or(BenchError::State("no program"))?;
        member.measure(&Task::Agent { socket: self.socket.clone(), op: op.to_owned(), ns })
    }
}
