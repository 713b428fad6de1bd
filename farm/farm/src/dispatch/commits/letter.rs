//! Results and dead letters in the form of their streams. A letter has the whole event if it fits; otherwise it is
//! marked as cut.

use crate::streams::names;
use async_nats::{HeaderMap, HeaderValue};
use bytes::Bytes;
use sidecore_nats::size_of;

pub(super) fn letter(mut headers: HeaderMap, body: &Bytes, whole: usize, most: usize) -> (HeaderMap, Bytes) {
    if body.len() == whole && size_of(&headers) + whole <= most {
        return (headers, body.clone());
    }
    headers.insert(names::WHOLE, HeaderValue::from(whole as u64));
    let kept = body.len().min(most.saturating_sub(size_of(&headers)));
    (headers, body.slice(..kept))
}

/// Id and digest of the event let servers recognise its second result after a taker removed the first one.
pub(super) fn of_result(id: &str, digest: &str, kind: &str) -> HeaderMap {
    let mut headers = of_kind(kind);
    headers.insert(names::ID, name_of_result(id, digest));
    headers
}

pub(super) fn name_of_result(id: &str, digest: &str) -> HeaderValue {
    format!("{id}.{digest}").parse().unwrap_or_default()
}

pub(super) fn size_of_result(id: &str, digest: &str, kind: &str, result: usize) -> usize {
    size_of(&of_result(id, digest, kind)) + result
}

/// The digest of the event of a stored result or letter. `None`: an earlier version stored it.
pub(super) fn event_of(headers: &HeaderMap) -> Option<&str> {
    let of_result = || headers.get(names::ID)?.as_str().split_once('.').map(|(_, digest)| digest);
    headers.get(names::EVENT).map(HeaderValue::as_str).or_else(of_result)
}

fn of_kind(kind: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(names::KIND, kind.parse::<HeaderValue>().unwrap_or_default());
    headers
}

pub(super) fn of_letter(reason: &str, tries: u8, kind: &str, digest: &str) -> HeaderMap {
    let plain: String = reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let mut headers = of_kind(kind);
    headers.insert(names::REASON, plain.parse::<HeaderValue>().unwrap_or_default());
    headers.insert(names::TRIES, HeaderValue::from(u64::from(tries)));
    headers.insert(names::EVENT, digest.parse::<HeaderValue>().unwrap_or_default());
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(octets: usize, whole: usize, most: usize) -> (Option<String>, usize, usize) {
        let (headers, body) =
            letter(of_letter("exit code 1", 3, "k", "d"), &Bytes::from(vec![b'x'; octets]), whole, most);
        let mark = headers.get(names::WHOLE).map(|mark| mark.as_str().to_owned());
        (mark, body.len(), size_of(&headers))
    }

    #[test]
    fn an_event_is_kept_whole_up_to_the_last_octet_that_fits() {
        let (_, _, head) = made(0, 0, 1_000);
        // As the server counts: "NATS/1.0", four headers, an empty line.
        let expected =
            "NATS/1.0\r\nFarm-Reason: exit code 1\r\nFarm-Tries: 3\r\nFarm-Kind: k\r\nFarm-Event: d\r\n\r\n".len();
        assert_eq!(head, expected);
        assert_eq!(made(1_000 - head, 1_000 - head, 1_000), (None, 1_000 - head, head));
    }

    #[test]
    fn one_that_does_not_fit_says_how_large_it_was_and_fits_with_that() {
        for (octets, whole, most) in [(901, 901, 950), (5_000, 5_000, 1_000), (0, 77, 1_000), (10, 10, 20)] {
            let (mark, kept, head) = made(octets, whole, most);
            assert_eq!(mark, Some(whole.to_string()));
            assert_eq!(kept, octets.min(most.saturating_sub(head)), "{octets} of {whole} in {most}");
        }
    }
}
