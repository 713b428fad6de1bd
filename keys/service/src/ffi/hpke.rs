//! HPKE (RFC 9180) in mode Auth: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM.
//!
//! Both ends know each other's public key. One context seals one message.

use std::ptr::NonNull;

use aws_lc_sys as sys;
use zeroize::Zeroizing;

use super::{owned, succeeded};

/// Length of a public key, of a private key and of an encapsulated key, bytes.
pub(crate) const KEY_LEN: usize = 32;
/// Length of the tag of a sealed message, bytes.
pub(crate) const TAG_LEN: usize = 16;
/// Length of an exported secret, bytes.
pub(crate) const EXPORTED_LEN: usize = 32;

type PublicKey = [u8; KEY_LEN];

/// A key pair. The library wipes the private part when it is freed.
struct Pair(NonNull<sys::EVP_HPKE_KEY>);

impl Pair {
    fn new(private: &[u8; KEY_LEN]) -> Option<Self> {
        // SAFETY: the key returned is owned or null.
        let pair = Self(owned(unsafe { sys::EVP_HPKE_KEY_new() })?);
        // SAFETY: the key is live and empty; the private part is readable for its length and copied.
        let code = unsafe {
            let kem = sys::EVP_hpke_x25519_hkdf_sha256();
            sys::EVP_HPKE_KEY_init(pair.0.as_ptr(), kem, private.as_ptr(), private.len())
        };
        succeeded(code).then_some(pair)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: it was owned and is freed once.
        unsafe { sys::EVP_HPKE_KEY_free(self.0.as_ptr()) };
    }
}

pub(crate) fn public_of(private: &[u8; KEY_LEN]) -> Option<PublicKey> {
    let pair = Pair::new(private)?;
    let (mut public, mut len) = ([0; KEY_LEN], 0);
    // SAFETY: the pair is live; the room is writable for the length given.
    let code =
        unsafe { sys::EVP_HPKE_KEY_public_key(pair.0.as_ptr(), public.as_mut_ptr(), &raw mut len, public.len()) };
    (succeeded(code) && len == KEY_LEN).then_some(public)
}

pub(crate) struct Context(NonNull<sys::EVP_HPKE_CTX>);

impl Context {
    fn new() -> Option<Self> {
        // SAFETY: the context returned is owned or null.
        owned(unsafe { sys::EVP_HPKE_CTX_new() }).map(Self)
    }

    /// For one message to this public key, with the encapsulated key that the recipient needs. `None`: it is no public key.
    pub(crate) fn to(to: &PublicKey, private: &[u8; KEY_LEN], info: &[u8]) -> Option<(Self, PublicKey)> {
        let (context, own) = (Self::new()?, Pair::new(private)?);
        let (mut encapsulated, mut len) = ([0; KEY_LEN], 0);
        // SAFETY: context and key are live; all bytes are readable, and the room writable, for the lengths given. Nothing of
        // them is kept.
        let code = unsafe {
            sys::EVP_HPKE_CTX_setup_auth_sender(
                context.0.as_ptr(),
                encapsulated.as_mut_ptr(),
                &raw mut len,
                encapsulated.len(),
                own.0.as_ptr(),
                sys::EVP_hpke_hkdf_sha256(),
                sys::EVP_hpke_aes_256_gcm(),
                to.as_ptr(),
                to.len(),
                info.as_ptr(),
                info.len(),
            )
        };
        (succeeded(code) && len == KEY_LEN).then_some((context, encapsulated))
    }

    /// For the one message from this public key.
    pub(crate) fn from(
        from: &PublicKey,
        encapsulated: &PublicKey,
        private: &[u8; KEY_LEN],
        info: &[u8],
    ) -> Option<Self> {
        let (context, own) = (Self::new()?, Pair::new(private)?);
        // SAFETY: context and key are live; all bytes are readable for the lengths given. Nothing of them is kept.
        let code = unsafe {
            sys::EVP_HPKE_CTX_setup_auth_recipient(
                context.0.as_ptr(),
                own.0.as_ptr(),
                sys::EVP_hpke_hkdf_sha256(),
                sys::EVP_hpke_aes_256_gcm(),
                encapsulated.as_ptr(),
                encapsulated.len(),
                info.as_ptr(),
                info.len(),
                from.as_ptr(),
                from.len(),
            )
        };
        succeeded(code).then_some(context)
    }

    pub(crate) fn seal(&mut self, plain: &[u8], associated: &[u8]) -> Option<Vec<u8>> {
        let (mut sealed, mut len) = (vec![0; plain.len() + TAG_LEN], 0);
        // SAFETY: the context is live and a sender's; all bytes are readable, and the room writable, for the lengths given.
        let code = unsafe {
            sys::EVP_HPKE_CTX_seal(
                self.0.as_ptr(),
                sealed.as_mut_ptr(),
                &raw mut len,
                sealed.len(),
                plain.as_ptr(),
                plain.len(),
                associated.as_ptr(),
                associated.len(),
            )
        };
        (succeeded(code) && len == sealed.len()).then_some(sealed)
    }

    /// `None`: the message is of another sender, to another recipient, or changed.
    pub(crate) fn open(&mut self, sealed: &[u8], associated: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (mut plain, mut len) = (Zeroizing::new(vec![0; sealed.len()]), 0);
        // SAFETY: the context is live and a recipient's; all bytes are readable, and the room writable, for the lengths given.
        let code = unsafe {
            sys::EVP_HPKE_CTX_open(
                self.0.as_ptr(),
                plain.as_mut_ptr(),
                &raw mut len,
                plain.len(),
                sealed.as_ptr(),
                sealed.len(),
                associated.as_ptr(),
                associated.len(),
            )
        };
        if !succeeded(code) || len > plain.len() {
            return None;
        }
        // Shorter, within the same memory.
        plain.truncate(len);
        Some(plain)
    }

    /// A secret that both ends of this context have, and no other.
    pub(crate) fn export(&self, label: &[u8]) -> Option<[u8; EXPORTED_LEN]> {
        let mut secret = [0; EXPORTED_LEN];
        // SAFETY: the context is live; the label is readable, and the room writable, for the lengths given.
        let code = unsafe {
            sys::EVP_HPKE_CTX_export(self.0.as_ptr(), secret.as_mut_ptr(), secret.len(), label.as_ptr(), label.len())
        };
        succeeded(code).then_some(secret)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was owned and is freed once.
        unsafe { sys::EVP_HPKE_CTX_free(self.0.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [u8; KEY_LEN] = [1; KEY_LEN];
    const B: [u8; KEY_LEN] = [2; KEY_LEN];
    const C: [u8; KEY_LEN] = [3; KEY_LEN];

    #[test]
    fn a_message_opens_at_its_recipient_only_and_both_export_one_secret() {
        let [a, b, c] = [A, B, C].map(|private| public_of(&private).unwrap());
        let (mut sender, encapsulated) = Context::to(&b, &A, b"info").unwrap();
        let sealed = sender.seal(b"message", b"name").unwrap();
        assert_eq!(sealed.len(), 7 + TAG_LEN);
        let open = |from, own, info: &[u8], associated: &[u8]| {
            let mut recipient = Context::from(from, &encapsulated, own, info)?;
            Some((recipient.open(&sealed, associated)?, recipient.export(b"receipt").unwrap()))
        };
        let (plain, secret) = open(&a, &B, b"info", b"name").unwrap();
        assert_eq!((plain.as_slice(), secret), (&b"message"[..], sender.export(b"receipt").unwrap()));
        assert_ne!(sender.export(b"another"), Some(secret));
        for (from, own, info, associated) in [
            (&c, &B, &b"info"[..], &b"name"[..]),
            (&a, &C, b"info", b"name"),
            (&a, &B, b"other", b"name"),
            (&a, &B, b"info", b"other"),
        ] {
            assert!(open(from, own, info, associated).is_none());
        }
    }

    #[test]
    fn the_public_part_is_that_of_x25519() {
        // RFC 7748, section 6.1: Bob's keys.
        let private = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb";
        let public = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f";
        let bytes = |text: &str| -> [u8; KEY_LEN] {
            std::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
        };
        assert_eq!(public_of(&bytes(private)), Some(bytes(public)));
    }

    #[test]
    fn a_point_of_small_order_is_no_public_key() {
        assert!(Context::to(&[0; KEY_LEN], &A, b"").is_none());
        assert!(Context::from(&[0; KEY_LEN], &[0; KEY_LEN], &A, b"").is_none());
    }
}
