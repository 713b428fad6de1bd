//! The program's handling of signals.

use super::real::poll_for_room;
use super::{memory, processor};
use libc::c_int;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::{Duration, Instant};
use syscalls::{Sysno, syscall};

const LAST: c_int = 64;

/// What becomes of a blocking call of the kernel after a signal's handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupted {
    /// It continues: the handler has `SA_RESTART`.
    Continues,
    /// It ends with `EINTR`.
    Ends,
}

/// Longest delay of a handler without `SA_RESTART`, where the program also has others with it.
const SLICE: Duration = Duration::from_millis(10);

/// Waits until a socket has room, or only for that time. `false`: the time is over.
///
/// The kernel's own `poll` ends with every handler and does not tell with which. So where the program has handlers of
/// both kinds, those that end a call are delayed for a moment, and found as pending.
///
/// # Errors
/// A handler ran, or is about to.
pub(crate) fn wait_for_room(socket: Option<RawFd>, limit: Duration) -> Result<bool, Interrupted> {
    let (ending, has_restarting) = handlers();
    let answer = |answer: c_int, interrupted| if answer < 0 { Err(interrupted) } else { Ok(answer > 0) };
    match ending {
        None => answer(poll_for_room(socket, limit), Interrupted::Continues),
        Some(_) if !has_restarting => answer(poll_for_room(socket, limit), Interrupted::Ends),
        Some(ending) => {
            let until = Instant::now() + limit;
            loop {
                let left = until.saturating_duration_since(Instant::now());
                match slice(socket, left.min(SLICE), &ending) {
                    Ok(false) if !left.is_zero() => {}
                    waited => return waited,
                }
                // A cancellation point, with the program's own mask.
                if poll_for_room(socket, Duration::ZERO) > 0 {
                    return Ok(true);
                }
            }
        }
    }
}

fn slice(socket: Option<RawFd>, limit: Duration, ending: &libc::sigset_t) -> Result<bool, Interrupted> {
    let (mut before, mut pending) = (MaybeUninit::zeroed(), MaybeUninit::zeroed());
    // SAFETY: all sets are valid or written by the calls; all-zero bytes are a set.
    let is_ended = |before: &libc::sigset_t, pending: &libc::sigset_t| unsafe {
        let is_in = |set: &libc::sigset_t, signal| libc::sigismember(set, signal) == 1;
        (1..=LAST).any(|signal| is_in(ending, signal) && is_in(pending, signal) && !is_in(before, signal))
    };
    // SAFETY: as above. The mask is the thread's own, and is restored here.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, ending, before.as_mut_ptr());
        let socket = socket.map(|socket| BorrowedFd::borrow_raw(socket));
        let mut all = socket.as_ref().map(|socket| [PollFd::new(socket, PollFlags::OUT)]);
        let limit = Timespec::try_from(limit).ok();
        let polled = poll(all.as_mut().map_or(&mut [][..], |all| &mut all[..]), limit.as_ref());
        libc::sigpending(pending.as_mut_ptr());
        let ended = is_ended(before.assume_init_ref(), pending.assume_init_ref());
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        match polled {
            _ if ended => Err(Interrupted::Ends),
            Err(Errno::INTR) => Err(Interrupted::Continues),
            polled => Ok(polled.is_ok_and(|ready| ready > 0)),
        }
    }
}

/// The signals whose handlers end a call, and whether the program also has handlers that do not.
fn handlers() -> (Option<libc::sigset_t>, bool) {
    let (mut ending, mut count, mut has_restarting) = (MaybeUninit::<libc::sigset_t>::zeroed(), 0, false);
    for signal in 1..=LAST {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: this only queries, and writes within the given room; all-zero bytes are an action, and an empty set.
        unsafe {
            libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
            let action = action.assume_init();
            if [libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction) {
                continue;
            }
            if action.sa_flags & libc::SA_RESTART != 0 {
                has_restarting = true;
            } else {
                libc::sigaddset(ending.as_mut_ptr(), signal);
                count += 1;
            }
        }
    }
    // SAFETY: as above.
    ((count > 0).then(|| unsafe { ending.assume_init() }), has_restarting)
}

pub(crate) fn broken_pipe() {
    // SAFETY: raises a signal for this thread.
    unsafe { libc::raise(libc::SIGPIPE) };
}

/// Bytes of stack above the caller that are searched for a handler's frame. A larger stack counts as a handler's.
const STACK: usize = 16 << 20;

/// True unless this thread is surely not in a signal handler.
///
/// The search for a handler's frame ends at the end of the stack, which is an unreadable page, or at the C library's own
/// data of the thread.
pub(crate) fn is_handler() -> bool {
    let mut restorers = [0_usize; LAST as usize];
    let mut count = 0;
    for restorer in (1..=LAST).filter_map(restorer) {
        if !restorers[..count].contains(&restorer) {
            restorers[count] = restorer;
            count += 1;
        }
    }
    let restorers = &restorers[..count];
    if restorers.is_empty() {
        return false;
    }
    let start = (&raw const count).addr() & !7;
    // SAFETY: it reads only the thread's own data.
    let own = unsafe { libc::pthread_self() } as usize;
    let end = if (start..start + STACK).contains(&own) { own } else { start + STACK };
    let mut readable = 0;
    for at in (start..end).step_by(8) {
        if at >= readable {
            if !memory::is_readable(at) {
                return false;
            }
            readable = (at / memory::PAGE + 1) * memory::PAGE;
        }
        // SAFETY: the page can be read, and the address is that of a word.
        let word = unsafe { std::ptr::with_exposed_provenance::<usize>(at).read_volatile() };
        if processor::is_frame(at, word, restorers) {
            return true;
        }
    }
    end != own
}

fn restorer(signal: c_int) -> Option<usize> {
    #[repr(C)]
    struct Action {
        handler: usize,
        flags: u64,
        restorer: usize,
        mask: u64,
    }
    let mut action = Action { handler: libc::SIG_DFL, flags: 0, restorer: 0, mask: 0 };
    // SAFETY: this only queries, and writes within the given room. The C library hides its restorer.
    let asked = unsafe { syscall!(Sysno::rt_sigaction, signal, 0, &raw mut action, size_of::<u64>()) };
    (asked.is_ok() && ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.handler)).then_some(action.restorer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    static FOUND: AtomicU32 = AtomicU32::new(0);

    extern "C" fn handler(_: c_int) {
        FOUND.fetch_add(u32::from(is_handler()), Ordering::Relaxed);
    }

    fn handles(signal: c_int, flags: c_int) -> libc::sigaction {
        // SAFETY: all-zero bytes are an action; the handler does only what handlers may do.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = flags;
            assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
            let mut now: libc::sigaction = std::mem::zeroed();
            assert_eq!(libc::sigaction(signal, std::ptr::null(), &raw mut now), 0);
            now
        }
    }

    #[test]
    fn a_handler_is_found_on_any_stack_and_nothing_else() {
        assert!(!is_handler());
        // Stored on the stack, where it contains the restorer's address as well.
        let actions = [handles(libc::SIGUSR1, 0), handles(libc::SIGUSR2, libc::SA_ONSTACK | libc::SA_NODEFER)];
        assert!(cfg!(target_arch = "aarch64") || actions.iter().all(|action| action.sa_restorer.is_some()));
        let mut other = vec![0_u8; 256 * 1024];
        let stack = libc::stack_t { ss_sp: other.as_mut_ptr().cast(), ss_flags: 0, ss_size: other.len() };
        // SAFETY: the stack lives until the handlers have returned.
        unsafe {
            assert_eq!(libc::sigaltstack(&raw const stack, std::ptr::null_mut()), 0);
            for signal in [libc::SIGUSR1, libc::SIGUSR2] {
                assert!(!is_handler());
                libc::raise(signal);
            }
            let none = libc::stack_t { ss_flags: libc::SS_DISABLE, ..stack };
            assert_eq!(libc::sigaltstack(&raw const none, std::ptr::null_mut()), 0);
        }
        assert_eq!(FOUND.load(Ordering::Relaxed), 2);
        assert!(!is_handler());
        std::hint::black_box(actions);
    }
}
