//! Messages as packets: one each, encoded with `postcard`.
//!
//! Decoding is total: any packet is a message or an error.

use crate::sys::packet::{self, MAX_PACKET};
use serde::{Serialize, de::DeserializeOwned};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use zeroize::Zeroizing;

/// The number of the first message of a program, in all versions.
pub const FIRST: u8 = 0;

/// Encodes a message and sends it.
///
/// # Errors
/// Errors of the socket, or a message above [`MAX_PACKET`] bytes.
pub fn send(socket: impl AsFd, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut buffer = room();
    let packet = encode(message, &mut buffer).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    packet::send(socket, packet, fds)
}

/// Receives a message and the descriptors that came with it. `UnexpectedEof`: the peer is gone.
///
/// # Errors
/// Errors of the socket, or `InvalidData`.
pub fn receive<M: DeserializeOwned>(socket: impl AsFd) -> io::Result<(M, Vec<OwnedFd>)> {
    let mut buffer = room();
    let (len, fds) = packet::receive(socket, &mut buffer)?;
    Ok((read(&buffer[..len])?, fds))
}

/// A buffer for one packet, wiped after use. Not on the stack: a caller's coroutine can have a stack as small as two
/// packets.
pub fn room() -> Zeroizing<Vec<u8>> {
    Zeroizing::new(vec![0; MAX_PACKET])
}

/// Decodes a packet as received.
///
/// # Errors
/// `UnexpectedEof`: the packet is empty, so the peer is gone. `InvalidData`: it is no message of this type.
pub fn read<M: DeserializeOwned>(packet: &[u8]) -> io::Result<M> {
    if packet.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    decode(packet).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Encodes a message into `buffer`. Returns the used part.
///
/// # Errors
/// The buffer is too small.
pub fn encode<'b>(message: &impl Serialize, buffer: &'b mut [u8]) -> Result<&'b [u8], postcard::Error> {
    postcard::to_slice(message, buffer).map(|used| &*used)
}

/// The layout that a program states in its first message to any service. In all versions such a packet begins with the
/// message's number, which is 0, and the layout. The rest depends on the layout.
pub fn stated_layout(packet: &[u8]) -> Option<u32> {
    postcard::take_from_bytes(packet.strip_prefix(&[FIRST])?).ok().map(|(layout, _)| layout)
}

/// Decodes a message that fills the packet.
///
/// # Errors
/// The bytes are no message of this type.
pub fn decode<M: DeserializeOwned>(packet: &[u8]) -> Result<M, postcard::Error> {
    match postcard::take_from_bytes(packet)? {
        (message, []) => Ok(message),
        _ => Err(postcard::Error::SerdeDeCustom),
    }
}
