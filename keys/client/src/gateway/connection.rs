//! The gateway's end of the connection.

use super::{Ask, Hello, Tell, VERSION, Welcome, decode_ask};
use crate::client::{self, Error, Options, after, connect_trusted, question};
use crate::control::{Reply, Request, encode};
use sidecore_ipc::sys::packet::{self, MAX_PACKET};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Reason for having no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No service answers.
    #[error(transparent)]
    Service(#[from] client::ConnectError),
    /// The service does not accept this process as gateway for this device: error and remedy.
    #[error(transparent)]
    Refused(Error),
}

/// A connection that serves a remote device. It never blocks: wait for its descriptor.
#[derive(Debug)]
pub struct Gateway {
    socket: OwnedFd,
}

impl Gateway {
    /// Connects to the service at the options' socket and names the device.
    ///
    /// # Errors
    /// No service, no trusted service, or a refusal with its reason.
    pub fn connect(options: &Options, device: &str) -> Result<(Self, Welcome), ConnectError> {
        let deadline = after(options.timeout);
        let socket = connect_trusted(options, deadline)?;
        let hello = Hello { version: VERSION, device: device.to_owned() };
        match question(&socket, &Request::Gateway(hello), deadline) {
            Ok(Reply::Gateway(welcome)) => {
                Ok((Self { socket: socket.into_owned().map_err(client::ConnectError::from)? }, welcome))
            }
            Ok(other) => Err(ConnectError::Refused(Error::unexpected(other))),
            Err(error) => Err(ConnectError::Refused(error)),
        }
    }

    /// Sends a message to the service.
    ///
    /// # Errors
    /// `WouldBlock`: the service has not read earlier messages; any other error: it is gone.
    pub fn tell(&self, message: &Tell<'_>) -> io::Result<()> {
        let mut buffer = [0; MAX_PACKET];
        let packet =
            encode(message, &mut buffer).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        packet::send(&self.socket, packet, &[])
    }

    /// Receives the service's next message, borrowed from the buffer, which holds [`MAX_PACKET`] bytes.
    ///
    /// # Errors
    /// `WouldBlock`: no message is ready; `UnexpectedEof`: the service is gone or has ended the connection;
    /// `InvalidData`: it is no message of this protocol.
    pub fn hear<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Ask<'b>> {
        let (len, _) = packet::receive(&self.socket, buffer)?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        decode_ask(&buffer[..len]).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

impl AsFd for Gateway {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for Gateway {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
