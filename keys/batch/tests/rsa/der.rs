//! Extraction of a private key's numbers from its encoding.

/// The integers of a private key in DER, one after another, without leading zeros.
pub(crate) fn integers(mut der: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let [tag, first, rest @ ..] = der {
        let long = if *first < 0x80 { 0 } else { usize::from(*first & 0x7f) };
        let len = rest[..long].iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
        let len = if long == 0 { usize::from(*first) } else { len };
        let (content, after) = rest[long..].split_at(len);
        match *tag {
            0x02 => found.push(content.iter().skip_while(|byte| **byte == 0).copied().collect()),
            0x30 | 0x04 => found.extend(integers(content)),
            _ => {}
        }
        der = after;
    }
    found
}

pub(crate) fn padded(number: &[u8], len: usize) -> Vec<u8> {
    [vec![0; len - number.len()], number.to_vec()].concat()
}
