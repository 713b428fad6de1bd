//! The list of libraries to preload.

pub(crate) const VARIABLE: &[u8] = b"LD_PRELOAD=";

fn separates(byte: u8) -> bool {
    matches!(byte, b':' | b' ')
}

/// Whether an entry is the library with this file name. Its directory may be written in several ways.
fn is(entry: &[u8], file_name: &[u8]) -> bool {
    entry.rsplit(|byte| *byte == b'/').next() == Some(file_name)
}

pub(crate) fn has(list: &[u8], file_name: &[u8]) -> bool {
    list.split(|byte| separates(*byte)).any(|entry| is(entry, file_name))
}

pub(crate) fn without(list: &[u8], file_name: &[u8], mut put: impl FnMut(&[u8])) {
    let (mut at, mut is_empty) = (0, true);
    for entry in list.split(|byte| separates(*byte)) {
        let end = at + entry.len();
        if !is(entry, file_name) {
            // Includes the separator before it.
            let piece = &list[if is_empty { at } else { at - 1 }..end];
            put(piece);
            is_empty &= piece.is_empty();
        }
        at = end + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_library_is_taken_out_and_the_others_stay_as_they_are() {
        for (list, rest) in [
            ("/lib/ours.so", ""),
            ("ours.so", ""),
            (":/lib/ours.so", ""),
            ("/lib/ours.so:", ""),
            ("/a.so:/lib/ours.so", "/a.so"),
            ("/lib/ours.so /a.so", "/a.so"),
            ("/a.so /b.so:/$LIB/ours.so c.so", "/a.so /b.so c.so"),
            ("./ours.so:/a.so:/lib/ours.so:/b.so", "/a.so:/b.so"),
        ] {
            let mut left = Vec::new();
            without(list.as_bytes(), b"ours.so", |piece| left.extend_from_slice(piece));
            assert_eq!(String::from_utf8(left).unwrap(), rest, "{list}");
            assert!(has(list.as_bytes(), b"ours.so") && !has(rest.as_bytes(), b"ours.so"));
        }
        for list in ["", "/a.so", "/ours.so/a.so", "/lib/not-ours.so", "/lib/ours.so.1"] {
            assert!(!has(list.as_bytes(), b"ours.so"), "{list}");
        }
    }
}
