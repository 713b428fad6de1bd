//! Names of users.

use nix::unistd::{Uid, User};
use std::cell::RefCell;
use std::collections::HashMap;

/// Most names in the cache; it is emptied when full.
const LIMIT: usize = 4096;

/// Names of users by number. Each is looked up once, because the system may ask a directory service.
#[derive(Debug, Default)]
pub struct Users(RefCell<HashMap<u32, String>>);

impl Users {
    /// The name of the user with this number. Who has none is named by the number.
    pub fn name(&self, uid: u32) -> String {
        let mut known = self.0.borrow_mut();
        if known.len() >= LIMIT {
            known.clear();
        }
        known.entry(uid).or_insert_with(|| look_up(uid)).clone()
    }
}

fn look_up(uid: u32) -> String {
    let printable = |name: &String| !name.is_empty() && !name.chars().any(char::is_control);
    let found = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    found.map(|user| user.name).filter(printable).unwrap_or_else(|| uid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_or_numbers() {
        let users = Users::default();
        assert_eq!((users.name(0), users.name(0)), ("root".to_owned(), "root".to_owned()));
        assert_eq!(users.name(4_294_900_000), "4294900000");
    }
}
