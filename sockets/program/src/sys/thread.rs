//! Threads of a library in a program that does not know of them.

use super::signals_blocked::SignalsBlocked;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::Builder;

pub(crate) struct Started(Arc<AtomicI32>);

impl Started {
    /// Whether the thread is gone from the kernel: only then the process has no trace of it.
    pub(crate) fn has_ended(&self) -> bool {
        match self.0.load(Ordering::Relaxed) {
            // It has not begun yet.
            0 => false,
            number => !is_there(number),
        }
    }
}

/// Starts a thread that receives none of the program's signals.
///
/// # Errors
/// No thread can be made.
pub(crate) fn spawn_without_signals(
    name: &str,
    stack: usize,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<Started> {
    let number = Arc::new(AtomicI32::new(0));
    let started = Started(number.clone());
    // A new thread inherits the signal mask of its creator.
    let _blocked = SignalsBlocked::new();
    let builder = Builder::new().name(name.to_owned()).stack_size(stack);
    builder.spawn(move || {
        // SAFETY: it only returns the thread's number.
        number.store(unsafe { libc::gettid() }, Ordering::Relaxed);
        work();
    })?;
    Ok(started)
}

fn is_there(number: i32) -> bool {
    // SAFETY: signal 0 sends nothing: the kernel only checks that the thread exists.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), number, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread::yield_now;

    #[test]
    fn a_thread_has_ended_when_the_kernel_has_it_no_more() {
        let (end, ends) = channel::<()>();
        let started = spawn_without_signals("test", 64 * 1024, move || assert!(ends.recv().is_err())).unwrap();
        assert!(!started.has_ended());
        while started.0.load(Ordering::Relaxed) == 0 {
            yield_now();
        }
        assert!(!started.has_ended());
        drop(end);
        while !started.has_ended() {
            yield_now();
        }
    }
}
