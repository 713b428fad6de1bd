//! `sidecore manuals DIRECTORY`: the manual pages, and scripts of shells that ask this program for completions.

use crate::args::Cli;
use crate::error::{CliError, failed};
use crate::others::{BESIDE, PACKAGE, PROGRAMS};
use clap::CommandFactory;
use clap_complete::env::Shells;
use clap_mangen::roff::{Roff, bold, roman};
use sidecore_terminal::arguments::{self, NAME, VARIABLE};
use sidecore_terminal::error::TerminalError;
use sidecore_terminal::programs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// Shell, path of its script below a directory like `/usr/share`, and text after the shell's script.
const SHELLS: [(&str, &str, &str); 3] = [
    ("bash", "bash-completion/completions/sidecore", ""),
    // On the first completion zsh calls the file itself.
    (
        "zsh",
        "zsh/vendor-completions/_sidecore",
        "[[ $funcstack[1] != _sidecore ]] || _clap_dynamic_completer_sidecore\n",
    ),
    ("fish", "fish/vendor_completions.d/sidecore.fish", ""),
];

/// Sections of the first page in addition to the generated ones: heading, and terms with their meaning.
const SECTIONS: [(&str, &[(&str, &str)]); 3] = [
    (
        "EXIT STATUS",
        &[
            ("0", "Yes, or done."),
            ("1", "The answer is no."),
            ("2", "Usage or environment, also where the output cannot be written."),
        ],
    ),
    (
        "ENVIRONMENT",
        &[
            ("SIDECORE_SOCKET", "The service's socket, where no option names it."),
            ("SIDECORE_SOCKETS", "The socket of the service of sockets."),
            ("OPENSSL_CONF", "For other programs: /etc/ssl/openssl-sidecore.cnf has OpenSSL load the provider."),
        ],
    ),
    (
        "FILES",
        &[
            ("/etc/sidecore/sidecore.toml", "The service's configuration."),
            ("/etc/sidecore/sockets.toml", "The same of the service of sockets."),
            ("/etc/ssl/openssl-sidecore.cnf", "OpenSSL's configuration with the provider."),
            ("/var/lib/sidecore/keys", "The keys at rest, sealed under a passphrase."),
            ("/run/sidecore/sidecore.sock", "Where the service listens."),
            ("/usr/share/doc/sidecore", "What the Debian package has to read."),
        ],
    ),
];

const EXAMPLES: [(&str, &str); 24] = [
    ("sidecore serve", "The service with the defaults, in the foreground."),
    (
        "sidecore serve --config /etc/sidecore/sidecore.toml --log json",
        "With a configuration; one JSON object a line of its log.",
    ),
    ("sidecore keys import www www.pem --gid 33", "A key from a file. Members of the group may use it."),
    ("sidecore keys import www new.pem --replace", "Another key in its place, in one step."),
    ("sidecore keys generate api --kind p-256 --uid 1000", "A key that is in no file."),
    ("sidecore keys list", "All keys with their users."),
    (
        "sidecore keys pem www --output /etc/nginx/www.pem",
        "The file that a server gets in the place of the key. It is no secret.",
    ),
    ("sidecore keys test /etc/nginx/www.pem --as www-data", "Whether that user can sign with it, step by step."),
    (
        "sidecore keys renew www privkey.pem --certificate fullchain.pem --output /etc/nginx/www.pem",
        "After the renewal of a certificate.",
    ),
    ("sidecore keys acl www --add --uid 1000", "One more user."),
    ("sidecore keys usage www sign", "Signatures only: it decrypts nothing from now on."),
    ("sidecore keys limit www 100/s", "At most 100 private operations a second, over all programs."),
    ("sidecore keys cert www fullchain.pem", "Certificates beside the key, for programs that look for them."),
    ("sidecore keys passphrase --new-passphrase-file new", "All keys at rest are sealed anew."),
    ("sidecore keys remote api --also", "Services on other machines have the key as well."),
    ("sidecore keys delete api", "At once, also where it is in use."),
    ("sidecore set limits.clients_per_uid=4096", "Another limit in the running service."),
    ("sidecore set notify=park", "No thread polls any more."),
    ("sidecore get", "All settings in force."),
    (
        "sidecore reload --config /etc/sidecore/sidecore.toml",
        "Settings of the file that differ, as far as a running service can change them.",
    ),
    ("sidecore run -- nginx -t", "A program with the provider, for keys by their names."),
    ("sidecore run --sockets -- ./publisher", "A program whose small messages go through the service of sockets."),
    ("sidecore check", "Promises that this machine cannot keep, and the remedies."),
    ("sidecore check --config /etc/sidecore/sidecore.toml", "Whether a service would start with that file."),
];

/// `wanted`: the Debian package whose pages these are; all by default.
pub(crate) fn write(directory: &Path, wanted: Option<&str>) -> Result<(), CliError> {
    let is_wanted = |package: &str| wanted.is_none_or(|wanted| wanted == package);
    if is_wanted(PACKAGE) {
        write_own(directory)?;
    }
    PROGRAMS
        .iter()
        .filter(|(.., package)| is_wanted(package))
        .filter_map(|(name, ..)| programs::find(&[name], &BESIDE))
        .try_for_each(|other| have_written(other, directory))
}

fn write_own(directory: &Path) -> Result<(), CliError> {
    let all = arguments::shown(Cli::command());
    arguments::write_pages(arguments::visible(&all), &EXAMPLES, directory)?;
    written(directory, "man/man1/sidecore.1", |page| first_page(&all, page))?;
    SHELLS.iter().try_for_each(|(shell, file, last)| {
        written(directory, file, |script| asks(shell, script).and_then(|()| script.write_all(last.as_bytes())))
    })
}

fn first_page(command: &clap::Command, page: &mut dyn io::Write) -> io::Result<()> {
    arguments::page(command).render(page)?;
    let mut sections = Roff::new();
    for (heading, terms) in SECTIONS {
        sections.control("SH", [heading]);
        for (term, meaning) in terms {
            sections.control("TP", []).text([bold(*term)]).text([roman(*meaning)]);
        }
    }
    sections.to_writer(page)
}

fn asks(shell: &str, script: &mut dyn io::Write) -> io::Result<()> {
    let shells = Shells::builtins();
    let shell = shells.completer(shell).ok_or_else(|| io::Error::other(format!("no completions for {shell}")))?;
    shell.write_registration(VARIABLE, NAME, NAME, NAME, script)
}

fn written(
    directory: &Path,
    name: &str,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> Result<(), CliError> {
    let path = directory.join(name);
    let mut text = Vec::new();
    let written = write(&mut text)
        .and_then(|()| fs::create_dir_all(path.parent().unwrap_or(directory)))
        .and_then(|()| fs::write(&path, text));
    written.map_err(failed(format_args!("cannot write {}", path.display())))
}

fn have_written(program: PathBuf, directory: &Path) -> Result<(), CliError> {
    match Command::new(&program).arg("manuals").arg(directory).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(CliError::OtherManuals { program, status }),
        Err(error) => Err(TerminalError::Run(program, error).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use sidecore::config::Setting;

    #[test]
    fn examples_are_lines_that_the_program_takes() {
        for (line, _) in EXAMPLES {
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
            let setting = line.strip_prefix("sidecore set ").map(Setting::parse);
            assert!(setting.is_none_or(|setting| setting.is_ok()), "{line}");
        }
    }
}
