//! What the service says when it ends a connection: a code and a text.
//!
//! The code is for programs. Its number keeps its meaning in all versions: `docs/errors.md` has the table. A program that
//! meets the number of a later version takes it for [`RefusalCode::Other`]. The text is for people.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "u16", into = "u16")]
#[repr(u16)]
pub enum RefusalCode {
    /// Any other; the text has the reason.
    Other = 0,
    /// A limit of the service, or of the system that it runs on, is reached.
    Limit = 1,
    /// The program states another layout than the service has.
    OtherVersion = 2,
    /// A message that is none of this protocol, or out of turn.
    Protocol = 3,
}

impl RefusalCode {
    /// All codes, by their numbers.
    pub const ALL: [Self; 4] = [Self::Other, Self::Limit, Self::OtherVersion, Self::Protocol];
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
pub struct Refused {
    /// Its kind.
    pub code: RefusalCode,
    /// The error and its remedy.
    pub text: String,
}

impl Refused {
    /// A refusal of this kind.
    pub fn new(code: RefusalCode, text: impl fmt::Display) -> Self {
        Self { code, text: text.to_string() }
    }

    /// A refusal without a kind of its own.
    pub fn other(text: impl fmt::Display) -> Self {
        Self::new(RefusalCode::Other, text)
    }

    /// A refusal for a limit, which the text names.
    pub fn limit(text: impl fmt::Display) -> Self {
        Self::new(RefusalCode::Limit, text)
    }

    /// A refusal of what is no message, or none at this place.
    pub fn protocol(text: impl fmt::Display) -> Self {
        Self::new(RefusalCode::Protocol, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Reply;
    use sidecore_ipc::message::{decode, encode};

    /// Numbers as programs know them. A new one comes behind; none of these changes.
    const FROZEN: [(u16, &str); 4] = [(0, "Other"), (1, "Limit"), (2, "OtherVersion"), (3, "Protocol")];

    #[test]
    fn the_numbers_of_codes_are_frozen() {
        let present = RefusalCode::ALL.map(|code| (code as u16, format!("{code:?}")));
        assert_eq!(present.each_ref().map(|(number, name)| (*number, name.as_str())), FROZEN);
        let mut buffer = [0; 64];
        for code in RefusalCode::ALL {
            let refused = Reply::Refused(Refused::new(code, "why"));
            let sent = encode(&refused, &mut buffer).unwrap();
            assert_eq!(sent, [&[6, code as u8, 3][..], b"why"].concat());
            assert_eq!(decode::<Reply>(sent).unwrap(), refused);
        }
    }

    #[test]
    fn the_documentation_has_the_table_of_codes() {
        let page = include_str!("../../../../docs/errors.md");
        for (number, name) in FROZEN {
            let row = format!("| {number} | {name} |");
            assert!(page.contains(&row), "{row}");
        }
    }

    #[test]
    fn a_code_of_a_later_version_is_another_reason() {
        for number in [&[4][..], &[0x80, 0x01], &[0xff, 0xff, 0x03]] {
            let packet = [&[6][..], number, &[3], b"why"].concat();
            assert_eq!(decode::<Reply>(&packet).unwrap(), Reply::Refused(Refused::other("why")));
        }
    }

    #[test]
    fn what_a_service_from_before_the_codes_refuses_is_heard() {
        assert_eq!(decode::<Reply>(b"\x03\x03why").unwrap(), Reply::NoBank("why".to_owned()));
    }
}
