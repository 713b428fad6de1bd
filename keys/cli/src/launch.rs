//! `sidecore run`: one command with the OpenSSL provider. The system stays unchanged. With `--sockets` the command is
//! started by the program of sockets, which knows how its small messages get into rings.

use crate::args::Run;
use crate::error::{CliError, failed, unusable};
use crate::others;
use crate::scratch::Scratch;
use rustix::process::{Pid, Signal, kill_process};
use sidecore_terminal::{output, programs};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{Handle, Signals};
use std::fs;
use std::io::{IsTerminal, stdin};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread::{self, JoinHandle};

const NAMES: [&str; 2] = ["sidecore.so", "libsidecore_openssl.so"];
const PLACES: [&str; 2] = [".", "../lib/sidecore"];

/// Runs the command to its end. Returns its exit code, or 128 plus the number of the signal that ended it.
pub(crate) fn run(args: &Run) -> Result<u8, CliError> {
    let (program, rest) =
        args.command.split_first().ok_or_else(|| CliError::usage("no command: write `sidecore run -- COMMAND`"))?;
    let mut command = if args.sockets { with_sockets(args)? } else { Command::new(program) };
    command.args(args.sockets.then_some(program)).args(rest).env("SIDECORE_SOCKET", &args.socket);
    // Held as long as the command runs.
    let _scratch = module(args)?.map(|module| provide(&mut command, &module)).transpose()?;
    // Installed before the command starts, so that no signal is lost.
    let signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2])?;
    let mut child = command.spawn().map_err(|source| CliError::Command { program: program.into(), source })?;
    let (handle, forwarder) = forward(signals, &child);
    let status = child.wait();
    handle.close();
    let _ = forwarder.join();
    Ok(code(status?))
}

/// `sidecore sockets run`, without the command that it is to become.
fn with_sockets(args: &Run) -> Result<Command, CliError> {
    let mut command = Command::new(others::sockets()?);
    command.args(["sockets", "run"]);
    let options = [("--preload", &args.preload), ("--socket", &args.socket_of_sockets)];
    for (option, path) in options.into_iter().filter_map(|(option, path)| Some((option, path.as_ref()?))) {
        command.arg(option).arg(path);
    }
    command.arg("--");
    Ok(command)
}

/// Forwards signals. A terminal sends its own signals to the command itself.
fn forward(mut signals: Signals, child: &Child) -> (Handle, JoinHandle<()>) {
    let (handle, pid) = (signals.handle(), Pid::from_child(child));
    let from_terminal = stdin().is_terminal();
    let forwarder = thread::spawn(move || {
        for number in signals.forever() {
            if from_terminal && matches!(number, SIGINT | SIGQUIT) {
                continue;
            }
            if let Some(signal) = Signal::from_named_raw(number) {
                // The command may have ended.
                let _ = kill_process(pid, signal);
            }
        }
    });
    (handle, forwarder)
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// Path of the provider. `None`: there is none; a warning is printed, and the command runs with its sockets only.
fn module(args: &Run) -> Result<Option<PathBuf>, CliError> {
    if let Some(module) = &args.module {
        let note = "name the provider, libsidecore_openssl.so or sidecore.so";
        return module.canonicalize().map(Some).map_err(unusable(module.display(), note));
    }
    let found = programs::find(&NAMES, &PLACES);
    if found.is_none() {
        if !args.sockets {
            return Err(no_module());
        }
        output::tell(
            "no provider beside this program or in ../lib/sidecore: the command has its sockets served, and no keys",
        );
    }
    Ok(found)
}

fn provide(command: &mut Command, module: &Path) -> Result<Scratch, CliError> {
    let scratch = Scratch::new().map_err(failed("no directory for a configuration"))?;
    command.env("OPENSSL_CONF", write(scratch.path(), module)?);
    Ok(scratch)
}

pub(crate) fn configure(directory: &Path) -> Result<PathBuf, CliError> {
    write(directory, &programs::find(&NAMES, &PLACES).ok_or_else(no_module)?)
}

fn write(directory: &Path, module: &Path) -> Result<PathBuf, CliError> {
    let configuration = directory.join("openssl.cnf");
    fs::write(&configuration, text(module)).map_err(failed(configuration.display()))?;
    Ok(configuration)
}

fn no_module() -> CliError {
    CliError::usage(
        "no provider beside this program or in ../lib/sidecore: build it with `cargo build --release -p sidecore-openssl`, or name it \
         with --module",
    )
}

/// OpenSSL's own provider does the operations that ours lacks. No section may be called `default`: that is the name of
/// the lines before the first section.
fn text(module: &Path) -> String {
    format!(
        "openssl_conf = openssl\nnodejs_conf = openssl\n[openssl]\nproviders = providers\n[providers]\ndefault = own\nsidecore = sidecore\n\
         [own]\nactivate = 1\n[sidecore]\nmodule = {}\nactivate = 1\n",
        module.display()
    )
}
