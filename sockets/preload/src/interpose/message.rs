//! A program's message, in the program's memory.

use libc::{c_int, c_void, iovec, sockaddr, sockaddr_in, sockaddr_in6};
use sidecore_ipc::shm::span::Span;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ptr::NonNull;

/// Limit of pieces, from the kernel.
const MAX_PIECES: usize = 1024;

/// A message in pieces, with at least one byte.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    pieces: &'a [iovec],
    len: usize,
    to: Option<&'a SocketAddr>,
}

impl<'a> Message<'a> {
    /// `None`: it is empty, or the kernel has to report its error.
    ///
    /// # Safety
    /// The pieces and their bytes stay valid for `'a`, except that an address may be null.
    #[inline]
    pub(super) unsafe fn new(pieces: *const iovec, count: usize) -> Option<Self> {
        if pieces.is_null() || count > MAX_PIECES {
            return None;
        }
        // SAFETY: as the caller promised.
        let pieces = unsafe { std::slice::from_raw_parts(pieces, count) };
        let mut len = 0_usize;
        for piece in pieces {
            if piece.iov_base.is_null() && piece.iov_len > 0 {
                return None;
            }
            len = len.checked_add(piece.iov_len).filter(|len| isize::try_from(*len).is_ok())?;
        }
        (len > 0).then_some(Self { pieces, len, to: None })
    }

    /// As `new`, for one piece.
    ///
    /// # Safety
    /// As for [`Message::new`].
    #[inline]
    pub(super) unsafe fn of(piece: &'a iovec) -> Option<Self> {
        let is_right = !piece.iov_base.is_null() && piece.iov_len > 0 && isize::try_from(piece.iov_len).is_ok();
        is_right.then_some(Self { pieces: std::slice::from_ref(piece), len: piece.iov_len, to: None })
    }

    pub(super) fn sent_to(self, to: &'a SocketAddr) -> Self {
        Self { to: Some(to), ..self }
    }

    #[inline]
    pub(crate) fn to(&self) -> Option<&'a SocketAddr> {
        self.to
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn only(&self) -> Option<Span<'a>> {
        let [piece] = self.pieces else { return None };
        // SAFETY: the caller of `new` promised that the bytes stay valid.
        unsafe { span(piece.iov_base, piece.iov_len) }
    }

    #[inline]
    pub(crate) fn spans(&self, mut skip: usize) -> impl Iterator<Item = Span<'a>> {
        self.pieces.iter().filter_map(move |piece| {
            let skipped = skip.min(piece.iov_len);
            skip -= skipped;
            let start = NonNull::new(piece.iov_base.cast::<u8>())?;
            // SAFETY: inside of the piece.
            let start = unsafe { start.add(skipped) };
            // SAFETY: the caller of `new` promised that the bytes stay valid; this library does not write to them.
            Some(unsafe { Span::new(start, piece.iov_len - skipped) })
        })
    }
}

/// Reads an address of the program. `None`: the kernel has to report its error, or it has a flow or a scope.
///
/// # Safety
/// `address` is null, or points to `len` bytes.
pub(super) unsafe fn address(address: *const sockaddr, len: usize) -> Option<SocketAddr> {
    if address.is_null() || len < size_of::<sockaddr_in>() {
        return None;
    }
    // SAFETY: as the caller promised, with enough bytes for each type; any bytes are valid for them.
    unsafe {
        match c_int::from((&raw const (*address).sa_family).read_unaligned()) {
            libc::AF_INET => {
                let four = address.cast::<sockaddr_in>().read_unaligned();
                let ip = Ipv4Addr::from(four.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddr::new(ip.into(), u16::from_be(four.sin_port)))
            }
            libc::AF_INET6 if len >= size_of::<sockaddr_in6>() => {
                let six = address.cast::<sockaddr_in6>().read_unaligned();
                let is_plain = six.sin6_flowinfo == 0 && six.sin6_scope_id == 0;
                let ip = Ipv6Addr::from(six.sin6_addr.s6_addr);
                is_plain.then(|| SocketAddr::new(ip.into(), u16::from_be(six.sin6_port)))
            }
            _ => None,
        }
    }
}

#[inline]
pub(super) fn piece(buffer: *const c_void, len: usize) -> iovec {
    iovec { iov_base: buffer.cast_mut(), iov_len: len }
}

/// The buffer as a span. `None`: it is empty, or the kernel has to report its error.
///
/// # Safety
/// The bytes stay valid for `'a`, unless the address is null.
#[inline]
pub(super) unsafe fn span<'a>(buffer: *const c_void, len: usize) -> Option<Span<'a>> {
    let start = NonNull::new(buffer.cast_mut().cast::<u8>()).filter(|_| len > 0 && isize::try_from(len).is_ok())?;
    // SAFETY: by the caller's promise; this library does not write to them.
    Some(unsafe { Span::new(start, len) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message<'a>(pieces: &[&'a [u8]], keep: &'a mut Vec<iovec>) -> Option<Message<'a>> {
        keep.extend(pieces.iter().map(|bytes| piece(bytes.as_ptr().cast(), bytes.len())));
        // SAFETY: pieces and bytes are borrowed for as long.
        unsafe { Message::new(keep.as_ptr(), keep.len()) }
    }

    #[test]
    fn what_was_sent_is_left_out() {
        let mut keep = Vec::new();
        let message = message(&[b"abc", b"", b"defg"], &mut keep).unwrap();
        let lens = |skip| message.spans(skip).map(|span| span.len()).filter(|len| *len > 0).collect::<Vec<_>>();
        assert_eq!(message.len(), 7);
        assert!(message.only().is_none());
        assert_eq!((lens(0), lens(2), lens(3), lens(6)), (vec![3, 4], vec![1, 4], vec![4], vec![1]));
    }

    #[test]
    fn addresses_are_those_that_the_program_names() {
        let four = sockaddr_in {
            sin_family: libc::AF_INET as _,
            sin_port: 514_u16.to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 9]) },
            sin_zero: [1; 8],
        };
        let mut six = sockaddr_in6 {
            sin6_family: libc::AF_INET6 as _,
            sin6_port: 514_u16.to_be(),
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: Ipv6Addr::LOCALHOST.octets() },
            sin6_scope_id: 0,
        };
        // SAFETY: each address has at least the passed number of bytes.
        unsafe {
            let (from, len) = ((&raw const four).cast(), size_of::<sockaddr_in>());
            assert_eq!(address(from, len), Some("127.0.0.9:514".parse().unwrap()));
            assert_eq!((address(from, len - 1), address(std::ptr::null(), len)), (None, None));
            let len = size_of::<sockaddr_in6>();
            assert_eq!(address((&raw const six).cast(), len), Some("[::1]:514".parse().unwrap()));
            assert_eq!(address((&raw const six).cast(), len - 1), None);
            six.sin6_scope_id = 3;
            assert_eq!(address((&raw const six).cast(), len), None, "the service is not told of scopes");
        }
    }

    #[test]
    fn what_the_kernel_refuses_is_left_to_it() {
        assert!(message(&[b"", b""], &mut Vec::new()).is_none());
        let wrong = [piece(std::ptr::null(), 1), piece([0_u8].as_ptr().cast(), usize::MAX)];
        for piece in wrong {
            // SAFETY: no memory at the addresses is read.
            assert!(unsafe { Message::new(&raw const piece, 1) }.is_none());
        }
        // SAFETY: as above.
        assert!(unsafe { Message::new(std::ptr::null(), 1) }.is_none());
    }
}
