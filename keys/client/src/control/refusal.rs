//! What the service says when it refuses: a code and a text.
//!
//! The code is for programs. Its number keeps its meaning in all versions: `docs/errors.md` has the table. A program that
//! meets the number of a later version takes it for [`RefusalCode::Other`]. The text is for people, and may change with any
//! version.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Deref;

/// Kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "u16", into = "u16")]
#[repr(u16)]
pub enum RefusalCode {
    /// Any other; the text has the reason.
    Other = 0,
    /// No key has this name.
    NoKey = 1,
    /// The user may not do this, or may not use the key.
    NotAllowed = 2,
    /// A limit of the service is reached.
    Limit = 3,
    /// The service has no such channel with another one, which is to set one up again.
    NoChannel = 4,
    /// The program states another lane layout, or another protocol of gateways, than the service has.
    OtherVersion = 5,
    /// A request that only later versions know. The connection stays.
    UnknownRequest = 6,
    /// The packet is no request. The connection ends.
    NoRequest = 7,
}

impl RefusalCode {
    /// All codes, by their numbers.
    pub const ALL: [Self; 8] = [
        Self::Other,
        Self::NoKey,
        Self::NotAllowed,
        Self::Limit,
        Self::NoChannel,
        Self::OtherVersion,
        Self::UnknownRequest,
        Self::NoRequest,
    ];

    /// Its name in the service's log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::NoKey => "no-key",
            Self::NotAllowed => "not-allowed",
            Self::Limit => "limit",
            Self::NoChannel => "no-channel",
            Self::OtherVersion => "other-version",
            Self::UnknownRequest => "unknown-request",
            Self::NoRequest => "no-request",
        }
    }
}

impl From<u16> for RefusalCode {
    fn from(number: u16) -> Self {
        Self::ALL.into_iter().find(|code| *code as u16 == number).unwrap_or(Self::Other)
    }
}

impl From<RefusalCode> for u16 {
    fn from(code: RefusalCode) -> Self {
        code as Self
    }
}

/// A refusal by the service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{text}")]
#[serde(from = "Said")]
pub struct Refused {
    /// Its kind.
    pub code: RefusalCode,
    /// The error and its remedy.
    pub text: String,
}

impl Refused {
    /// A refusal of this kind.
    pub fn new(code: RefusalCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// A refusal without a kind of its own.
    pub fn other(text: impl fmt::Display) -> Self {
        Self::new(RefusalCode::Other, text.to_string())
    }

    /// A refusal for a limit, which the text names.
    pub fn limit(text: impl Into<String>) -> Self {
        Self::new(RefusalCode::Limit, text)
    }

    /// Whether the service does not know the request, because it is of an older version.
    pub fn is_of_older_version(&self) -> bool {
        self.code == RefusalCode::UnknownRequest
    }
}

impl Deref for Refused {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// A refusal as received.
#[derive(Deserialize)]
struct Said {
    code: RefusalCode,
    text: String,
}

impl From<Said> for Refused {
    fn from(Said { code, text }: Said) -> Self {
        Self { code: if code == RefusalCode::Other { of_text(&text) } else { code }, text }
    }
}

/// The code that a service meant which has none for it: those built before the codes of version 0.1.0 said it by the beginning
/// of the text alone. To be removed in 0.2.0.
fn of_text(text: &str) -> RefusalCode {
    const BEGINNINGS: [(&str, RefusalCode); 3] = [
        ("the client speaks lane layout", RefusalCode::OtherVersion),
        ("the service is of an older version and does not know this request", RefusalCode::UnknownRequest),
        // The first of them said it of later requests, too.
        ("no message of this protocol: client and service must be of one version", RefusalCode::UnknownRequest),
    ];
    let meant = BEGINNINGS.into_iter().find(|(beginning, _)| text.starts_with(beginning));
    meant.map_or(RefusalCode::Other, |(_, code)| code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Reply, decode, encode};
    use sidecore_ipc::versions::SIDECORE;

    /// Numbers and names as programs and the log know them. A new one comes behind; none of these changes.
    const FROZEN: [(u16, &str); 8] = [
        (0, "other"),
        (1, "no-key"),
        (2, "not-allowed"),
        (3, "limit"),
        (4, "no-channel"),
        (5, "other-version"),
        (6, "unknown-request"),
        (7, "no-request"),
    ];

    fn heard(packet: &[u8]) -> Refused {
        let Ok(Reply::Refused(refused)) = decode(packet) else { panic!("no refusal: {packet:?}") };
        refused
    }

    fn packet(number: &[u8], text: &str) -> Vec<u8> {
        [&[3], number, &[text.len() as u8], text.as_bytes()].concat()
    }

    #[test]
    fn the_numbers_of_codes_are_frozen() {
        assert_eq!(RefusalCode::ALL.map(|code| (code as u16, code.name())), FROZEN);
        let mut buffer = [0; 64];
        for code in RefusalCode::ALL {
            assert_eq!(RefusalCode::from(code as u16), code);
            let refused = Refused::new(code, "why");
            let sent = encode(&Reply::Refused(refused.clone()), &mut buffer).unwrap();
            assert_eq!(sent, packet(&[code as u8], "why"));
            assert_eq!(heard(sent), refused);
        }
    }

    #[test]
    fn the_documentation_has_the_table_of_codes() {
        let page = include_str!("../../../../docs/errors.md");
        for (number, name) in FROZEN {
            let row = format!("| {number} | `{name}` |");
            assert!(page.contains(&row), "{row}");
        }
        assert!(!page.contains(&format!("| {} | `", FROZEN.len())), "the page has more codes than the library");
    }

    #[test]
    fn a_code_of_a_later_version_is_another_reason() {
        // The largest takes three bytes.
        for number in [&[8][..], &[100], &[0x80, 0x01], &[0xff, 0xff, 0x03]] {
            assert_eq!(heard(&packet(number, "why")), Refused::other("why"));
        }
    }

    #[test]
    fn a_service_from_before_the_codes_is_understood() {
        assert!(SIDECORE.starts_with("0.1."), "remove this, `of_text`, and `KEY_LIMIT_BEFORE` of gateways");
        for (text, code) in [
            ("the client speaks lane layout 1, the service (sidecore 0.1.0) 2; ...", RefusalCode::OtherVersion),
            (
                "the service is of an older version and does not know this request: update it and start it anew; ...",
                RefusalCode::UnknownRequest,
            ),
            (
                "no message of this protocol: client and service must be of one version; the service is sidecore 0.1.0",
                RefusalCode::UnknownRequest,
            ),
            ("no message of this protocol", RefusalCode::Other),
            ("", RefusalCode::Other),
        ] {
            let said = packet(&[0], text);
            assert_eq!(heard(&said).code, code, "{text}");
        }
        let said = packet(&[3], "the client speaks lane layout");
        assert_eq!(heard(&said).code, RefusalCode::Limit, "a code says more than a text");
    }
}
