//! TAP interfaces with reception through NAPI: no crate makes these.

use super::settings::Settings;
use libc::{IFF_NAPI, IFF_NO_PI, IFF_TAP, IFF_VNET_HDR, IFNAMSIZ};
use libc::{TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6, TUN_F_USO4, TUN_F_USO6};
use rustix::ioctl::{IntegerSetter, Opcode, Setter, ioctl};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;

const SET_INTERFACE: Opcode = libc::TUNSETIFF as Opcode;
const SET_OFFLOAD: Opcode = libc::TUNSETOFFLOAD as Opcode;

#[repr(C)]
struct Request {
    name: [u8; IFNAMSIZ],
    flags: i16,
    rest: [u8; size_of::<libc::ifreq>() - IFNAMSIZ - size_of::<i16>()],
}

const _: () = assert!(size_of::<Request>() == size_of::<libc::ifreq>());

/// An interface, not up. It ends on drop.
pub(super) struct Tap(File);

impl Tap {
    /// With `offload` or `checksums` a `virtio_net_hdr` of 10 bytes precedes each frame, and the kernel leaves checksums
    /// to the program, with `offload` also segmentation. With `napi` frames are received through NAPI, which enables GRO.
    pub(super) fn new(name: &str, settings: &Settings) -> io::Result<Self> {
        let &Settings { offload, checksums, napi, .. } = settings;
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
        let flag = |on: bool, flag: i32| if on { flag } else { 0 };
        let flags = IFF_TAP | IFF_NO_PI | flag(offload || checksums, IFF_VNET_HDR) | flag(napi, IFF_NAPI);
        let mut own = [0; IFNAMSIZ];
        // The last byte stays 0 as the terminator.
        let place = own.get_mut(..name.len()).filter(|place| place.len() < IFNAMSIZ);
        place.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(name.as_bytes());
        let request = Request { name: own, flags: flags as i16, rest: [0; _] };
        // SAFETY: the number belongs to the call that reads one `ifreq`, of this structure's size. The structure lives
        // through the call.
        unsafe { ioctl(&file, Setter::<SET_INTERFACE, Request>::new(request)) }?;
        // SAFETY: the number belongs to the call that takes flags by value.
        let set = |flags: u32| unsafe { ioctl(&file, IntegerSetter::<SET_OFFLOAD>::new_usize(flags as usize)) };
        if offload {
            let streams = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
            set(streams)?;
            // Linux before 6.2 does not segment datagrams and refuses these flags.
            let _ = set(streams | TUN_F_USO4 | TUN_F_USO6);
        } else if checksums {
            set(TUN_F_CSUM)?;
        }
        Ok(Self(file))
    }

    /// Sends and receives by that socket instead.
    #[cfg(test)]
    pub(super) fn of(socket: std::os::unix::net::UnixDatagram) -> Self {
        Self(File::from(std::os::fd::OwnedFd::from(socket)))
    }

    pub(super) fn recv(&self, room: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(room)
    }

    pub(super) fn send(&self, frame: &[u8]) -> io::Result<usize> {
        (&self.0).write(frame)
    }
}

impl std::os::fd::AsFd for Tap {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}
