//! Descriptions of blocks: stored after the generation, in postcard's encoding.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use sidecore_core::dispatch::DeviceState;
use sidecore_core::policy::notify::ThreadCore;
use sidecore_core::session::Class;
use sidecore_core::text::shown;

/// Of a sidecore.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SidecoreAbout {
    /// Its core.
    #[serde(with = "StoredPlace")]
    pub place: ThreadCore,
}

/// Of a device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DeviceAbout {
    /// Name, in printable characters.
    #[serde(deserialize_with = "printable")]
    pub name: String,
    /// Kind, in printable characters.
    #[serde(deserialize_with = "printable")]
    pub kind: String,
    /// The sidecore that it serves.
    pub sidecore: u32,
    /// Its core, if it is a worker.
    #[serde(with = "worker_place")]
    pub worker: Option<ThreadCore>,
}

impl DeviceAbout {
    /// The place of a worker that waits, given the device's state: a gone one does not wait.
    pub(super) fn waits(&self, state: u64) -> Option<ThreadCore> {
        self.worker.filter(|_| state != DeviceState::Gone as u64)
    }
}

/// Of an open lane.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LaneAbout {
    /// Process of the client.
    pub pid: u32,
    /// User of the client.
    pub uid: u32,
    /// The sidecore that it belongs to.
    pub sidecore: u32,
    /// Name of the client, in printable characters.
    #[serde(deserialize_with = "printable")]
    pub name: String,
}

/// Of a stored key.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct KeyAbout {
    /// Its name, in printable characters.
    #[serde(deserialize_with = "printable")]
    pub name: String,
}

/// Of a class of requests, which has no block of its own.
#[derive(Clone, Debug)]
pub struct ClassAbout {
    /// The class.
    pub class: Class,
}

/// A place as it stands in the file.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ThreadCore")]
struct StoredPlace {
    cpu: Option<usize>,
    may_spin: bool,
}

/// The same, of a device that may have none.
mod worker_place {
    use super::StoredPlace;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use sidecore_core::policy::notify::ThreadCore;

    #[derive(Serialize, Deserialize)]
    struct Stored(#[serde(with = "StoredPlace")] ThreadCore);

    #[expect(clippy::ref_option, reason = "serde calls it with a reference to the field")]
    pub(super) fn serialize<S: Serializer>(place: &Option<ThreadCore>, serializer: S) -> Result<S::Ok, S::Error> {
        place.map(Stored).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ThreadCore>, D::Error> {
        Ok(Option::<Stored>::deserialize(deserializer)?.map(|Stored(place)| place))
    }
}

pub(super) fn pack(about: &impl Serialize, words: usize) -> Vec<u64> {
    let mut bytes = vec![0; words * size_of::<u64>()];
    postcard::to_slice(about, &mut bytes).expect("texts are cut so that it fits");
    bytes.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect()
}

pub(super) fn unpack<A: DeserializeOwned>(words: &[u64]) -> Option<A> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    postcard::from_bytes(&bytes).ok()
}

pub(super) fn cut(text: &str, most: usize) -> String {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    text[..ends.take_while(|end| *end <= most).last().unwrap_or(0)].to_owned()
}

/// Clients choose names, which are shown on terminals: only printable characters pass.
fn printable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok(text.chars().map(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(name: &str) -> String {
        unpack::<KeyAbout>(&pack(&KeyAbout { name: name.to_owned() }, 6)).unwrap().name
    }

    #[test]
    fn texts_come_back() {
        for text in ["", "nginx", "exactly8", "größe: a name of all 32 bytes."] {
            assert_eq!(again(text), text);
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("1234567é", 8), "1234567");
        assert_eq!(cut("123456é9", 8), "123456é");
        assert_eq!(cut("€€€", 8), "€€");
    }

    #[test]
    fn a_place_is_stored_as_its_core_and_whether_it_may_spin() {
        let sidecore = SidecoreAbout { place: ThreadCore::new(Some(3), true) };
        assert_eq!(pack(&sidecore, 1), [u64::from_ne_bytes([1, 3, 1, 0, 0, 0, 0, 0])]);
        let worker = Some(ThreadCore::new(None, false));
        let device = DeviceAbout { name: "a".to_owned(), kind: "b".to_owned(), sidecore: 2, worker };
        assert_eq!(pack(&device, 1), [u64::from_ne_bytes([1, b'a', 1, b'b', 2, 1, 0, 0])]);
        assert_eq!(unpack::<DeviceAbout>(&pack(&device, 1)).unwrap().worker, worker);
    }

    #[test]
    fn what_would_move_the_cursor_is_replaced() {
        assert_eq!(again("a\x1b[2Jb\n\u{9b}"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}");
        assert!(unpack::<KeyAbout>(&[u64::MAX]).is_none());
    }
}
