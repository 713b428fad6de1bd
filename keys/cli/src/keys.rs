//! `sidecore keys`: the keys that a running service stores.

mod key_file;
mod list;
mod pem;
mod receive;
mod renew;
mod send;
mod terms;
mod trial;

use crate::args::keys::{Keys, KeysCommand};
use crate::error::{Cause, CliError, failed, unusable};
use crate::set::connect;
use sidecore::client::Admin;
use sidecore::engine::crypto::Secret;
use sidecore::keys::transfer::Replace;
use sidecore::keys::uri::Uri;
use sidecore::keys::{
    Acl, KeyCommand, KeyEntry, MAX_KEY_FILE, Site, Usage, check_name, public_of_private, read_passphrase,
    read_private_key, read_public_key, unknown_kind,
};
use sidecore_counters::{KeyCounter, Snapshot, counters_beside};
use sidecore_ipc::named_file::NamedFile;
use sidecore_terminal::output;
use std::fmt::Display;
use std::io::{self, Read};
use std::path::Path;
use zeroize::Zeroizing;

/// Runs one command. `false`: the key or server under test does not work.
pub(crate) fn run(args: Keys) -> Result<bool, CliError> {
    let connect = || connect(&args.socket);
    match args.command {
        KeysCommand::Import { name, file: Some(file), passphrase_file, replace: true, .. } => {
            let (pkcs8, _) = key_of(&name, &file, passphrase_file.as_deref())?;
            drop(connect()?.keys(KeyCommand::Replace { name: name.clone(), pkcs8 })?);
            let next = format!(
                "The key {name} is another one now. Programs that have the old one's file or certificate fail until they have the new \
                 ones: `sidecore keys pem {name} --output FILE`, then reload them\n"
            );
            report(&format!("the key {name} was replaced"), &next)?;
        }
        KeysCommand::Import { name, file, public, passphrase_file, users, .. } => {
            let acl = users.acl();
            let command = if let Some(file) = public {
                KeyCommand::ImportPublic { public: public_of(&name, &file)?, name, acl }
            } else {
                let file = file.ok_or_else(|| CliError::usage("name the file with the key"))?;
                KeyCommand::Import { pkcs8: key_of(&name, &file, passphrase_file.as_deref())?.0, name, acl }
            };
            let entry = new_key(&mut connect()?, command)?;
            report(&format!("the key {} was imported", entry.name), &in_words(&entry))?;
        }
        KeysCommand::Generate { name, kind, users } => {
            let entry = new_key(&mut connect()?, KeyCommand::Generate { name, kind, acl: users.acl() })?;
            report(&format!("the key {} was made", entry.name), &in_words(&entry))?;
        }
        KeysCommand::Remote { name, also, .. } => drop(connect()?.keys(KeyCommand::Share { name, also })?),
        KeysCommand::List { json } => {
            let (keys, terms) = (all(&mut connect()?)?, terms::all(&args.socket)?.unwrap_or_default());
            output::print(&list::render(&keys, &terms, json))?;
        }
        KeysCommand::Delete { name } => drop(connect()?.keys(KeyCommand::Delete { name })?),
        KeysCommand::Rename { name, new } => rename(&mut connect()?, &name, &new)?,
        KeysCommand::Passphrase { new_passphrase_file } => {
            let new = read_passphrase(&new_passphrase_file).map_err(CliError::library)?;
            let file = connect()?.change_passphrase(new)?;
            let file = file.unwrap_or_else(|| "the file that its configuration names".to_owned());
            let next = format!(
                "The passphrase is changed, all keys are sealed anew. The service reads it at its next start from {file}: put \
                 the new one there now, or where that file is made from.\n"
            );
            report("the passphrase was changed", &next)?;
        }
        KeysCommand::Address => output::print(&connect()?.transfer_address()?.to_pem())?,
        KeysCommand::Send(sending) => send::send(&mut connect()?, sending)?,
        KeysCommand::Move(moving) => send::move_away(&mut connect()?, &moving)?,
        KeysCommand::Usage { name, usage } => set_usage(&mut connect()?, &name, usage)?,
        KeysCommand::Receive { file, replace, force, mapping } => {
            let replace = match (replace, force) {
                (_, true) => Replace::Always,
                (true, false) => Replace::Newer,
                (false, false) => Replace::Never,
            };
            receive::run(&args.socket, &file, replace, &mapping)?;
        }
        KeysCommand::Limit { name, rate, .. } => drop(connect()?.keys(KeyCommand::SetRate { name, rate })?),
        KeysCommand::Cert { name, file: Some(file), allow_expired, .. } => {
            terms::set_certificates(&mut connect()?, &name, &file, allow_expired)?;
        }
        KeysCommand::Cert { name, .. } => drop(connect()?.keys(KeyCommand::RemoveCertificates { name })?),
        KeysCommand::Pem { name, pkcs8, output, mode, owner } => {
            pem::run(&mut connect()?, &name, pkcs8, output.as_deref(), mode, owner.as_deref())?;
        }
        KeysCommand::Renew(renewal) => renew::run(&args.socket, &renewal)?,
        KeysCommand::Test(trial) => return trial::run(&args.socket, &trial),
        KeysCommand::Acl { name, add, remove, users, .. } => {
            let (acl, none) = (users.acl(), Acl::default());
            let command = match (add, remove) {
                (true, _) => KeyCommand::ChangeAcl { name, add: acl, remove: none },
                (_, true) => KeyCommand::ChangeAcl { name, add: none, remove: acl },
                // `--set`, and `--nobody`, which leaves the list of users empty.
                _ => KeyCommand::SetAcl { name, acl },
            };
            connect()?.keys(command)?;
        }
    }
    Ok(true)
}

fn rename(service: &mut Admin, name: &str, new: &str) -> Result<(), CliError> {
    check_name(new).map_err(CliError::library)?;
    service.keys(KeyCommand::Rename { name: name.to_owned(), new: new.to_owned() })?;
    let next = format!(
        "The key {name} is called {new} now. Programs whose files name {name} fail from their next start or reload on: \
         `sidecore keys pem {new} --output FILE`, then reload them\n"
    );
    report(&format!("the key {name} was renamed to {new}"), &next)
}

fn set_usage(service: &mut Admin, name: &str, usage: Usage) -> Result<(), CliError> {
    service.keys(KeyCommand::SetUsage { name: name.to_owned(), usage })?;
    if !usage.contains(Usage::SSH) {
        return Ok(());
    }
    let next = format!(
        "Agents offer {name} to SSH. One whose user may use {name} no longer offers keys without this usage, unless --keys \
         names them\n"
    );
    report(&format!("the usage of {name} was set"), &next)
}

fn key_of(name: &str, file: &Path, passphrase_file: Option<&Path>) -> Result<(Secret, Vec<u8>), CliError> {
    check_name(name).map_err(CliError::library)?;
    let passphrase = passphrase_file.map(read_passphrase).transpose().map_err(CliError::library)?;
    let bytes = read(file)?;
    let key = read_private_key(&bytes, passphrase.as_ref()).map_err(|error| no_key(&bytes, error.into()));
    let key = key.map_err(failed(called(file)))?;
    let public = public_of_private(&key).map_err(failed(called(file)))?;
    Ok((key, public))
}

fn no_key(file: &[u8], error: Cause) -> Cause {
    match Uri::from_pem(file) {
        Ok(uri) => format!(
            "it is a file of `sidecore keys pem` and names the key {:?}, which is in the service already: name the file with the \
             private key",
            uri.name()
        )
        .into(),
        Err(_) => unknown_kind(file).map_or(error, Into::into),
    }
}

fn public_of(name: &str, file: &Path) -> Result<Vec<u8>, CliError> {
    check_name(name).map_err(CliError::library)?;
    public_in(file)
}

fn public_in(file: &Path) -> Result<Vec<u8>, CliError> {
    read_public_key(&read(file)?).map_err(failed(called(file)))
}

fn requests(socket: &Path, key: &str) -> Option<u64> {
    let counted = Snapshot::read(&counters_beside(socket)).ok()?;
    Some(counted.keys.iter().find(|stats| stats.name == key)?.get(KeyCounter::Submitted))
}

fn called(file: &Path) -> impl Display {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

fn read(file: &Path) -> Result<Zeroizing<Vec<u8>>, CliError> {
    all_of(file).map_err(unusable(called(file), "name a file with a key that this user may read"))
}

/// Reads a whole file into one allocation, so that no copy of a key stays in freed memory.
fn all_of(file: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let from: Box<dyn Read> =
        if file == Path::new("-") { Box::new(io::stdin().lock()) } else { Box::new(NamedFile::open(file)?) };
    // Twice the limit: `read_to_end` never finds the buffer full, so it neither moves the bytes nor probes for the end
    // with a buffer on its stack.
    let mut bytes = Zeroizing::new(Vec::with_capacity(2 * MAX_KEY_FILE));
    match from.take(MAX_KEY_FILE as u64 + 1).read_to_end(&mut bytes)? {
        0..=MAX_KEY_FILE => Ok(bytes),
        _ => Err(io::Error::other(format!("it has more than {MAX_KEY_FILE} bytes"))),
    }
}

fn new_key(service: &mut Admin, command: KeyCommand) -> Result<KeyEntry, CliError> {
    let stored = service.keys(command)?.into_iter().next();
    stored.ok_or(CliError::NothingStored)
}

fn report(done: &str, text: &str) -> Result<(), CliError> {
    output::written(text).map_err(failed(format_args!("{done}, but this could not be written to standard output")))
}

fn in_words(entry: &KeyEntry) -> String {
    let mut what = format!("{} is a key of kind {}; {}\n", entry.name, entry.kind.name(), list::users(&entry.acl));
    if entry.site == Site::Elsewhere {
        what +=
            "Its private part is on other machines: connect a gateway of a remote device (kind = \"remote\") for it\n";
    }
    if entry.at_rest {
        return what;
    }
    what + "It is in memory only and gone when the service ends: to keep keys, configure keys.directory\n"
}

fn all(service: &mut Admin) -> Result<Vec<KeyEntry>, CliError> {
    let mut entries: Vec<KeyEntry> = Vec::new();
    loop {
        let after = entries.last().map_or_else(String::new, |entry| entry.name.clone());
        let page = service.keys(KeyCommand::List { after })?;
        if page.is_empty() {
            return Ok(entries);
        }
        entries.extend(page);
    }
}
