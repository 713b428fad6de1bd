//! OpenSSL and the provider, which servers with keys in the service need.

use super::finding::{Finding, FindingState, topics};
use crate::error::CliError;

#[derive(Debug, Default)]
pub(super) struct OpenSsl {
    /// Output of `openssl version -v -m`. `None`: there is no such command.
    pub(super) version: Option<String>,
    pub(super) module: Option<String>,
    pub(super) loads: Option<Result<(), CliError>>,
}

topics! {
    VERSION: "OpenSSL",
        for "servers use keys of the service unmodified",
        do "use OpenSSL 3.0 or later";
    MODULE: "provider",
        for "servers use keys of the service unmodified",
        do "put libsidecore_openssl.so into OpenSSL's module directory (openssl version -m)";
    LOADS: "provider in OpenSSL",
        for "servers use keys of the service unmodified",
        do "use the module of this sidecore's build, for this processor and C library";
}

pub(super) fn judge(openssl: &OpenSsl) -> Vec<Finding> {
    let module = match (&openssl.module, &openssl.version) {
        (Some(path), _) => MODULE.is(FindingState::Ok, path.as_str()),
        (None, Some(_)) => MODULE.is(FindingState::Lacks, "not found"),
        (None, None) => MODULE.is(FindingState::Unknown, "without the command openssl its directory is unknown"),
    };
    let version = match openssl.version.as_deref().and_then(numbered) {
        Some((major, name)) => VERSION.ok_if(major >= 3, name),
        None => VERSION.is(FindingState::Unknown, "no command openssl"),
    };
    let loads = match &openssl.loads {
        Some(Ok(())) => LOADS.is(FindingState::Ok, "it loads"),
        Some(Err(why)) => LOADS.is(FindingState::Lacks, why.to_string()),
        None => LOADS.is(FindingState::Unknown, "not tried"),
    };
    vec![version, module, loads]
}

/// Major version and first line of `OpenSSL 3.0.19 …`.
fn numbered(version: &str) -> Option<(u32, &str)> {
    let line = version.lines().next()?;
    let number = line.strip_prefix("OpenSSL ")?.split('.').next()?.parse().ok()?;
    Some((number, line))
}

pub(super) fn module_directory(version: &str) -> Option<&str> {
    version.lines().find_map(|line| line.strip_prefix("MODULESDIR: \"")?.strip_suffix('"'))
}

#[cfg(test)]
mod tests {
    use super::super::finding::FindingState::{Lacks, Ok, Unknown};
    use super::*;

    const TEXT: &str = "OpenSSL 3.0.19 27 Jan 2026 (Library: OpenSSL 3.0.19)\nMODULESDIR: \"/usr/lib/ossl-modules\"\n";

    #[test]
    fn versions_and_directories_are_read() {
        assert_eq!(numbered(TEXT).unwrap().0, 3);
        assert_eq!(numbered("LibreSSL 3.8"), None);
        assert_eq!(module_directory(TEXT), Some("/usr/lib/ossl-modules"));
    }

    #[test]
    fn each_step_of_the_way_is_judged() {
        let states =
            |openssl: &OpenSsl| -> Vec<FindingState> { judge(openssl).iter().map(|finding| finding.state).collect() };
        assert_eq!(states(&OpenSsl::default()), [Unknown; 3]);
        let version = |text: &str| Some(text.to_owned());
        assert_eq!(
            states(&OpenSsl { version: version("OpenSSL 1.1.1w"), ..OpenSsl::default() }),
            [Lacks, Lacks, Unknown]
        );
        let module = Some("/x.so".to_owned());
        let loads = Some(Err(CliError::OpenSsl("no symbol".to_owned())));
        assert_eq!(states(&OpenSsl { version: version(TEXT), module: module.clone(), loads }), [Ok, Ok, Lacks]);
        assert_eq!(states(&OpenSsl { version: version(TEXT), module, loads: Some(Result::Ok(())) }), [Ok; 3]);
    }
}
