//! What is made of the arguments that a program takes: pages of the manual, and what may follow what is typed at a shell.
//! Each of the three programs that people know as one command has this module, and answers for its own commands.

use crate::output;
use clap::{Args, Command, Parser};
use clap_complete::CompleteEnv;
use clap_mangen::Man;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

/// The variable by which a shell asks; it holds the shell's name.
pub(crate) const VARIABLE: &str = "SIDECORE_COMPLETE";
/// What people type.
pub(crate) const NAME: &str = "sidecore";
/// Where pages are, below a directory like `/usr/share`.
const PAGES: &str = "man/man1";

#[derive(Debug, Args)]
pub(crate) struct Manuals {
    /// A directory like /usr/share or ~/.local/share
    pub(crate) directory: PathBuf,
}

/// How a program ends that answers a shell which asks about this command, and else runs what was typed. Help, version, and what is
/// wrong with the arguments are for `usage`.
pub(crate) fn run<C: Parser>(
    command: impl Fn() -> Command,
    run: impl FnOnce(C) -> Result<u8, String>,
    usage: impl FnOnce(&clap::Error) -> Result<u8, String>,
) -> ExitCode {
    output::exit_code(match completed(command) {
        Ok(true) => Ok(0),
        Ok(false) => output::parsed().map_or_else(|error| usage(&error), run),
        Err(error) => output::print_usage(&error),
    })
}

/// Whether a shell asked what may follow what is typed, and was answered.
///
/// # Errors
/// There is no such shell, or the answer could not be written.
fn completed(command: impl Fn() -> Command) -> clap::error::Result<bool> {
    let directory = env::current_dir().ok();
    CompleteEnv::with_factory(command).var(VARIABLE).bin(NAME).try_complete(env::args_os(), directory.as_deref())
}

/// This command as pages show it: with all that is below it, and without `help`, which a page needs no page for.
pub(crate) fn shown(command: Command) -> Command {
    let mut shown = without_help(command);
    shown.build();
    shown
}

fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

/// Writes the page of a command that is [`shown`], and those of the commands below it, where a manual in that directory has them.
///
/// # Errors
/// They could not be written: says where.
pub(crate) fn write_pages<'a>(commands: impl IntoIterator<Item = &'a Command>, directory: &Path) -> Result<(), String> {
    let pages = directory.join(PAGES);
    let written = fs::create_dir_all(&pages).and_then(|()| {
        let mut commands = commands.into_iter();
        commands.try_for_each(|command| write(command, &pages))
    });
    written.map_err(|error| format!("cannot write pages to {}: {error}", pages.display()))
}

fn write(command: &Command, pages: &Path) -> io::Result<()> {
    page(command).generate_to(pages)?;
    visible(command).try_for_each(|below| write(below, pages))
}

/// The page of a command that is [`shown`].
pub(crate) fn page(command: &Command) -> Man {
    let source = concat!("sidecore ", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).source(source).manual(NAME)
}

/// The commands directly below one that are not only for other programs.
pub(crate) fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set())
}
