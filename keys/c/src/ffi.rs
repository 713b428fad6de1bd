//! The functions of `sidecore.h`. A reference is null or valid by the contract of each function there.
//!
//! A panic ends at the boundary, and a thread with a small stack gets a larger one for the call.

use crate::key::LoadedKey;
use crate::queue::{Outcome, Queue};
use crate::service::Given;
use crate::status::{self, Fault, OK};
use sidecore_client::client::Options;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::large_stack;
use sidecore_ipc::shm::fork::ForkGuard;
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::mem::{MaybeUninit, offset_of};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// `sidecore_options` of the header.
#[repr(C)]
pub struct GivenOptions {
    size: usize,
    socket: *const c_char,
    service_user: *const c_char,
    timeout_ms: u32,
    restart_wait_ms: u32,
}

/// `sidecore_result` of the header.
#[repr(C)]
pub struct QueueResult {
    tag: u64,
    status: c_int,
    signature_len: u32,
    signature: *const u8,
}

/// `sidecore` of the header.
pub struct Service(Arc<Options>);

/// `sidecore_key` of the header; its owners are counted.
pub struct SharedKey(LoadedKey);

/// `sidecore_queue` of the header. The lock is for programs that break the rule of one thread.
pub struct SharedQueue {
    guard: ForkGuard,
    queue: Mutex<Queue>,
}

impl SharedQueue {
    /// In a child another thread may hold the lock forever, so the fork is found first.
    fn own(&self) -> Result<MutexGuard<'_, Queue>, Fault> {
        if self.guard.forked() {
            Err(Fault::Forked)
        } else {
            Ok(self.queue.lock().unwrap_or_else(PoisonError::into_inner))
        }
    }
}

fn call(work: impl FnOnce() -> Result<(), Fault>) -> c_int {
    let internal = || Fault::from(Failure::new(Reason::Internal, "this is a defect of libsidecore"));
    let done = large_stack::guard(None, || Some(work()));
    match done.unwrap_or_else(|| Err(internal())) {
        Ok(()) => OK,
        Err(fault) => status::told(&fault),
    }
}

fn given<T>(argument: Option<T>, name: &'static str) -> Result<T, Fault> {
    argument.ok_or(Fault::Argument(name))
}

/// # Safety
/// `text` is null, or a string that ends with a zero and is valid for `'a`.
unsafe fn string<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: not null here, so the caller's string, which ends with a zero.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// # Safety
/// `bytes` is null, or points to `len` bytes that are valid for `'a`.
unsafe fn input<'a>(bytes: *const u8, len: usize) -> Result<&'a [u8], Fault> {
    if len > isize::MAX as usize || bytes.is_null() && len > 0 {
        return Err(Fault::Argument("in"));
    }
    // SAFETY: where a slice is made, the pointer is not null and has `len` bytes by this function's contract, at most
    // `isize::MAX`, as was checked.
    Ok(if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(bytes, len) } })
}

/// The program's buffer for a result.
struct Output<'a> {
    bytes: *mut u8,
    len: &'a mut usize,
}

impl Output<'_> {
    /// Whether the program gave a buffer, and not only asks for the length.
    fn wants(&mut self, needed: usize) -> Result<bool, Fault> {
        let room = std::mem::replace(self.len, needed);
        if self.bytes.is_null() {
            return Ok(false);
        }
        if room < needed { Err(Fault::TooSmall(needed)) } else { Ok(true) }
    }

    /// # Safety
    /// `wants` was true for at least this length, and the buffer has the room that the program named.
    unsafe fn put(&mut self, result: &[u8]) {
        // SAFETY: `wants` found the buffer not null and the room in `*len` no smaller than the result. The header gives that
        // room to the library during the call, so no memory of ours, as the result, overlaps it.
        unsafe { ptr::copy_nonoverlapping(result.as_ptr(), self.bytes, result.len()) };
        *self.len = result.len();
    }
}

/// # Safety
/// `options` is null or points to a structure of the size in its first member, whose strings end with a zero.
unsafe fn read_options(options: *const GivenOptions) -> Result<Given, Fault> {
    if options.is_null() {
        return Ok(Given::default());
    }
    // SAFETY: not null here; the header's structure begins with `size` in each of its versions.
    let size = unsafe { (&raw const (*options).size).read_unaligned() };
    if size < offset_of!(GivenOptions, socket) || size > size_of::<GivenOptions>() {
        return Err(Fault::Argument("options.size"));
    }
    let mut own = MaybeUninit::<GivenOptions>::zeroed();
    // SAFETY: the program states that its structure has `size` bytes, which was compared with ours; zeros are valid for each
    // member beyond, null for pointers.
    let own = unsafe {
        ptr::copy_nonoverlapping(options.cast::<u8>(), own.as_mut_ptr().cast(), size);
        own.assume_init()
    };
    // SAFETY: by the header both are null or strings that end with a zero; a member that an older program lacks is zero, null.
    let (socket, service_user) = unsafe { (string(own.socket), string(own.service_user)) };
    Ok(Given {
        socket: socket.map(|path| OsStr::from_bytes(path.to_bytes()).into()),
        service_user: service_user.map(|users| users.to_string_lossy().into_owned()),
        timeout_ms: own.timeout_ms,
        restart_wait_ms: own.restart_wait_ms,
    })
}

/// See the header.
///
/// # Safety
/// As for `read_options`; `service` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidecore_open(
    options: *const GivenOptions,
    service: Option<&mut MaybeUninit<*mut Service>>,
) -> c_int {
    call(|| {
        let service = given(service, "service")?.write(ptr::null_mut());
        // SAFETY: `options` is by the header null, or a structure whose `size` the program has set.
        let options = unsafe { read_options(options)? }.options();
        *service = Box::into_raw(Box::new(Service(Arc::new(options))));
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn sidecore_close(service: Option<Box<Service>>) {
    large_stack::guard((), || drop(service));
}

/// See the header.
///
/// # Safety
/// `name` is null or ends with a zero; the others are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidecore_key_load(
    service: Option<&Service>,
    name: *const c_char,
    key: Option<&mut MaybeUninit<*const SharedKey>>,
) -> c_int {
    call(|| {
        let key = given(key, "key")?.write(ptr::null());
        // SAFETY: the header's `name` is a C string; null is found by `string`.
        let name = given(unsafe { string(name) }, "name")?;
        let name = name.to_str().map_err(|_| Fault::Argument("name"))?;
        let loaded = LoadedKey::by_name(&given(service, "service")?.0, name)?;
        *key = Arc::into_raw(Arc::new(SharedKey(loaded)));
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// As for [`sidecore_key_load`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidecore_key_load_file(
    service: Option<&Service>,
    path: *const c_char,
    key: Option<&mut MaybeUninit<*const SharedKey>>,
) -> c_int {
    call(|| {
        let key = given(key, "key")?.write(ptr::null());
        // SAFETY: the header's `path` is a C string; null is found by `string`.
        let path = given(unsafe { string(path) }, "path")?;
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        let loaded = LoadedKey::by_file(&given(service, "service")?.0, path)?;
        *key = Arc::into_raw(Arc::new(SharedKey(loaded)));
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// `out` is null or has `*out_len` bytes; the others are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidecore_key_public(
    key: Option<&SharedKey>,
    out: *mut u8,
    out_len: Option<&mut usize>,
) -> c_int {
    call(|| {
        let key = &given(key, "key")?.0;
        let mut output = Output { bytes: out, len: given(out_len, "out_len")? };
        if output.wants(key.public().len())? {
            // SAFETY: `wants` compared this length; by the header `out` has the room that is in `*out_len` before the call.
            unsafe { output.put(key.public()) };
        }
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// `out` is null or has room for `*count` numbers; the others are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidecore_key_schemes(
    key: Option<&SharedKey>,
    out: *mut u16,
    count: Option<&mut usize>,
) -> c_int {
    call(|| {
        let schemes = given(key, "key")?.0.schemes();
        let room = std::mem::replace(given(count, "count")?, schemes.len());
        if out.is_null() {
            return Ok(());
        }
        if room < schemes.len() {
            return Err(Fault::TooSmall(size_of_val(schemes)));
        }
        // SAFETY: `out` is not null and, by the header, has room for the `*count` numbers of before the call, which are no
        // fewer than these. The table of schemes is the library's, so it does not overlap.
        unsafe { ptr::copy_nonoverlapping(schemes.as_ptr(), out, schemes.len()) };
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// `key` is null, or came from this library and has an owner.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidecore_key_share(key: *const SharedKey) -> *const SharedKey {
    if !key.is_null() {
        // SAFETY: not null, so it came from `Arc::into_raw` of a load, and the caller is an owner, so the count is not 0.
        unsafe { Arc::increment_strong_count(key) };
    }
    key
}

/// See the header.
///
/// # Safety
/// `key` is null, or came from this library, and the caller is one of its owners.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidecore_key_free(key: *const SharedKey) {
    if !key.is_null() {
        // SAFETY: not null, so it came from `Arc::into_raw` of a load, and the caller gives up one of its owners.
        large_stack::guard((), || drop(unsafe { Arc::from_raw(key) }));
    }
}

/// See the header.
///
/// # Safety
/// `message` has `len` bytes, `out` is null or has `*out_len` bytes; the others are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidecore_sign(
    key: Option<&SharedKey>,
    scheme: u16,
    message: *const u8,
    len: usize,
    out: *mut u8,
    out_len: Option<&mut usize>,
) -> c_int {
    call(|| {
        let key = &given(key, "key")?.0;
        let mut output = Output { bytes: out, len: given(out_len, "out_len")? };
        key.settings(scheme)?;
        // SAFETY: the header's `in` has `in_len` bytes, and stays during the call; null is found by `input`.
        let message = unsafe { input(message, len)? };
        if output.wants(key.max_len())? {
            let signature = key.sign(scheme, message)?;
            check_len(signature.len(), key.max_len())?;
            // SAFETY: `wants` was true for the longest signature, and `check_len` found this one no longer.
            unsafe { output.put(&signature) };
        }
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// As for [`sidecore_sign`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidecore_decrypt(
    key: Option<&SharedKey>,
    padding: u32,
    ciphertext: *const u8,
    len: usize,
    out: *mut u8,
    out_len: Option<&mut usize>,
) -> c_int {
    call(|| {
        let key = &given(key, "key")?.0;
        let mut output = Output { bytes: out, len: given(out_len, "out_len")? };
        // SAFETY: the header's `in` has `in_len` bytes, and stays during the call; null is found by `input`.
        let ciphertext = unsafe { input(ciphertext, len)? };
        if output.wants(key.max_len())? {
            let plaintext = key.decrypt(padding, ciphertext)?;
            check_len(plaintext.len(), key.max_len())?;
            // SAFETY: `wants` was true for the longest plaintext, and `check_len` found this one no longer.
            unsafe { output.put(&plaintext) };
        }
        Ok(())
    })
}

/// The length of a result is the service's word.
fn check_len(len: usize, most: usize) -> Result<(), Fault> {
    if len <= most { Ok(()) } else { Err(Failure::new(Reason::Internal, format!("a result of {len} bytes")).into()) }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn sidecore_queue_open(
    service: Option<&Service>,
    slots: u32,
    queue: Option<&mut MaybeUninit<*mut SharedQueue>>,
) -> c_int {
    call(|| {
        let out = given(queue, "queue")?.write(ptr::null_mut());
        let guard = ForkGuard::new().map_err(|error| Failure::new(Reason::Internal, error.to_string()))?;
        let queue = Mutex::new(Queue::open(&given(service, "service")?.0, slots)?);
        *out = Box::into_raw(Box::new(SharedQueue { guard, queue }));
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn sidecore_queue_fd(queue: Option<&SharedQueue>) -> c_int {
    let mut descriptor = -1;
    call(|| {
        descriptor = given(queue, "queue")?.own()?.descriptor()?;
        Ok(())
    });
    descriptor
}

/// See the header.
///
/// # Safety
/// `message` has `len` bytes; the others are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidecore_queue_submit_sign(
    queue: Option<&SharedQueue>,
    key: Option<&SharedKey>,
    scheme: u16,
    message: *const u8,
    len: usize,
    tag: u64,
) -> c_int {
    call(|| {
        let (queue, key) = (given(queue, "queue")?, given(key, "key")?);
        // SAFETY: the header's `in` has `in_len` bytes, and stays during the call: `submit` copies what it needs.
        let message = unsafe { input(message, len)? };
        queue.own()?.submit(&key.0, scheme, message, tag)
    })
}

/// See the header.
///
/// # Safety
/// `results` is null or has room for `n` of them; the others are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidecore_queue_complete(
    queue: Option<&SharedQueue>,
    results: *mut QueueResult,
    n: usize,
    count: Option<&mut usize>,
) -> c_int {
    call(|| {
        let count = given(count, "count")?;
        *count = 0;
        if results.is_null() || n == 0 {
            return Err(Fault::Argument("results"));
        }
        let mut queue = given(queue, "queue")?.own()?;
        queue.forget_results();
        while *count < n {
            match queue.next() {
                Ok(Some(outcome)) => {
                    let result = result_of(&mut queue, outcome);
                    // SAFETY: by the header `results` has room for `n`, and `*count` is below it. The program may not
                    // have initialised the room, so no reference is made.
                    unsafe { results.add(*count).write(result) };
                    *count += 1;
                }
                // The results before it are the program's first; the next call ends with the failure.
                Err(_) if *count > 0 => break,
                other => return other.map(drop),
            }
        }
        Ok(())
    })
}

/// The program's view of a result. The queue keeps the signature.
fn result_of(queue: &mut Queue, Outcome { tag, signature }: Outcome) -> QueueResult {
    match signature {
        Ok(signature) => {
            let signature = queue.keep_result(signature);
            QueueResult { tag, status: OK, signature_len: signature.len() as u32, signature: signature.as_ptr() }
        }
        Err(fault) => QueueResult { tag, status: status::told(&fault), signature_len: 0, signature: ptr::null() },
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn sidecore_queue_close(queue: Option<Box<SharedQueue>>) {
    large_stack::guard((), || {
        let Some(queue) = queue else { return };
        if queue.guard.forked() && queue.queue.try_lock().is_err() {
            // A thread of the parent was changing it at the fork.
            std::mem::forget(queue);
        }
    });
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn sidecore_error_text() -> *const c_char {
    status::text()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn sidecore_status_text(number: c_int) -> *const c_char {
    status::line(number).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test of the header has the same numbers of the C compiler.
    #[test]
    fn structures_have_the_sizes_of_the_header() {
        assert_eq!((size_of::<GivenOptions>(), size_of::<QueueResult>()), (32, 24));
    }
}
