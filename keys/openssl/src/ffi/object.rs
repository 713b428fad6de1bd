//! Key objects: OpenSSL's handles of keys.
//!
//! A program may put libcrypto's memory where several of its processes see it (`CRYPTO_set_mem_functions`), and use a
//! key in another process than the one that loaded it. So objects lie in that memory, hold no pointer to other memory,
//! and store their own address. A damaged object, or one at another address, is an error and never another key.

use super::abi::{Callback, OBJECT_PKEY};
use super::memory::Memory;
use super::params::List;
use super::provider::{self, Provider, ProviderNumber};
use sidecore_client::keyops::cache;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::key::{Curve, Key, Private, Public};
use sidecore_ipc::sys::verified_fd::{Left, VerifiedFd};
use std::ffi::{CStr, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// First word of each object; never that of a freed one.
const MAGIC: u64 = u64::from_be_bytes(*b"sidecore");

#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contents {
    Empty,
    /// Parameters without a key: the name of a curve.
    Parameters,
    Public,
    /// A key with its private part, or with the location of it.
    Private,
}

/// A key object: empty until it is imported or loaded. Any bytes form some object, though perhaps not a valid one.
#[repr(C)]
pub(crate) struct KeyObject {
    magic: u64,
    address: usize,
    provider: ProviderNumber,
    memory: Memory,
    contents: u32,
    /// Random number of the bytes, unique in all processes.
    number: [u8; 16],
    /// Keeps a key alive that the service made for this program.
    connection: Left,
    bytes: *mut u8,
    len: usize,
}

/// A key object in libcrypto's memory, to be freed by OpenSSL.
#[repr(transparent)]
pub(crate) struct Object(NonNull<KeyObject>);

pub(super) type Reference = Option<Object>;

impl Deref for Object {
    type Target = KeyObject;

    fn deref(&self) -> &KeyObject {
        // SAFETY: made by `new`, or returned by OpenSSL; freed once, by `drop`.
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for Object {
    fn deref_mut(&mut self) -> &mut KeyObject {
        // SAFETY: as for `deref`; `&mut self` is the only reference to it.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // An invalid object is not touched.
        if self.check().is_ok() {
            self.clear();
            let memory = self.memory;
            // SAFETY: allocated there by `new`.
            unsafe { memory.free(self.0.cast(), size_of::<KeyObject>()) };
        }
    }
}

impl Object {
    /// An empty object. `None`: no memory is left.
    pub(crate) fn new(provider: &Provider) -> Option<Self> {
        Self::empty(provider.number, provider.core.memory)
    }

    fn empty(provider: ProviderNumber, memory: Memory) -> Option<Self> {
        let place = memory.zeroed(size_of::<KeyObject>())?.cast::<KeyObject>();
        let object = KeyObject {
            magic: MAGIC,
            address: place.as_ptr().addr(),
            provider,
            memory,
            contents: Contents::Empty as u32,
            number: [0; 16],
            connection: Left::NONE,
            bytes: ptr::null_mut(),
            len: 0,
        };
        // SAFETY: there is room for it, aligned by `zeroed`.
        unsafe { place.write(object) };
        Some(Self(place))
    }

    pub(super) fn with_parameters(provider: &Provider, curve: Option<Curve>) -> Result<Self, Failure> {
        let mut object = Self::new(provider).ok_or_else(no_memory)?;
        curve.map_or(Ok(()), |curve| object.set_parameters(curve))?;
        Ok(object)
    }

    /// The object as a pointer, for OpenSSL to keep; [`Object::from_raw`] takes it back.
    pub(super) fn into_raw(self) -> *mut c_void {
        ManuallyDrop::new(self).0.as_ptr().cast()
    }

    /// # Safety
    /// `object` is null or from [`Object::into_raw`], and is taken back once.
    pub(super) unsafe fn from_raw(object: *mut c_void) -> Option<Self> {
        NonNull::new(object.cast()).map(Self)
    }

    pub(crate) fn with(provider: &Provider, key: Key) -> Result<Self, Failure> {
        let mut object = Self::new(provider).ok_or_else(no_memory)?;
        object.set(key)?;
        Ok(object)
    }
}

impl KeyObject {
    fn check(&self) -> Result<(), Failure> {
        if self.magic == MAGIC && self.address == ptr::from_ref(self).addr() {
            return Ok(());
        }
        let text = "the program uses a key object that is none here, e.g. one that another of its processes loaded: load the key \
                    in the process that uses it, or share libcrypto's memory at one address";
        Err(Failure::new(Reason::Key, text))
    }

    fn checked(&self, contents: Contents) -> Result<Option<&[u8]>, Failure> {
        self.check()?;
        // SAFETY: allocated with this length by `put`, and not changed while OpenSSL lends the object.
        Ok((self.contents == contents as u32).then(|| unsafe { std::slice::from_raw_parts(self.bytes, self.len) }))
    }

    pub(super) fn key(&self) -> Result<Option<Arc<Key>>, Failure> {
        let flat = match self.checked(Contents::Private)? {
            None => self.checked(Contents::Public)?,
            private => private,
        };
        let Some(flat) = flat else { return Ok(None) };
        cache::key(self.number(), || Key::from_flat(flat)).map(Some)
    }

    /// `None`: no key; else whether it has a private part.
    pub(super) fn has_key(&self) -> Result<Option<bool>, Failure> {
        self.check()?;
        let is = |contents| self.contents == contents as u32;
        Ok((is(Contents::Public) || is(Contents::Private)).then(|| is(Contents::Private)))
    }

    pub(super) fn parameters(&self) -> Result<Option<Curve>, Failure> {
        let name = self.checked(Contents::Parameters)?;
        Ok(name.and_then(|name| Curve::from_name(str::from_utf8(name).ok()?)))
    }

    pub(super) fn curve(&self) -> Result<Option<Curve>, Failure> {
        Ok(match self.key()?.as_deref() {
            Some(Key { public: Public::Ec { curve, .. }, .. }) => Some(*curve),
            _ => self.parameters()?,
        })
    }

    /// The provider that made it. `None`: it was unloaded, or this is no key object of this process.
    pub(super) fn provider(&self) -> Option<Arc<Provider>> {
        self.check().ok().and_then(|()| self.provider.get())
    }

    pub(super) fn again(&self, private: bool) -> Result<Object, Failure> {
        self.check()?;
        let mut object = Object::empty(self.provider, self.memory).ok_or_else(no_memory)?;
        if !private && let Some(key) = self.key()? {
            object.set(key.without_private())?;
            return Ok(object);
        }
        for contents in [Contents::Parameters, Contents::Public, Contents::Private] {
            if let Some(bytes) = self.checked(contents)? {
                object.put(contents, bytes)?;
            }
        }
        let again = self.connection.again();
        object.connection =
            again.map_err(|error| Failure::new(Reason::Internal, format!("{error}; raise the limit on files")))?;
        Ok(object)
    }

    pub(super) fn set(&mut self, key: Key) -> Result<(), Failure> {
        self.check()?;
        let (flat, contents) = (key.to_flat()?, if key.has_private() { Contents::Private } else { Contents::Public });
        self.put(contents, &flat)?;
        match key {
            Key { private: Private::Made(made), .. } => self.connection = made.leave(),
            key => cache::keep(self.number(), &Arc::new(key)),
        }
        Ok(())
    }

    pub(super) fn set_parameters(&mut self, curve: Curve) -> Result<(), Failure> {
        self.check()?;
        self.put(Contents::Parameters, curve.name().to_bytes())
    }

    fn put(&mut self, contents: Contents, bytes: &[u8]) -> Result<(), Failure> {
        self.clear();
        let place = self.memory.zeroed(bytes.len()).ok_or_else(no_memory)?;
        // SAFETY: new room of that length.
        unsafe { place.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        (self.bytes, self.len, self.contents) = (place.as_ptr(), bytes.len(), contents as u32);
        self.number = provider::random()?;
        Ok(())
    }

    fn clear(&mut self) {
        if let Some(bytes) = NonNull::new(self.bytes) {
            cache::forget(self.number());
            // SAFETY: allocated there with this length, and forgotten here.
            unsafe { self.memory.free(bytes, self.len) };
        }
        drop(VerifiedFd::recall(self.connection));
        (self.bytes, self.len, self.contents, self.connection) =
            (ptr::null_mut(), 0, Contents::Empty as u32, Left::NONE);
    }

    fn number(&self) -> u128 {
        u128::from_ne_bytes(self.number)
    }
}

fn no_memory() -> Failure {
    Failure::new(Reason::Internal, "libcrypto gives no memory: raise the limits of this program")
}

/// Runs `work` on an object; after a failure, which goes into OpenSSL's error queue, returns `failed`.
pub(super) fn with_object<T>(
    object: Option<&KeyObject>,
    doing: &'static CStr,
    failed: T,
    work: impl FnOnce(&KeyObject) -> Result<T, Failure>,
) -> T {
    let done = super::guard(None, || {
        let object = object?;
        match work(object) {
            Ok(done) => Some(done),
            failed => provider::tell(object.provider(), doing, failed),
        }
    });
    done.unwrap_or(failed)
}

/// Passes a key to the callback of a store or decoder; the function `load` of key management takes it over.
///
/// # Safety
/// `callback` is OpenSSL's and belongs to `argument`.
pub(super) unsafe fn offer(provider: &Arc<Provider>, key: Key, callback: Callback, argument: *mut c_void) -> c_int {
    let family = key.public.family();
    let Some(object) = provider.tell(c"load", Object::with(provider, key)) else { return 0 };
    let mut reference: Reference = Some(object);
    let list = List::default().text(c"data-type", family.name()).integer(c"type", OBJECT_PKEY);
    let list = list.borrowed(c"reference", (&raw mut reference).cast(), size_of::<Reference>());
    // SAFETY: the callback gets its own argument, and a list that ends. `load` may leave nothing at the reference, which
    // lives longer than the call.
    list.with(|list| unsafe { callback(list, argument) })
}

pub(super) fn key_in(object: Option<&KeyObject>) -> Result<Option<Arc<Key>>, Failure> {
    object.map_or(Ok(None), KeyObject::key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_client::keyops::key::Raw;
    use std::ffi::c_char;
    use std::mem::MaybeUninit;

    /// # Safety
    /// Any length is allowed.
    unsafe extern "C" fn zalloc(len: usize, _file: *const c_char, _line: c_int) -> *mut c_void {
        // SAFETY: any length will do.
        unsafe { libc::calloc(1, len) }
    }

    /// # Safety
    /// `place` is from `zalloc`, and is not used afterwards.
    unsafe extern "C" fn clear_free(place: *mut c_void, _len: usize, _file: *const c_char, _line: c_int) {
        // SAFETY: from `zalloc`.
        unsafe { libc::free(place) };
    }

    fn object(name: &str) -> Object {
        // SAFETY: they allocate and free the same memory.
        let memory = unsafe { Memory::of(zalloc, clear_free) }.unwrap();
        let mut object = Object::empty(ProviderNumber::default(), memory).unwrap();
        object.set(Key::new(Public::Raw(Raw::Ed25519, vec![7; 32]), Private::Stored(name.to_owned()))).unwrap();
        object
    }

    fn name(object: &KeyObject) -> String {
        match &object.key().unwrap().unwrap().private {
            Private::Stored(name) => name.clone(),
            _ => panic!("another key"),
        }
    }

    #[test]
    fn an_object_that_is_seen_at_another_address_is_none() {
        let (one, other) = (object("one"), object("other"));
        assert_eq!((name(&one), name(&other)), ("one".to_owned(), "other".to_owned()));
        let mut moved = Box::new(MaybeUninit::<KeyObject>::uninit());
        // SAFETY: room for it; all its bytes are some object.
        let moved = unsafe {
            moved.as_mut_ptr().copy_from_nonoverlapping(&raw const *one, 1);
            moved.assume_init_mut()
        };
        assert!(moved.key().is_err_and(|failure| failure.reason == Reason::Key));
        assert!(moved.has_key().is_err() && moved.parameters().is_err() && moved.again(true).is_err());
        assert!(moved.set_parameters(Curve::P256).is_err() && moved.provider().is_none());
        moved.address = ptr::from_ref(moved).addr();
        moved.magic ^= 1;
        assert!(moved.key().is_err());
    }

    #[test]
    fn a_copy_has_the_key_and_one_without_private_part_has_no_more() {
        let one = object("one");
        let (whole, public) = (one.again(true).unwrap(), one.again(false).unwrap());
        drop(one);
        assert_eq!(name(&whole), "one");
        assert_eq!(whole.has_key().unwrap(), Some(true));
        assert_eq!(public.has_key().unwrap(), Some(false));
        assert!(matches!(public.key().unwrap().unwrap().private, Private::None));
    }

    #[test]
    fn parameters_are_no_key() {
        let mut object = object("one");
        object.set_parameters(Curve::P384).unwrap();
        assert_eq!(object.curve().unwrap(), Some(Curve::P384));
        assert!(object.key().unwrap().is_none() && object.has_key().unwrap().is_none());
    }
}
