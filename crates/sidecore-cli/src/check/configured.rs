//! Whether a service with this configuration would start: what it names must be there.

use super::finding::{Finding, topics};
use nix::unistd::User;
use sidecore::config::Config;

topics! {
    CONFIGURATION: "configuration",
        breaks "a service that is started with it serves",
        do "mend the file, and check it again before the service is restarted";
}

/// The file was read, and its numbers fit each other; which cores a service here may use, be they kept free by the kernel.
pub(super) fn judge(config: &Config, is_usable: impl Fn(usize) -> bool) -> Finding {
    let wrong = [cores(config, is_usable), user(config), passphrase(config)].into_iter().find_map(Result::err);
    let fine = wrong.is_none();
    CONFIGURATION.ok_if(fine, wrong.unwrap_or_else(|| "it was read, and what it names is here".to_owned()))
}

fn cores(config: &Config, is_usable: impl Fn(usize) -> bool) -> Result<(), String> {
    let of_devices =
        config.devices.iter().filter_map(|device| Some((format!("cpu of device {:?}", device.name), device.cpu?)));
    let of_sidecores = config.sidecores.cpus.iter().map(|cpu| ("sidecores.cpus".to_owned(), *cpu));
    let missing = of_sidecores.chain(of_devices).find(|(_, cpu)| !is_usable(*cpu));
    missing.map_or(Ok(()), |(key, cpu)| Err(format!("{key}: core {cpu} is not here, or may not be used")))
}

fn user(config: &Config) -> Result<(), String> {
    let Some(name) = &config.sandbox.user else { return Ok(()) };
    let found = User::from_name(name).ok().flatten();
    found
        .map(drop)
        .ok_or_else(|| format!("sandbox.user: there is no user {name:?}: make it, e.g. useradd --system {name}"))
}

fn passphrase(config: &Config) -> Result<(), String> {
    config.keys.passphrase().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::State;

    #[test]
    fn what_a_configuration_names_must_be_here() {
        let judged = |text: &str| judge(&Config::parse(text).unwrap(), |cpu| cpu < 2);
        assert_eq!(judged("sidecores = { cpus = [1] }").state, State::Ok);
        for (text, said) in [
            ("sidecores = { cpus = [0, 77] }", "sidecores.cpus: core 77 is not here, or may not be used"),
            ("[[device]]\nname = 'w'\nkind = 'worker'\ncpu = 7", "cpu of device \"w\": core 7 is not here"),
            ("[sandbox]\nuser = 'nobody-of-this-name'", "sandbox.user: there is no user"),
            ("[keys]\ndirectory = '/x'\npassphrase_file = '/no/such/file'", "/no/such/file"),
        ] {
            let found = judged(text);
            assert!(found.breaks_a_promise() && found.found.contains(said), "{text}: {}", found.found);
        }
    }
}
