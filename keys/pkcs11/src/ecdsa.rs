//! Signatures of ECDSA: two numbers of the curve's length in PKCS#11, a sequence in DER in the service.

use der::asn1::{AnyRef, UintRef};
use der::{Decode, Encode, Reader, SliceReader, Tag, Tagged};

/// Two numbers of `size` bytes. `None`: it is no such signature.
pub(crate) fn fixed(der: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut reader =
        SliceReader::new(AnyRef::from_der(der).ok().filter(|any| any.tag() == Tag::Sequence)?.value()).ok()?;
    let mut numbers = Vec::with_capacity(2 * size);
    for _ in 0..2 {
        let number = UintRef::decode(&mut reader).ok()?;
        let bytes = number.as_bytes();
        numbers.resize(numbers.len() + size.checked_sub(bytes.len())?, 0);
        numbers.extend(bytes);
    }
    reader.is_finished().then_some(numbers)
}

/// The sequence of the two halves. `None`: they have no bytes.
pub(crate) fn der(fixed: &[u8]) -> Option<Vec<u8>> {
    let (r, s) = fixed.split_at(fixed.len() / 2);
    let number = |bytes| UintRef::new(bytes).ok()?.to_der().ok();
    let numbers = [number(r)?, number(s)?].concat();
    AnyRef::new(Tag::Sequence, &numbers).ok()?.to_der().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_the_same_numbers_in_both_forms() {
        for (fixed_form, der_form) in [
            (vec![0, 1, 0x80, 0], vec![0x30, 8, 2, 1, 1, 2, 3, 0, 0x80, 0]),
            (vec![0xff; 4], vec![0x30, 10, 2, 3, 0, 0xff, 0xff, 2, 3, 0, 0xff, 0xff]),
        ] {
            assert_eq!(der(&fixed_form).unwrap(), der_form);
            assert_eq!(fixed(&der_form, 2).unwrap(), fixed_form);
            assert_eq!(fixed(&der_form, 1), None, "too long for the curve");
            assert!((0..der_form.len()).all(|len| fixed(&der_form[..len], 2).is_none()));
            assert_eq!(fixed(&[&der_form[..], &[0]].concat(), 2), None);
        }
    }
}
