//! System calls that programs make by number, through the C library's `syscall`.

use super::leaving::by_the_kernel_alone;
use super::processes::{self, forked};
use super::processor;
use super::{
    copies, descriptors, environment, errno, intercept, memory, namespaces, options, pass, programs, receiving, sending,
};
use crate::gate;
use libc::{c_int, c_long, c_uint, c_ulong, pid_t};

/// Arguments of a system call; the upper half of a narrower argument is undefined.
struct Arguments([usize; 6]);

impl Arguments {
    fn int(&self, at: usize) -> c_int {
        self.uint(at).cast_signed()
    }

    fn uint(&self, at: usize) -> c_uint {
        self.0[at] as c_uint
    }
}

/// The function that replaces a system call. `None`: the C library's `syscall`.
///
/// `tee` and `vmsplice` are not included: both accept pipes only.
pub(super) fn instead(number: c_long, first: usize) -> Option<usize> {
    let handled = match number {
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg
        | libc::SYS_pwritev2
        | libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_shutdown
        | libc::SYS_setsockopt
        | libc::SYS_getsockopt
        | libc::SYS_ioctl
        | libc::SYS_connect
        | libc::SYS_sendfile => gate::watched((first as c_uint).cast_signed()).is_some(),
        libc::SYS_socket
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_close
        | libc::SYS_close_range
        | libc::SYS_dup
        | libc::SYS_dup3
        | libc::SYS_fcntl
        | libc::SYS_epoll_ctl
        | libc::SYS_splice
        | libc::SYS_unshare
        | libc::SYS_setns
        | libc::SYS_pidfd_getfd
        | libc::SYS_execve
        | libc::SYS_execveat => true,
        // Programs that use it for files only stay in rings: each request is examined.
        libc::SYS_io_submit => gate::all().next().is_some(),
        libc::SYS_clone => is_fork(first),
        libc::SYS_clone3 => {
            // The first word holds the flags.
            let mut flags = [0; 8];
            memory::peek(first, &mut flags) && is_fork(usize::from_ne_bytes(flags))
        }
        // The library does not see what the kernel's own threads send.
        libc::SYS_io_uring_setup => {
            by_the_kernel_alone();
            false
        }
        libc::SYS_seccomp => {
            before_denying();
            false
        }
        libc::SYS_prctl => {
            before_prctl((first as c_uint).cast_signed());
            false
        }
        _ => [processor::DUP2, processor::FORK].contains(&Some(number)),
    };
    handled.then_some(handle as *const () as usize)
}

fn before_prctl(option: c_int) {
    if option == libc::PR_SET_SECCOMP {
        before_denying();
    }
}

/// A process that restricts its system calls could be killed for those of a ring.
fn before_denying() {
    environment::leave_alone();
    by_the_kernel_alone();
}

intercept! {
    fn prctl(option: c_int, second: usize, third: usize, fourth: usize, fifth: usize) -> c_int {
        before_prctl(option);
        pass!(prctl(option, second, third, fourth, fifth))
    }
}

/// Whether these flags of `clone` make a process with a memory of its own. A child in its parent's memory is handled
/// separately.
fn is_fork(flags: usize) -> bool {
    let is = |flag: c_int| flags & flag as usize != 0;
    if is(libc::CLONE_VM) && !is(libc::CLONE_THREAD) {
        processes::before_vfork();
    }
    !is(libc::CLONE_VM)
}

/// # Safety
/// As for the system call with this number.
unsafe extern "C-unwind" fn handle(
    number: c_long,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    sixth: usize,
) -> c_long {
    let all = Arguments([first, second, third, fourth, fifth, sixth]);
    let (fd, whole) = (all.int(0), |result: c_int| c_long::from(result));
    let kernel = || pass!(syscall(number, first, second, third, fourth, fifth, sixth));
    // SAFETY: these take the system call's arguments, in its order.
    unsafe {
        match number {
            libc::SYS_write => sending::write(fd, all.0[1] as _, all.0[2]) as c_long,
            libc::SYS_writev => sending::writev(fd, all.0[1] as _, all.int(2)) as c_long,
            libc::SYS_sendto => {
                sending::sendto(fd, all.0[1] as _, all.0[2], all.int(3), all.0[4] as _, all.0[5] as _) as c_long
            }
            libc::SYS_sendmsg => sending::sendmsg(fd, all.0[1] as _, all.int(2)) as c_long,
            libc::SYS_sendmmsg => whole(sending::sendmmsg(fd, all.0[1] as _, all.uint(2), all.int(3))),
            libc::SYS_read => receiving::read(fd, all.0[1] as _, all.0[2]) as c_long,
            libc::SYS_readv => receiving::readv(fd, all.0[1] as _, all.int(2)) as c_long,
            libc::SYS_recvfrom => {
                receiving::recvfrom(fd, all.0[1] as _, all.0[2], all.int(3), all.0[4] as _, all.0[5] as _) as c_long
            }
            libc::SYS_recvmsg => receiving::recvmsg(fd, all.0[1] as _, all.int(2)) as c_long,
            libc::SYS_recvmmsg => whole(receiving::recvmmsg(fd, all.0[1] as _, all.uint(2), all.int(3), all.0[4] as _)),
            libc::SYS_shutdown => whole(descriptors::shutdown(fd, all.int(1))),
            libc::SYS_setsockopt => {
                whole(options::setsockopt(fd, all.int(1), all.int(2), all.0[3] as _, all.0[4] as _))
            }
            libc::SYS_getsockopt => {
                whole(options::getsockopt(fd, all.int(1), all.int(2), all.0[3] as _, all.0[4] as _))
            }
            libc::SYS_ioctl => whole(descriptors::ioctl(fd, all.0[1] as c_ulong, all.0[2])),
            libc::SYS_connect => whole(descriptors::connect(fd, all.0[1] as _, all.0[2] as _)),
            libc::SYS_sendfile => copies::sendfile(fd, all.int(1), all.0[2] as _, all.0[3]) as c_long,
            libc::SYS_splice => {
                copies::splice(fd, all.0[1] as _, all.int(2), all.0[3] as _, all.0[4], all.uint(5)) as c_long
            }
            libc::SYS_socket => whole(descriptors::socket(fd, all.int(1), all.int(2))),
            libc::SYS_accept => whole(descriptors::accept(fd, all.0[1] as _, all.0[2] as _)),
            libc::SYS_accept4 => whole(descriptors::accept4(fd, all.0[1] as _, all.0[2] as _, all.int(3))),
            libc::SYS_close => whole(descriptors::close(fd)),
            libc::SYS_close_range => whole(descriptors::close_range(all.uint(0), all.uint(1), all.int(2))),
            libc::SYS_dup => whole(descriptors::dup(fd)),
            libc::SYS_dup3 => whole(descriptors::dup3(fd, all.int(1), all.int(2))),
            libc::SYS_fcntl => whole(descriptors::fcntl(fd, all.int(1), all.0[2])),
            libc::SYS_epoll_ctl => whole(descriptors::epoll_ctl(fd, all.int(1), all.int(2), all.0[3] as _)),
            libc::SYS_unshare => whole(namespaces::unshare(all.int(0))),
            libc::SYS_setns => whole(namespaces::setns(fd, all.int(1))),
            libc::SYS_pidfd_getfd => whole(descriptors::taken(all.int(1), || kernel() as c_int)),
            libc::SYS_io_submit => errno::after(copies::submitted(second.cast_signed(), third), kernel),
            libc::SYS_execve => whole(programs::execve(all.0[0] as _, all.0[1] as _, all.0[2] as _)),
            libc::SYS_execveat => {
                whole(programs::execveat(fd, all.0[1] as _, all.0[2] as _, all.0[3] as _, all.int(4)))
            }
            libc::SYS_clone | libc::SYS_clone3 => c_long::from(forked(|| kernel() as pid_t)),
            _ if processor::DUP2 == Some(number) => whole(descriptors::dup2(fd, all.int(1))),
            _ if processor::FORK == Some(number) => c_long::from(forked(|| kernel() as pid_t)),
            // `pwritev2` has the halves of its offset in two arguments.
            _ => errno::after(sending::before_sending(fd), kernel),
        }
    }
}
