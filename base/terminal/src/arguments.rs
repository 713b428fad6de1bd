//! Arguments, manual pages, and completions of a shell. Each of the three programs answers for its own commands.

use crate::error::{Failure, TerminalError};
use crate::output;
use clap::{Args, Command, Parser, ValueEnum};
use clap_complete::CompleteEnv;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

/// The variable of a shell's request for completions; it holds the shell's name.
pub const VARIABLE: &str = "SIDECORE_COMPLETE";
/// The command's name.
pub const NAME: &str = "sidecore";
/// Directory of the pages, below a directory like `/usr/share`.
const PAGES: &str = "man/man1";

/// Arguments of a command that another program answers.
#[derive(Debug, Args)]
pub struct HandedOn {
    #[arg(id = HANDED_ON, trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

/// Name of their argument.
const HANDED_ON: &str = "handed_on";

/// The log of a service.
#[derive(Debug, Args)]
pub struct LogArguments {
    /// Format of the log's lines, on standard error
    #[arg(long = "log", value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub format: LogFormat,
    /// Least level of lines in the log
    #[arg(long = "log-level", value_name = "LEVEL", value_enum, default_value_t = LogLevel::Info)]
    pub level: LogLevel,
}

impl LogArguments {
    /// Whether each line is an object.
    pub fn is_json(&self) -> bool {
        self.format == LogFormat::Json
    }

    /// The least level, as the system's log numbers it (`sd-daemon(3)`).
    pub fn number(&self) -> u8 {
        self.level as u8 + 3
    }
}

/// Format of a log's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For operators; where the journal listens, with the level that it reads
    Text,
    /// One object a line
    Json,
}

/// Least level of lines in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Something is lost that an operator must restore
    Error,
    /// Something is not as it should be
    Warning,
    /// Actions of administrators: start, stop, settings, keys
    Notice,
    /// Refusals to clients
    Info,
    /// Clients that come and go
    Debug,
}

/// Where pages of the manual are to be written.
#[derive(Debug, Args)]
pub struct Manuals {
    /// A directory like /usr/share or ~/.local/share
    pub directory: PathBuf,
}

/// Answers a shell's request for completions, or runs the command. `usage` handles help, version and wrong arguments.
/// Returns the exit code.
pub fn run<C: Parser, E: Failure, U: Failure>(
    command: impl Fn() -> Command,
    run: impl FnOnce(C) -> Result<u8, E>,
    usage: impl FnOnce(&clap::Error) -> Result<u8, U>,
) -> ExitCode {
    match completed(command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => match output::parsed() {
            Ok(arguments) => output::exit_code(run(arguments)),
            Err(error) => output::exit_code(usage(&error)),
        },
        Err(error) => output::exit_code(output::print_usage(&error)),
    }
}

fn completed(command: impl Fn() -> Command) -> clap::error::Result<bool> {
    let directory = env::current_dir().ok();
    CompleteEnv::with_factory(command).var(VARIABLE).bin(NAME).try_complete(env::args_os(), directory.as_deref())
}

/// The word at this place of the line that a shell asks to complete: 1 is the WORD of `sidecore WORD ...` behind `--`.
pub fn asked_about(place: usize) -> Option<OsString> {
    env::var_os(VARIABLE)?;
    env::args_os().skip_while(|word| word != "--").nth(1 + place)
}

/// The command as pages show it: complete, and without `help`.
pub fn shown(command: Command) -> Command {
    let mut shown = without_help(command);
    shown.build();
    shown
}

fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

/// Lines to type, each with its meaning. The first words of a line name the page.
pub type Examples = [(&'static str, &'static str)];

/// Writes the pages of commands from [`shown`], and of the commands below them, to `man/man1` of that directory. Each
/// page names the page above it, and those below. Pages of [`HandedOn`] commands are left to the program that answers.
///
/// # Errors
/// The files could not be written.
pub fn write_pages<'a>(
    commands: impl IntoIterator<Item = &'a Command>,
    examples: &Examples,
    directory: &Path,
) -> Result<(), TerminalError> {
    let directory = directory.join(PAGES);
    let written = fs::create_dir_all(&directory).and_then(|()| {
        let mut commands = commands.into_iter();
        commands.try_for_each(|command| write(command, NAME, examples, &directory))
    });
    written.map_err(|error| TerminalError::Pages(directory, error))
}

fn write(command: &Command, above: &str, examples: &Examples, pages: &Path) -> io::Result<()> {
    if command.get_arguments().any(|argument| argument.get_id() == HANDED_ON) {
        return Ok(());
    }
    let name = command.get_display_name().unwrap_or_default();
    let mut text = Vec::new();
    page(command).render(&mut text)?;
    let mut sections = Roff::new();
    let words = format!("{} ", name.replace('-', " "));
    let own: Vec<_> = examples.iter().filter(|(line, _)| format!("{line} ").starts_with(&words)).collect();
    if !own.is_empty() {
        sections.control("SH", ["EXAMPLES"]);
    }
    for (line, meaning) in own {
        sections.control("TP", []).text([bold(*line)]).text([roman(*meaning)]);
    }
    let below = visible(command).filter_map(Command::get_display_name);
    let others: Vec<_> = [above].into_iter().chain(below).map(|page| format!("{page}(1)")).collect();
    sections.control("SH", ["SEE ALSO"]).text([roman(others.join(", "))]);
    sections.to_writer(&mut text)?;
    fs::write(pages.join(format!("{name}.1")), text)?;
    visible(command).try_for_each(|below| write(below, name, examples, pages))
}

/// The page of a command from [`shown`].
pub fn page(command: &Command) -> Man {
    let source = concat!("sidecore ", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).source(source).manual(NAME)
}

/// The commands directly below, without hidden ones.
pub fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set())
}
