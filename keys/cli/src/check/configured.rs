//! Whether a service would start with this configuration: cores, user and passphrase that it names must exist.

use super::finding::{Finding, topics};
use crate::error::CliError;
use nix::unistd::User;
use sidecore::config::Config;
use sidecore_daemon::start::check_cpus;
use std::path::Path;

topics! {
    CONFIGURATION: "configuration",
        breaks "a service that is started with it serves",
        do "mend the file, and check it again before the service is restarted";
}

/// The caller has read the file and checked its numbers against each other.
pub(super) fn judge(path: &Path, config: &Config) -> Finding {
    let cores = check_cpus(config.cpus()).err().map(|error| error.to_string());
    let passphrase = || config.keys.passphrase().map_err(CliError::library).err().map(|error| error.to_string());
    let partners = || config.keys.read_partners().err().map(|error| error.to_string());
    let wrong = cores.or_else(|| no_user(config)).or_else(passphrase).or_else(partners);
    let fine = wrong.is_none();
    CONFIGURATION
        .ok_if(fine, wrong.unwrap_or_else(|| format!("{} was read, and what it names is here", path.display())))
}

fn no_user(config: &Config) -> Option<String> {
    let name = config.sandbox.user.as_ref().filter(|name| User::from_name(name).ok().flatten().is_none())?;
    Some(format!("sandbox.user: there is no user {name:?}: make it, e.g. useradd --system {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::FindingState;

    #[test]
    fn what_a_configuration_names_must_be_here() {
        let judged = |text: &str| judge(Path::new("sidecore.toml"), &Config::parse(text).unwrap());
        let here = sidecore_daemon::sys::cpu::allowed()[0];
        assert_eq!(judged(&format!("sidecores = {{ cpus = [{here}] }}")).state, FindingState::Ok);
        for (text, said) in [
            ("sidecores = { cpus = [900] }", "core 900 is not here: name one of those that this process may use, "),
            ("[[device]]\nname = 'w'\nkind = 'worker'\ncpu = 900", "core 900 is not here"),
            ("[sandbox]\nuser = 'nobody-of-this-name'", "sandbox.user: there is no user"),
            ("[keys]\ndirectory = '/x'\npassphrase_file = '/no/such/file'", "/no/such/file"),
            ("[keys]\nsend_to = ['/no/such/address']", "keys.send_to: /no/such/address"),
            ("[keys]\nreceive_from = ['/no/such/address']", "keys.receive_from: /no/such/address"),
        ] {
            let found = judged(text);
            assert!(found.breaks_a_promise() && found.found.contains(said), "{text}: {}", found.found);
        }
    }
}
