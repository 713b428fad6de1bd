//! The login in an address: `nats://USER:PASSWORD@HOST` or `nats://TOKEN@HOST`.

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Login {
    User(String, String),
    Token(String),
}

/// A `%` in an address that no two hexadecimal digits follow.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the user or the password in --server has a % that is no escape: write it as %25")]
pub struct InvalidEscape;

/// The login of the first address with one. One account serves all servers.
pub(super) fn of(servers: &[String]) -> Result<Option<Login>, InvalidEscape> {
    let Some(info) = servers.iter().find_map(|server| info(server)) else { return Ok(None) };
    let plain = |text| decoded(text).ok_or(InvalidEscape);
    Ok(Some(match info.split_once(':') {
        Some((user, password)) => Login::User(plain(user)?, plain(password)?),
        None => Login::Token(plain(info)?),
    }))
}

pub(super) fn info(server: &str) -> Option<&str> {
    let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next()?;
    authority.rsplit_once('@').map(|(info, _)| info)
}

pub(super) fn public(servers: &[String]) -> String {
    let public = |url: &String| info(url).map_or(url.clone(), |info| url.replacen(&format!("{info}@"), "", 1));
    servers.iter().map(public).collect::<Vec<_>>().join(", ")
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
        } else {
            byte
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(server: &str) -> Result<Option<Login>, InvalidEscape> {
        of(&["nats://other".to_owned(), server.to_owned()])
    }

    #[test]
    fn an_address_may_say_who_this_is() {
        assert_eq!(login("nats://host:4222"), Ok(None));
        assert_eq!(login("tls://me:pass@host:4222"), Ok(Some(Login::User("me".into(), "pass".into()))));
        assert_eq!(login("me:p%40ss%3a@host"), Ok(Some(Login::User("me".into(), "p@ss:".into()))));
        assert_eq!(login("nats://s3cret@host"), Ok(Some(Login::Token("s3cret".into()))));
        assert_eq!(login("nats://host/@"), Ok(None));
    }

    #[test]
    fn an_escape_that_is_none_is_said() {
        for server in ["nats://me:100%@host", "nats://me:%zz@host", "nats://%ff@host"] {
            assert!(login(server).is_err(), "{server}");
        }
    }
}
