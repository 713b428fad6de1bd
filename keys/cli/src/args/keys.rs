//! The command line of `sidecore keys`.

use crate::error::CliError;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use sidecore::config::DEFAULT_SOCKET;
use sidecore::keys::{Acl, Kind, Usage, parse_rate};
use sidecore_counters::{Snapshot, counters_beside};
use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct Keys {
    #[command(subcommand)]
    pub(crate) command: KeysCommand,
    /// The service's socket
    #[arg(long, global = true, value_name = "PATH", env = "SIDECORE_SOCKET", default_value = DEFAULT_SOCKET)]
    pub(crate) socket: PathBuf,
}

/// The file and the server under test.
#[derive(Debug, Args)]
pub(crate) struct Trial {
    /// The file that the server is given as its private key
    pub(crate) file: PathBuf,
    /// The user that the server's workers are, e.g. www-data; for root
    #[arg(long = "as", value_name = "USER")]
    pub(crate) user: Option<String>,
    /// The server's certificate, where it is in another file
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: Option<PathBuf>,
    /// The server, which runs: whether it shakes hands by this key
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) server: Option<String>,
}

/// The other service, and the way to it.
#[derive(Debug, Args)]
pub(crate) struct Way {
    /// The file with that service's address, which the configuration names under `keys.send_to`
    #[arg(long, value_name = "FILE")]
    pub(crate) to: PathBuf,
    /// Takes the sealed keys on its standard input and prints receipts, e.g. 'ssh other sidecore keys receive'; for sh
    #[arg(long, value_name = "COMMAND")]
    pub(crate) by: Option<String>,
    /// The command has failed when it takes longer; its processes are ended then
    #[arg(long, value_name = "SECONDS", default_value_t = 120, requires = "by", value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub(crate) timeout: u16,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").args(["names", "all"]).required(true))]
#[command(group = clap::ArgGroup::new("way").args(["by", "output"]).required(true))]
pub(crate) struct Sending {
    /// Names of the keys
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(stored))]
    pub(crate) names: Vec<String>,
    /// All keys with their private part here, without creators' own; only those without a receipt since their last change
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// With --all: also those with a receipt
    #[arg(long, requires = "all", conflicts_with_all = ["output", "names"])]
    pub(crate) again: bool,
    /// Write the sealed keys to this file, and wait for no receipt
    #[arg(long, value_name = "FILE", conflicts_with = "timeout")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) way: Way,
}

#[derive(Debug, Args)]
pub(crate) struct Moving {
    /// Names of the keys
    #[arg(value_name = "NAME", required = true, add = ArgValueCandidates::new(stored))]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) way: Way,
}

/// Users and groups that have other names here than at the sender of a key.
#[derive(Debug, Args)]
pub(crate) struct Mapping {
    /// Take the user LOCAL, by name or number, for the sender's user NAME; several times for several
    #[arg(long, value_name = "NAME=LOCAL", value_parser = mapped_user)]
    pub(crate) map_user: Vec<(String, u32)>,
    /// Take the group LOCAL, by name or number, for the sender's group NAME; several times for several
    #[arg(long, value_name = "NAME=LOCAL", value_parser = mapped_group)]
    pub(crate) map_group: Vec<(String, u32)>,
}

/// A certificate's renewal, which brought a key.
#[derive(Debug, Args)]
pub(crate) struct Renewal {
    /// The name that its keys have in common: each is stored as NAME.SECONDS
    pub(crate) name: String,
    /// The file with the new private key, which is only read
    pub(crate) file: PathBuf,
    /// The file with the new certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: PathBuf,
    /// The file that the server is given as its private key; mode and owner stay. Not for servers that follow NAME by
    /// themselves
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Has the server read both, e.g. 'systemctl reload nginx'; for sh
    #[arg(long, value_name = "COMMAND")]
    pub(crate) reload: Option<String>,
    /// The reload has failed when it takes longer; its processes are ended then
    #[arg(long, value_name = "SECONDS", default_value_t = 120, requires = "reload", value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub(crate) reload_timeout: u16,
    /// Delete keys that are former, and without a request, for at least this number of days
    #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = clap::value_parser!(u16).range(0..=3650))]
    pub(crate) grace: u16,
    /// Try the key as that user, e.g. www-data; for root
    #[arg(long = "as", value_name = "USER", requires = "output")]
    pub(crate) user: Option<String>,
    /// Take a certificate that has expired, is not valid yet, or is older than the present one
    #[arg(long)]
    pub(crate) allow_expired: bool,
    /// The file with the passphrase that the key is encrypted with
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
    // Instead of those who may use the former key.
    #[command(flatten)]
    pub(crate) users: Users,
}

/// Of a file: permissions only.
fn mode(text: &str) -> Result<u32, CliError> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| CliError::usage("write an octal number from 0000 to 0777"))
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Give the service a private key: PEM, DER or PKCS#12, told by content. With --remote: the public part of a key that
    /// services on other machines have
    Import {
        /// Its name from now on; with --remote, its name there
        name: String,
        /// The file with the key; - for standard input
        #[arg(required_unless_present = "remote", conflicts_with = "remote")]
        file: Option<PathBuf>,
        /// The private part is on other machines only: requests go to their services, through a gateway
        #[arg(long, requires = "public", conflicts_with = "passphrase_file")]
        remote: bool,
        /// The file with the public key or the certificate, PEM or DER; - for standard input
        #[arg(long, value_name = "FILE", requires = "remote")]
        public: Option<PathBuf>,
        /// The file with the passphrase that the key is encrypted with
        #[arg(long, value_name = "FILE")]
        passphrase_file: Option<PathBuf>,
        /// Put it in the place of the key of this name, in one step: its users stay, and requests that were begun are finished
        /// with the old one
        #[arg(long, conflicts_with_all = ["remote", "uid", "gid"])]
        replace: bool,
        #[command(flatten)]
        users: Users,
    },
    /// Let the service make a key
    Generate {
        /// Its name from now on
        name: String,
        /// Kind of the key
        #[arg(long, value_parser = kind())]
        kind: Kind,
        #[command(flatten)]
        users: Users,
    },
    /// The keys and their users
    List {
        /// One object a line
        #[arg(long)]
        json: bool,
    },
    /// Delete a key: what uses it is refused from then on
    Delete {
        /// Its name
        #[arg(add = ArgValueCandidates::new(stored))]
        name: String,
    },
    /// Give a key another name: its users, terms and certificates stay, and so do requests and open sessions
    Rename {
        /// Its name so far
        #[arg(add = ArgValueCandidates::new(stored))]
        name: String,
        /// Its name from now on, which no key has
        new: String,
    },
    /// Change the passphrase: the service seals all keys anew
    Passphrase {
        /// The file with the new one, which the service must find at its next start
        #[arg(long, value_name = "FILE")]
        new_passphrase_file: PathBuf,
    },
    /// Print the file that a server takes in the place of the private key, or write it where the server looks for it
    Pem {
        /// The key's name
        #[arg(add = ArgValueCandidates::new(stored))]
        name: String,
        /// Write it as PKCS#8 with the label PRIVATE KEY, for programs that look for this label, e.g. Apache's
        /// `SSLProxyMachineCertificateFile`
        #[arg(long)]
        pkcs8: bool,
        /// Write it there, in one step; only a file that this command wrote is replaced
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Its permissions, octal; `PostgreSQL` wants 0600, or 0640 where root owns it
        #[arg(long, value_name = "MODE", requires = "output", default_value = "0644", value_parser = mode)]
        mode: u32,
        /// Its owner, e.g. postgres or root:ssl-cert; for root
        #[arg(long, value_name = "USER:GROUP", requires = "output")]
        owner: Option<String>,
    },
    /// Put the key of a renewed certificate in the place of the former one: import it under a name of its own, test it, write the
    /// server's file, reload the server; where a step fails, all is as before
    Renew(Renewal),
    /// Try whether a server that is given a file of `keys pem` can use the key: service, key, permission, certificate, OpenSSL, a signature
    Test(Trial),
    /// Set whether services on other machines have a key as well and may get its requests
    #[command(group = clap::ArgGroup::new("where").args(["also", "never"]).required(true))]
    Remote {
        /// Its name, here and there
        #[arg(add = ArgValueCandidates::new(stored))]
        name: String,
        /// They have it as well
        #[arg(long)]
        also: bool,
        /// They get no requests
        #[arg(long)]
        never: bool,
    },
    /// Set what a key is used for: other operations are refused from then on, also in sessions that are open
    Usage {
        /// Its name
        #[arg(add = ArgValueCandidates::new(stored))]
        name: String,
        /// The operations, with commas between them: sign, decrypt, derive; ssh for a key that signs and is meant for SSH
        #[arg(value_name = "USAGE", value_parser = clap::value_parser!(Usage))]
        usage: Usage,
    },
    /// Limit the signatures, decryptions and key agreements of a key, over all programs
    Limit {
        /// Its name
        #[arg(add = ArgValueCandidates::new(stored))]
        name: String,
        /// The most in a second, e.g. 100/s
        #[arg(value_name = "N/s", required_unless_present = "remove", conflicts_with = "remove", value_parser = rate)]
        rate: Option<u32>,
        /// Any number
        #[arg(long)]
        remove: bool,
    },
    /// Store certificates beside a key, for programs that find keys by certificates
    Cert {
        /// The key's name
        #[arg(add = ArgValueCandidates::new(stored))]
        name: String,
        /// The file with the chain in PEM, the key's own certificate first; - for standard input
        #[arg(required_unless_present = "remove", conflicts_with = "remove")]
        file: Option<PathBuf>,
        /// The key has none any more
        #[arg(long)]
        remove: bool,
        /// Take a certificate that has expired, is not valid yet, or is older than the present one
        #[arg(long, conflicts_with = "remove")]
        allow_expired: bool,
    },
    /// Print the address to which other machines' services seal keys for this one; no secret
    Address,
    /// Seal keys to another machine's service, and have a command bring them there; they stay here
    Send(Sending),
    /// Seal keys to another machine's service, have a command bring them there, and delete each one here after its receipt
    Move(Moving),
    /// Take sealed keys from a service that the configuration names under `keys.receive_from`, and print a receipt for each
    Receive {
        /// The file with the sealed keys; - for standard input
        #[arg(value_name = "FILE", default_value = "-")]
        file: PathBuf,
        /// Put them in the place of earlier states of the same keys, also of keys that they replaced at the sender
        #[arg(long)]
        replace: bool,
        /// Put them in the place of whatever has their names, also where that is newer or was changed independently
        #[arg(long, conflicts_with = "replace")]
        force: bool,
        #[command(flatten)]
        mapping: Mapping,
    },
    /// Set the users of a key, in addition to root and the service's own user
    #[command(group = clap::ArgGroup::new("how").args(["add", "remove", "set", "nobody"]).required(true))]
    #[command(group = clap::ArgGroup::new("whom").args(["uid", "gid"]).multiple(true))]
    Acl {
        /// Its name
        #[arg(add = ArgValueCandidates::new(stored))]
        name: String,
        /// These as well
        #[arg(long, requires = "whom")]
        add: bool,
        /// These no longer
        #[arg(long, requires = "whom")]
        remove: bool,
        /// These only
        #[arg(long, requires = "whom")]
        set: bool,
        /// No others
        #[arg(long, conflicts_with = "whom")]
        nobody: bool,
        #[command(flatten)]
        users: Users,
    },
}

/// Names of stored keys, for a shell that completes them. Without a service there are none.
fn stored() -> Vec<CompletionCandidate> {
    let socket = env::var_os("SIDECORE_SOCKET").unwrap_or_else(|| DEFAULT_SOCKET.into());
    let keys = Snapshot::read(&counters_beside(Path::new(&socket))).map(|snapshot| snapshot.keys);
    keys.into_iter().flatten().map(|key| CompletionCandidate::new(&key.name)).collect()
}

/// A number of requests with `/s` behind it.
fn rate(text: &str) -> Result<u32, CliError> {
    parse_rate(text).map_err(|why| CliError::Usage(why.to_string()))
}

#[derive(Debug, Args)]
pub(crate) struct Users {
    /// A user who may use it, by number or name; several times for several
    #[arg(long, value_name = "USER", value_parser = user)]
    uid: Vec<u32>,
    /// A group whose members may use it, by number or name; several times for several
    #[arg(long, value_name = "GROUP", value_parser = group)]
    gid: Vec<u32>,
}

impl Users {
    /// Each once, in order.
    pub(crate) fn acl(&self) -> Acl {
        let sorted = |ids: &[u32]| ids.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        Acl { uids: sorted(&self.uid), gids: sorted(&self.gid) }
    }
}

fn kind() -> impl TypedValueParser<Value = Kind> {
    let by_name = |name: String| Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or("no kind of key");
    PossibleValuesParser::new(Kind::ALL.map(Kind::name)).try_map(by_name)
}

/// The number in a text. `None`: the text is a name.
pub(crate) fn number(text: &str) -> Result<Option<u32>, CliError> {
    match text.parse() {
        Ok(u32::MAX) => {
            let number = u32::MAX;
            let why = format!("{number} is the kernel's -1, which stands for no user and no group: give another");
            Err(CliError::Usage(why))
        }
        number => Ok(number.ok()),
    }
}

fn user(text: &str) -> Result<u32, CliError> {
    if let Some(number) = number(text)? {
        return Ok(number);
    }
    let found = nix::unistd::User::from_name(text).map_err(CliError::library)?.map(|user| user.uid.as_raw());
    found.ok_or_else(|| CliError::usage("there is no such user here, name one of `getent passwd`"))
}

fn mapped_user(text: &str) -> Result<(String, u32), CliError> {
    mapped(text, user)
}

fn mapped_group(text: &str) -> Result<(String, u32), CliError> {
    mapped(text, group)
}

fn mapped(text: &str, local: fn(&str) -> Result<u32, CliError>) -> Result<(String, u32), CliError> {
    let (name, here) = text.split_once('=').ok_or_else(|| {
        CliError::usage("write NAME=LOCAL: the name at the sender, and the name or number here that stands for it")
    })?;
    Ok((name.to_owned(), local(here)?))
}

fn group(text: &str) -> Result<u32, CliError> {
    if let Some(number) = number(text)? {
        return Ok(number);
    }
    let found = nix::unistd::Group::from_name(text).map_err(CliError::library)?.map(|group| group.gid.as_raw());
    found.ok_or_else(|| CliError::usage("there is no such group here, name one of `getent group`"))
}
