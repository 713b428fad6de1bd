//! Operations with asymmetric keys: signatures, decryption, secrets shared with a peer.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

use aws_lc_sys as sys;

use super::{context::Context, owned, padding::Padding, pkey::PKey, succeeded};

impl PKey {
    /// Signs a digest with an elliptic curve or RSA; returns the number of bytes written.
    pub(crate) fn sign(&self, padding: &Padding, digest: &[u8], signature: &mut [u8]) -> Option<usize> {
        self.transform(sys::EVP_PKEY_sign_init, padding, sys::EVP_PKEY_sign, digest, signature)
    }

    pub(crate) fn verify(&self, padding: &Padding, digest: &[u8], signature: &[u8]) -> bool {
        let Some(context) = self.started(sys::EVP_PKEY_verify_init, padding) else { return false };
        let (bytes, len) = (signature.as_ptr(), signature.len());
        // SAFETY: the context is live; both are readable for their lengths.
        succeeded(unsafe { sys::EVP_PKEY_verify(context.as_ptr(), bytes, len, digest.as_ptr(), digest.len()) })
    }

    /// Signs a whole message with Ed25519 or ML-DSA-65; returns the number of bytes written.
    pub(crate) fn sign_message(&self, message: &[u8], signature: &mut [u8]) -> Option<usize> {
        let mut written = signature.len();
        let (target, source) = (signature.as_mut_ptr(), message.as_ptr());
        // SAFETY: the context is live and keyed; both are valid for their lengths.
        let sign = |context| unsafe { sys::EVP_DigestSign(context, target, &raw mut written, source, message.len()) };
        self.with_message(sys::EVP_DigestSignInit, sign).then_some(written)
    }

    pub(crate) fn verify_message(&self, message: &[u8], signature: &[u8]) -> bool {
        let (bytes, len) = (signature.as_ptr(), signature.len());
        // SAFETY: the context is live and keyed; both are readable for their lengths.
        let verify = |context| unsafe { sys::EVP_DigestVerify(context, bytes, len, message.as_ptr(), message.len()) };
        self.with_message(sys::EVP_DigestVerifyInit, verify)
    }

    /// RSA decryption; returns the number of bytes written. `output` holds at least the modulus length. `None` where
    /// the padding does not verify, or the ciphertext is not below the modulus.
    pub(crate) fn decrypt(&self, padding: &Padding, ciphertext: &[u8], output: &mut [u8]) -> Option<usize> {
        self.transform(sys::EVP_PKEY_decrypt_init, padding, sys::EVP_PKEY_decrypt, ciphertext, output)
    }

    pub(crate) fn encrypt(&self, padding: &Padding, plaintext: &[u8], output: &mut [u8]) -> Option<usize> {
        self.transform(sys::EVP_PKEY_encrypt_init, padding, sys::EVP_PKEY_encrypt, plaintext, output)
    }

    /// The secret shared with a peer, by X25519; returns the number of bytes written. `None` for a peer of small
    /// order, whose secret is publicly known.
    pub(crate) fn derive(&self, peer: &Self, secret: &mut [u8]) -> Option<usize> {
        let context = self.started(sys::EVP_PKEY_derive_init, &Padding::None)?;
        let (context, mut written) = (context.as_ptr(), secret.len());
        // SAFETY: context and peer are live; the secret is writable for its length.
        let done = unsafe {
            sys::EVP_PKEY_derive_set_peer(context, peer.as_ptr()) == 1
                && sys::EVP_PKEY_derive(context, secret.as_mut_ptr(), &raw mut written) == 1
        };
        succeeded(done.into()).then_some(written)
    }

    /// The secret shared with the holder of that point, by ECDH; returns the number of bytes written, those of a
    /// coordinate. `None` for bytes that are no point of the key's curve.
    pub(crate) fn derive_from_point(&self, point: &[u8], secret: &mut [u8]) -> Option<usize> {
        // SAFETY: the key is live and owns its curve and number; the point is made on that curve, checked, and freed
        // once; bytes and secret are valid for their lengths.
        let written = unsafe {
            let key = sys::EVP_PKEY_get0_EC_KEY(self.as_ptr()).as_ref()?;
            let group = sys::EC_KEY_get0_group(key);
            let peer = owned(sys::EC_POINT_new(group))?.as_ptr();
            let on_curve = sys::EC_POINT_oct2point(group, peer, point.as_ptr(), point.len(), null_mut()) == 1;
            let (target, len) = (secret.as_mut_ptr().cast(), secret.len());
            let written = if on_curve { sys::ECDH_compute_key(target, len, peer, key, None) } else { -1 };
            sys::EC_POINT_free(peer);
            written
        };
        let written = usize::try_from(written).ok().filter(|written| *written > 0);
        succeeded(written.is_some().into()).then_some(written)?
    }

    /// A fresh secret by ML-KEM, and the ciphertext that carries it; `None` where the library fails.
    pub(crate) fn encapsulate(&self, ciphertext: &mut [u8], secret: &mut [u8]) -> Option<()> {
        let context = self.context()?;
        let (mut ciphertext_len, mut secret_len) = (ciphertext.len(), secret.len());
        let (ciphertext, secret) = (ciphertext.as_mut_ptr(), secret.as_mut_ptr());
        // SAFETY: the context is live; both are writable for their lengths.
        succeeded(unsafe {
            let lens = (&raw mut ciphertext_len, &raw mut secret_len);
            sys::EVP_PKEY_encapsulate(context.as_ptr(), ciphertext, lens.0, secret, lens.1)
        })
        .then_some(())
    }

    /// The secret in a ciphertext of ML-KEM; returns the number of bytes written.
    pub(crate) fn decapsulate(&self, ciphertext: &[u8], secret: &mut [u8]) -> Option<usize> {
        self.transform(always, &Padding::None, sys::EVP_PKEY_decapsulate, ciphertext, secret)
    }

    /// Whether the parts of an ML-KEM key are well-formed and fit each other. A public key has the public part only.
    pub(crate) fn is_sound(&self) -> bool {
        // SAFETY: the context is live.
        self.context().is_some_and(|context| succeeded(unsafe { sys::EVP_PKEY_public_check(context.as_ptr()) }))
    }

    fn context(&self) -> Option<Context> {
        // SAFETY: the key is live.
        unsafe { Context::of_key(self.as_ptr()) }
    }

    fn started(&self, start: Start, padding: &Padding) -> Option<Context> {
        let context = self.context()?;
        // SAFETY: the context is live.
        let ready = unsafe { start(context.as_ptr()) == 1 && padding.set(context.as_ptr()) };
        succeeded(ready.into()).then_some(context)
    }

    fn transform(
        &self,
        start: Start,
        padding: &Padding,
        transform: Transform,
        input: &[u8],
        output: &mut [u8],
    ) -> Option<usize> {
        let context = self.started(start, padding)?;
        let (mut written, target) = (output.len(), output.as_mut_ptr());
        // SAFETY: the context is live and started; the library never writes more than the length that it is given.
        let code = unsafe { transform(context.as_ptr(), target, &raw mut written, input.as_ptr(), input.len()) };
        succeeded(code).then_some(written)
    }

    fn with_message(&self, start: StartMessage, work: impl FnOnce(*mut sys::EVP_MD_CTX) -> c_int) -> bool {
        let mut context = MaybeUninit::uninit();
        let context = context.as_mut_ptr();
        // SAFETY: the context is made valid first, and cleaned up once; neither algorithm takes a hash.
        let done = unsafe {
            sys::EVP_MD_CTX_init(context);
            let done = start(context, null_mut(), null(), null_mut(), self.as_ptr()) == 1 && work(context) == 1;
            sys::EVP_MD_CTX_cleanup(context);
            done
        };
        succeeded(done.into())
    }
}

type Start = unsafe extern "C" fn(*mut sys::EVP_PKEY_CTX) -> c_int;
type Transform = unsafe extern "C" fn(*mut sys::EVP_PKEY_CTX, *mut u8, *mut usize, *const u8, usize) -> c_int;
type StartMessage = unsafe extern "C" fn(
    *mut sys::EVP_MD_CTX,
    *mut *mut sys::EVP_PKEY_CTX,
    *const sys::EVP_MD,
    *mut sys::ENGINE,
    *mut sys::EVP_PKEY,
) -> c_int;

/// Start function of an operation that needs none.
///
/// # Safety
/// It does nothing with the context.
unsafe extern "C" fn always(_: *mut sys::EVP_PKEY_CTX) -> c_int {
    1
}
