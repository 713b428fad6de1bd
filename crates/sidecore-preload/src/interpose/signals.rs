//! The program's handling of signals.

use super::{memory, processor};
use libc::c_int;
use std::mem::MaybeUninit;
use syscalls::{Sysno, syscall};

const LAST: c_int = 64;

/// Whether an interrupted call restarts afterwards, as far as this is known: all handlers that the program has set ask
/// for it.
pub(crate) fn all_restart() -> bool {
    (1..=LAST).all(|signal| {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: this only queries, and writes within the given room; all-zero bytes are an action.
        let action = unsafe {
            libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
            action.assume_init()
        };
        let is_caught = ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
        !is_caught || action.sa_flags & libc::SA_RESTART != 0
    })
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
