//! Who counts as one user: a user together with its subordinate users.
//!
//! `/etc/subuid` gives users whole ranges of further numbers, for containers without root. Whoever has such a range can
//! be any user in it, so limits, shares of time, creators' quotas and counts in the log go by [`Tenant`] and not by
//! the number that the kernel names. Rights do not: a key's list names each number for itself.
//!
//! - A range belongs to the user that its line names, and a range of a subordinate user to whom that one belongs.
//! - Ranges of root and of the service's own user are for containers of others, as a rule. They are tenants of their own,
//!   one for each line, and so are ranges of a name that no user has.
//! - Numbers in ranges of several users are a tenant of their own: none of these users can use up another's limits there.
//! - Root and the service's own user are never subordinate.
//! - Any other number stands for itself.
//!
//! The sandbox hides the file, and names are looked up in it: `sidecore serve` reads it before, and `sidecore reload`
//! sends a running service what has changed.

use nix::unistd::User;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The file that the system's tools write.
pub const SUBUID: &str = "/etc/subuid";
/// Longest file that is read, bytes, and most ranges that are kept.
const MAX_FILE: u64 = 4 << 20;
const MAX_RANGES: usize = 16_384;
/// The kernel's number for no user.
const NOBODY: u32 = u32::MAX;
/// Longest way from a subordinate user to its tenant, over users that are subordinate themselves.
const MAX_OWNERS: usize = 8;

/// A user and its subordinate users, or a range of users without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant {
    first: u32,
    last: u32,
}

impl Tenant {
    /// This user, or the first one of its range.
    pub fn uid(self) -> u32 {
        self.first
    }

    fn user(uid: u32) -> Self {
        Self { first: uid, last: uid }
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last } = self;
        if first == last { write!(f, "user {first}") } else { write!(f, "users {first}-{last}") }
    }
}

/// A line of the file: a range of users, and who has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    first: u32,
    last: u32,
    /// [`NOBODY`]: a name without a user.
    owner: u32,
}

/// Users without a common one, in rising order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u32,
    last: u32,
    /// `None`: it is a tenant of its own.
    owner: Option<u32>,
}

/// The file with users' subordinate users cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("subordinates: {}: {error}: name a file in the format of /etc/subuid that the service may read", path.display())]
pub struct SubordinatesError {
    path: PathBuf,
    error: io::Error,
}

/// The subordinate users of all users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subordinates {
    lines: Vec<Line>,
    ranges: Vec<Range>,
    own_uid: u32,
}

impl Subordinates {
    /// Reads a file in the format of `subuid(5)`, and what in it has no effect. A file that does not exist has none.
    ///
    /// # Errors
    /// It cannot be read, or it is too long.
    pub fn read(path: &Path) -> Result<(Self, Vec<String>), SubordinatesError> {
        Self::read_file(path).map_err(|error| SubordinatesError { path: path.to_owned(), error })
    }

    fn read_file(path: &Path) -> io::Result<(Self, Vec<String>)> {
        let mut text = String::new();
        match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
            file => file?.take(MAX_FILE + 1).read_to_string(&mut text)?,
        };
        if text.len() as u64 > MAX_FILE {
            return Err(io::Error::other(format!("it has more than {MAX_FILE} bytes")));
        }
        let mut known = HashMap::new();
        // As `newuidmap` finds users: by name, else by number.
        let find = |name: &str| match User::from_name(name) {
            Ok(Some(user)) => Some(user.uid.as_raw()),
            _ => name.parse().ok(),
        };
        let (found, wrong) = Self::parse(&text, |name| *known.entry(name.to_owned()).or_insert_with(|| find(name)));
        let wrong = wrong.into_iter().map(|(line, why)| format!("{}: line {line}: {why}", path.display()));
        Ok((found, wrong.collect()))
    }

    /// Reads the text of such a file. `find` finds a user by its name. Also returns lines without effect, from 1 on.
    pub fn parse(text: &str, mut find: impl FnMut(&str) -> Option<u32>) -> (Self, Vec<(usize, String)>) {
        let (mut lines, mut wrong) = (Vec::new(), Vec::new());
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match Line::parse(line, &mut find) {
                Some(_) if lines.len() == MAX_RANGES => {
                    wrong.push((number + 1, format!("further ranges than {MAX_RANGES} are left out")));
                    break;
                }
                Some(line) => lines.push(line),
                None => wrong.push((number + 1, "no USER:FIRST:COUNT, it is left out".to_owned())),
            }
        }
        (Self::of_lines(lines), wrong)
    }

    /// The same subordinates for a service of that user.
    #[must_use]
    pub fn of_service(mut self, own_uid: u32) -> Self {
        self.own_uid = own_uid;
        self
    }

    fn of_lines(mut lines: Vec<Line>) -> Self {
        lines.sort_unstable();
        lines.dedup();
        let ranges = disjoint(&lines);
        Self { lines, ranges, own_uid: 0 }
    }

    /// The tenant that a user belongs to.
    pub fn tenant(&self, uid: u32) -> Tenant {
        let mut user = uid;
        for _ in 0..MAX_OWNERS {
            let Some(range) = self.range(user).filter(|_| !self.is_master(user)) else { break };
            let is_owned = |owner: &u32| *owner != NOBODY && !self.is_master(*owner);
            match range.owner.filter(is_owned) {
                Some(owner) if owner == user => break,
                Some(owner) => user = owner,
                None => return Tenant { first: range.first, last: range.last },
            }
        }
        Tenant::user(user)
    }

    fn range(&self, uid: u32) -> Option<&Range> {
        let at = self.ranges.partition_point(|range| range.last < uid);
        self.ranges.get(at).filter(|range| range.first <= uid)
    }

    fn is_master(&self, uid: u32) -> bool {
        uid == 0 || uid == self.own_uid
    }
}

/// `OWNER:FIRST:COUNT`, separated by commas, with numbers only: as `sidecore reload` sends it.
impl fmt::Display for Subordinates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, Line { first, last, owner }) in self.lines.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{owner}:{first}:{}", u64::from(last - first) + 1)?;
        }
        Ok(())
    }
}

/// Reads it back.
impl std::str::FromStr for Subordinates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (found, wrong) = Self::parse(&text.replace(',', "\n"), |name| name.parse().ok());
        let is_number = |line: &str| line.split(':').next().is_some_and(|owner| owner.parse::<u32>().is_ok());
        match wrong.first() {
            Some((place, why)) => Err(format!("range {place}: {why}")),
            None if text.split(',').all(|line| line.is_empty() || is_number(line)) => Ok(found),
            None => Err("users are numbers here: `sidecore reload --config FILE` sends what the file says".to_owned()),
        }
    }
}

impl Line {
    fn parse(line: &str, find: impl FnOnce(&str) -> Option<u32>) -> Option<Self> {
        let mut fields = line.trim().split(':');
        let (owner, first, count) = (fields.next()?, fields.next()?, fields.next()?);
        let (first, count): (u32, u64) = (first.parse().ok()?, count.parse().ok()?);
        if owner.is_empty() || count == 0 || first == NOBODY || fields.next().is_some() {
            return None;
        }
        let last = u64::from(first).saturating_add(count - 1).min(u64::from(NOBODY) - 1) as u32;
        Some(Self { first, last, owner: find(owner).unwrap_or(NOBODY) })
    }
}

/// The ranges of these lines, cut where one of several users begins or ends. What several users have is nobody's.
fn disjoint(lines: &[Line]) -> Vec<Range> {
    let mut bounds: BTreeMap<u64, Vec<(u32, bool)>> = BTreeMap::new();
    for Line { first, last, owner } in lines {
        bounds.entry(u64::from(*first)).or_default().push((*owner, true));
        bounds.entry(u64::from(*last) + 1).or_default().push((*owner, false));
    }
    let mut ranges: Vec<Range> = Vec::new();
    let mut owners: BTreeMap<u32, usize> = BTreeMap::new();
    let mut from = 0;
    for (bound, changes) in bounds {
        if let Some((owner, _)) = owners.first_key_value() {
            let owner = (owners.len() == 1).then_some(*owner);
            let (first, last) = (from as u32, (bound - 1) as u32);
            match ranges.last_mut().filter(|range| range.last.checked_add(1) == Some(first)) {
                // However they are cut, they are one tenant.
                Some(before) if before.owner.is_none() && owner.is_none() => before.last = last,
                _ => ranges.push(Range { first, last, owner }),
            }
        }
        for (owner, begins) in changes {
            let count = owners.entry(owner).or_insert(0);
            if begins {
                *count += 1;
            } else {
                *count -= 1;
            }
            if *count == 0 {
                owners.remove(&owner);
            }
        }
        from = bound;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: u32 = 990;

    fn subordinates(text: &str) -> Subordinates {
        let find = |name: &str| match name {
            "root" => Some(0),
            "sidecore" => Some(SERVICE),
            "alice" => Some(1000),
            "bob" => Some(1001),
            name => name.parse().ok(),
        };
        Subordinates::parse(text, find).0.of_service(SERVICE)
    }

    fn tenants<const N: usize>(text: &str, uids: [u32; N]) -> [String; N] {
        let subordinates = subordinates(text);
        uids.map(|uid| subordinates.tenant(uid).to_string())
    }

    #[test]
    fn a_range_belongs_to_its_user_and_a_number_without_one_to_itself() {
        let file = "alice:100000:65536\nbob:165536:65536\n1001:300000:1\n";
        let found = tenants(file, [1000, 100_000, 165_535, 165_536, 231_071, 231_072, 300_000, 5]);
        let [alice, bob] = ["user 1000", "user 1001"];
        assert_eq!(found, [alice, alice, alice, bob, bob, "user 231072", bob, "user 5"]);
        assert_eq!(tenants("", [0, 1000, NOBODY]), ["user 0", "user 1000", "user 4294967295"]);
    }

    #[test]
    fn ranges_of_root_and_of_nobody_are_tenants_of_their_own_and_never_root() {
        let file = "root:100000:65536\nroot:1000000:10\ncontainers:2147483647:2147483648\nsidecore:500000:5\n";
        let found = tenants(file, [0, 100_000, 165_535, 1_000_009, 2_147_483_647, NOBODY - 1, 500_004, SERVICE]);
        let containers = "users 2147483647-4294967294";
        let [docker, other] = ["users 100000-165535", "users 1000000-1000009"];
        assert_eq!(found, ["user 0", docker, docker, other, containers, containers, "users 500000-500004", "user 990"]);
    }

    #[test]
    fn a_line_that_claims_everybody_claims_neither_root_nor_the_service() {
        let found = tenants("alice:0:4294967295\n", [0, SERVICE, 1000, 1001, 7]);
        assert_eq!(found, ["user 0", "user 990", "user 1000", "user 1000", "user 1000"]);
    }

    #[test]
    fn what_several_users_claim_is_no_part_of_the_limits_of_any() {
        let file = "alice:100000:1000\nbob:100500:1000\nbob:100600:10\nalice:100500:2\n";
        let found = tenants(file, [100_499, 100_500, 100_605, 100_999, 101_000, 101_499]);
        let both = "users 100500-100999";
        assert_eq!(found, ["user 1000", both, both, both, "user 1001", "user 1001"]);
    }

    #[test]
    fn a_subordinate_users_range_is_its_tenants_and_circles_end() {
        let found = tenants("alice:100000:65536\n100001:200000:5\n200001:300000:5\n", [200_000, 300_004, 300_005]);
        assert_eq!(found, ["user 1000", "user 1000", "user 300005"]);
        let circle = "alice:1001:1\nbob:1000:1\n";
        assert_eq!(tenants(circle, [1000, 1001]), tenants(circle, [1000, 1001]));
        assert_eq!(tenants("alice:1000:10\n", [1000, 1009]), ["user 1000", "user 1000"]);
    }

    #[test]
    fn wrong_lines_are_named_and_cost_no_other_line() {
        let text = "alice:100000:65536\nalice\n\n:1:1\nalice:x:1\nbob:5:0\nbob:4294967295:1\nbob:7:1:2\nbob:165536:99999999999\n";
        let (found, wrong) = Subordinates::parse(text, |name| (name == "alice").then_some(1000));
        assert_eq!(wrong.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 4, 5, 6, 7, 8]);
        assert_eq!(found.tenant(100_001).to_string(), "user 1000");
        assert_eq!(found.tenant(4_000_000_000).to_string(), "users 165536-4294967294");
        let many: Vec<String> = (0..MAX_RANGES + 5).map(|at| format!("alice:{}:1", 10 * at + 7)).collect();
        assert_eq!(subordinates(&many.join("\n")).lines.len(), MAX_RANGES);
    }

    #[test]
    fn what_is_sent_to_a_service_is_read_back() {
        for text in ["", "alice:100000:65536\nbob:5:1\ncontainers:2147483647:2147483648\n"] {
            let found = subordinates(text);
            let back: Subordinates = found.to_string().parse().unwrap();
            assert_eq!(back.of_service(SERVICE), found, "{found}");
        }
        for (text, why) in [("1000:1", "range 1"), ("alice:5:5", "numbers"), ("1:5:5,x", "range 2")] {
            assert!(text.parse::<Subordinates>().unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_makes_no_subordinates() {
        let (found, wrong) = Subordinates::read(Path::new("/no/such/file")).unwrap();
        assert_eq!((found, wrong), Default::default());
        assert!(Subordinates::read(Path::new("/")).is_err());
    }
}
