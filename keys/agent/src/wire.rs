//! SSH's types (RFC 4251, section 5) in memory.
//!
//! By hand: two functions each way, and the known crate limits lengths by itself, not by the message.

/// The message has another form than its type says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not of the form that its type says")]
pub(crate) struct Malformed;

/// The rest of a message. Lengths in it are compared with its end before use.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        self.take(1).map(|taken| taken[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        let bytes = self.take(4)?.try_into().map_err(|_| Malformed)?;
        Ok(u32::from_be_bytes(bytes))
    }

    pub(crate) fn string(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        str::from_utf8(self.string()?).map_err(|_| Malformed)
    }

    /// An error unless all was read.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// A message in the making.
#[derive(Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// A message of this type.
    pub(crate) fn message(kind: u8) -> Self {
        Self(vec![kind])
    }

    pub(crate) fn u32(mut self, number: u32) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    /// Shorter than 4 GiB, as all that comes from a frame or a service.
    pub(crate) fn string(mut self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        self = self.u32(bytes.len() as u32);
        self.0.extend(bytes);
        self
    }

    /// A number without sign, most significant byte first.
    pub(crate) fn mpint(mut self, number: &[u8]) -> Self {
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        let number = &number[zeros..];
        // A first bit of one would mean a negative number.
        let sign = usize::from(number.first().is_some_and(|byte| *byte >= 0x80));
        self = self.u32((sign + number.len()) as u32);
        self.0.extend(&[0][..sign]);
        self.0.extend(number);
        self
    }

    /// Without a length before them.
    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_written_as_the_rfc_writes_them() {
        let written = |number: &[u8]| Writer::default().mpint(number).finish();
        assert_eq!(written(&[]), [0, 0, 0, 0]);
        assert_eq!(written(&[0, 0]), [0, 0, 0, 0]);
        assert_eq!(written(&[0x80]), [0, 0, 0, 2, 0, 0x80]);
        assert_eq!(written(&[0, 0x7f, 1]), [0, 0, 0, 2, 0x7f, 1]);
        assert_eq!(written(&[0x09, 0xa3, 0x78, 0xf9]), [0, 0, 0, 4, 0x09, 0xa3, 0x78, 0xf9]);
    }

    #[test]
    fn a_length_beyond_the_end_is_an_error() {
        for len in [5_u32, 256 * 1024, u32::MAX] {
            let message = Writer::default().u32(len).raw(b"four").finish();
            assert_eq!(Reader::new(&message).string(), Err(Malformed));
        }
        assert_eq!(Reader::new(&[0, 0, 0]).u32(), Err(Malformed));
        assert_eq!(Reader::new(&[]).byte(), Err(Malformed));
        assert_eq!(Reader::new(&[1]).end(), Err(Malformed));
        assert_eq!(Reader::new(&[0, 0, 0, 1, 0xff]).text(), Err(Malformed));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(parts in vec(vec(any::<u8>(), 0..64), 0..8), number in any::<u32>()) {
            let written = parts.iter().fold(Writer::message(7), Writer::string).u32(number);
            let length = written.len();
            let written = written.finish();
            prop_assert_eq!(length, written.len());
            let mut reader = Reader::new(&written);
            prop_assert_eq!(reader.byte(), Ok(7));
            for part in &parts {
                prop_assert_eq!(reader.string(), Ok(&part[..]));
            }
            prop_assert_eq!(reader.u32(), Ok(number));
            prop_assert_eq!(reader.end(), Ok(()));
        }

        #[test]
        fn any_bytes_are_strings_or_an_error(bytes in vec(any::<u8>(), 0..512)) {
            let mut reader = Reader::new(&bytes);
            let mut taken = 0;
            while let Ok(string) = reader.string() {
                taken += 4 + string.len();
            }
            prop_assert!(taken <= bytes.len());
        }
    }
}
