//! Subjects of NATS. They hold gateway, key server and key, so that a NATS server can enforce permissions.
//!
//! | Subject, of farm F | Published by | For |
//! |---|---|---|
//! | `farm.F.gateway.G` | gateway G | all key servers: a beat, with the key servers that it knows |
//! | `farm.F.ask.G.S.KEY` | gateway G | key server S: requests for a key, whose dots separate tokens |
//! | `farm.F.up.G.S` | key server S | gateway G: which keys it offers, answers |

use sidecore_client::keys::check_name;

#[derive(Clone, Debug)]
pub(crate) struct Subjects {
    farm: String,
}

impl Subjects {
    pub(crate) fn new(farm: &str) -> Self {
        Self { farm: farm.to_owned() }
    }

    pub(crate) fn gateway(&self, gateway: &str) -> String {
        format!("farm.{}.gateway.{gateway}", self.farm)
    }

    pub(crate) fn every_gateway(&self) -> String {
        self.gateway("*")
    }

    pub(crate) fn ask(&self, gateway: &str, server: &str, key: &str) -> String {
        format!("farm.{}.ask.{gateway}.{server}.{key}", self.farm)
    }

    pub(crate) fn every_ask(&self, server: &str) -> String {
        self.ask("*", server, ">")
    }

    pub(crate) fn up(&self, gateway: &str, server: &str) -> String {
        format!("farm.{}.up.{gateway}.{server}", self.farm)
    }

    pub(crate) fn every_up(&self, gateway: &str) -> String {
        self.up(gateway, "*")
    }
}

/// The token at this place of a subject; the farm's name is at 1.
pub(crate) fn token(subject: &str, place: usize) -> Option<&str> {
    subject.split('.').nth(place)
}

pub(crate) fn asked(subject: &str) -> Option<(&str, &str)> {
    let mut parts = subject.splitn(6, '.');
    let gateway = parts.nth(3)?;
    Some((gateway, parts.nth(1)?))
}

/// Whether a key's name can be the end of a subject: no token of it is empty.
pub(crate) fn fits(key: &str) -> bool {
    check_name(key).is_ok() && key.split('.').all(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_names_who_asks_whom_for_which_key() {
        let subjects = Subjects::new("keys");
        let ask = subjects.ask("near", "far", "www.example.org");
        assert_eq!(ask, "farm.keys.ask.near.far.www.example.org");
        assert_eq!(asked(&ask), Some(("near", "www.example.org")));
        assert_eq!(asked("farm.keys.ask.near.far"), None);
        assert_eq!(token(&subjects.up("near", "far"), 4), Some("far"));
        assert_eq!(token(&subjects.gateway("near"), 3), Some("near"));
        assert_eq!(subjects.every_ask("far"), "farm.keys.ask.*.far.>");
    }

    #[test]
    fn a_key_without_a_subject_is_known() {
        assert!(fits("www.example.org") && fits("a"));
        assert!(!fits("a..b") && !fits("a.") && !fits("a b") && !fits("*"));
    }
}
