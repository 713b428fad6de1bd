//! The order of the requests on a device: as they come.

use crate::policy::ParseError;
use core::fmt::{self, Display, Formatter};

/// Rule for the order of a device's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As they come.
    Fifo,
}

const ACCEPTED: &str = "fifo";

impl Order {
    /// Reads `fifo`.
    ///
    /// # Errors
    ///
    /// For any other text. `shortest`, which was removed, gets the name of its successor.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        match text.trim() {
            "fifo" => Ok(Self::Fifo),
            "shortest" => Err(ParseError::removed("shortest", "fifo", ACCEPTED)),
            name => Err(ParseError::unknown(name, &["fifo"], ACCEPTED)),
        }
    }

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
        }
    }
}

impl Display for Order {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_order_is_read_and_a_removed_one_names_its_successor() {
        assert_eq!((Order::parse(" fifo "), Order::Fifo.to_string().as_str()), (Ok(Order::Fifo), "fifo"));
        let error = |text| Order::parse(text).unwrap_err().to_string();
        assert_eq!(error("shortest"), "`shortest` was removed: write \"fifo\"; accepted: fifo");
        assert_eq!(error("lifo"), "no such policy, did you mean `fifo`?; accepted: fifo");
    }
}
