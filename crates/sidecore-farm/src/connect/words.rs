//! Messages about a failed connection.

use super::login;
use crate::args::Farm;
use async_nats::{ConnectError, ConnectErrorKind};

/// The reason and its remedy.
pub(super) fn why_not(error: &ConnectError, farm: &Farm) -> String {
    let servers = servers(farm);
    let said = error.to_string();
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            format!("the NATS server at {servers} does not accept who this is ({said}); {}", credentials(farm))
        }
        ConnectErrorKind::ServerParse => {
            format!("{servers} is no address of a NATS server ({said}); write e.g. nats://host:4222 or tls://host:4222")
        }
        ConnectErrorKind::Dns => format!("the name in {servers} is unknown ({said}); check --server"),
        ConnectErrorKind::TimedOut => {
            format!("no answer from {servers} within 5 s; check --server, and that it speaks NATS")
        }
        _ => other(&said, &servers, farm),
    }
}

/// The servers, without secrets in their addresses.
pub(super) fn servers(farm: &Farm) -> String {
    let public = |url: &String| login::info(url).map_or(url.clone(), |info| url.replacen(&format!("{info}@"), "", 1));
    farm.server.iter().map(public).collect::<Vec<_>>().join(", ")
}

/// The library passes on the TLS message of the system or of its own TLS library.
fn other(said: &str, servers: &str, farm: &Farm) -> String {
    let has = |part: &str| said.to_lowercase().contains(&part.to_lowercase());
    if has("not valid for name") || has("NotValidForName") {
        return format!(
            "the certificate of {servers} is for another name ({said}); give --server the name that is in it"
        );
    }
    if has("UnknownIssuer") || has("BadSignature") || has("self-signed") {
        return format!(
            "{servers} has a certificate that nobody known has signed ({said}); give who signed it with --tls-ca FILE"
        );
    }
    if has("CertificateRequired") || has("certificate required") || (has("BadCertificate") && farm.tls_cert.is_none()) {
        return format!("{servers} wants a certificate ({said}); give yours with --tls-cert FILE --tls-key FILE");
    }
    if has("tls") || has("certificate") {
        return format!(
            "no TLS with {servers}: {said}; check --tls-ca, --tls-cert and --tls-key, and that the server has TLS"
        );
    }
    format!("no NATS server at {servers}: {said}; start one with `nats-server -js`, or name yours with --server")
}

fn credentials(farm: &Farm) -> &'static str {
    if farm.creds.is_some() {
        "check the file given with --creds"
    } else if farm.server.iter().any(|server| login::info(server).is_some()) {
        "check the user and the password in --server"
    } else {
        "give credentials with --creds FILE, or a user as nats://USER:PASSWORD@HOST"
    }
}
