//! Private keys and what is done with them, each with a context that is reused from operation to operation.

use std::ffi::{CStr, c_int, c_long};
use std::ptr;

use super::{Api, Context, Failure, Handle, Init, MessageInit, Object, Transforming, c_length};

/// Room for any signature, ciphertext or shared secret of the supported keys (RSA-4096: 512 bytes).
pub(crate) const MAX_OUTPUT_BYTES: usize = 1024;

const OAEP_PADDING: c_int = 4;

/// The kinds of keys that can be made or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// RSA with a modulus of that many bits.
    Rsa(usize),
    /// Elliptic curve P-256.
    P256,
    /// Elliptic curve P-384.
    P384,
    /// Ed25519.
    Ed25519,
    /// X25519.
    X25519,
}

impl KeyKind {
    fn type_name(self) -> &'static CStr {
        match self {
            Self::Rsa(_) => c"RSA",
            Self::P256 | Self::P384 => c"EC",
            Self::Ed25519 => c"ED25519",
            Self::X25519 => c"X25519",
        }
    }

    fn bits(self) -> usize {
        match self {
            Self::Rsa(bits) => bits,
            Self::P256 | Self::Ed25519 => 256,
            Self::P384 => 384,
            Self::X25519 => 253,
        }
    }
}

/// A private key with its public half.
pub(crate) struct Key<'a> {
    pub(super) api: &'a Api,
    handle: Handle<'a>,
}

impl<'a> Key<'a> {
    /// A fresh key.
    pub(crate) fn generate(api: &'a Api, kind: KeyKind) -> Result<Self, Failure> {
        let (context, name) = (ptr::null_mut(), kind.type_name().as_ptr());
        // SAFETY: the manual's variadic argument for RSA is a size_t, for EC the curve's name, for the others nothing.
        let raw = unsafe {
            match kind {
                KeyKind::Rsa(bits) => (api.key_generate)(context, ptr::null(), name, bits),
                KeyKind::P256 => (api.key_generate)(context, ptr::null(), name, c"P-256".as_ptr()),
                KeyKind::P384 => (api.key_generate)(context, ptr::null(), name, c"P-384".as_ptr()),
                KeyKind::Ed25519 | KeyKind::X25519 => (api.key_generate)(context, ptr::null(), name),
            }
        };
        Ok(Self { api, handle: api.own(raw, api.key_free, "EVP_PKEY_Q_keygen")? })
    }

    /// The key in a PKCS#8 document in DER, which must be of that kind.
    pub(crate) fn from_pkcs8(api: &'a Api, der: &[u8], kind: KeyKind) -> Result<Self, Failure> {
        let call = "d2i_AutoPrivateKey";
        let length = c_long::try_from(der.len()).map_err(|_| Failure::new(call, "the document is too long"))?;
        let mut position = der.as_ptr();
        // SAFETY: the library reads at most `length` bytes from `position`, which it moves within them.
        let raw = unsafe { (api.key_from_der)(ptr::null_mut(), &raw mut position, length) };
        Self::of_kind(api, api.own(raw, api.key_free, call)?, kind, call)
    }

    /// As [`Key::from_pkcs8`], by the decoders of that library context.
    pub(crate) fn from_pkcs8_in(library: &Context<'a>, der: &[u8], kind: KeyKind) -> Result<Self, Failure> {
        let (api, call) = (library.api, "d2i_AutoPrivateKey_ex");
        let length = c_long::try_from(der.len()).map_err(|_| Failure::new(call, "the document is too long"))?;
        let mut position = der.as_ptr();
        let context = library.handle.raw();
        // SAFETY: as above; null means no properties.
        let raw = unsafe { (api.key_from_der_in)(ptr::null_mut(), &raw mut position, length, context, ptr::null()) };
        Self::of_kind(api, api.own(raw, api.key_free, call)?, kind, call)
    }

    /// The key in a PEM file, which must be of that kind, by the decoders of that library context: what servers do with
    /// the file of their configuration.
    pub(crate) fn from_pem_in(library: &Context<'a>, pem: &[u8], kind: KeyKind) -> Result<Self, Failure> {
        let (api, call) = (library.api, "PEM_read_bio_PrivateKey_ex");
        let none: Object = ptr::null_mut();
        // SAFETY: the library only reads the bytes, and `pem` outlives the object, which this function frees.
        let bio = unsafe { (api.memory_bio)(pem.as_ptr().cast(), c_length(pem.len(), call)?) };
        let bio = api.own(bio, api.bio_free, "BIO_new_mem_buf")?;
        // SAFETY: both are live; null means a new key, no question for a pass phrase and no properties.
        let raw = unsafe { (api.key_from_pem)(bio.raw(), none.cast(), none, none, library.handle.raw(), ptr::null()) };
        Self::of_kind(api, api.own(raw, api.key_free, call)?, kind, call)
    }

    fn of_kind(api: &'a Api, handle: Handle<'a>, kind: KeyKind, call: &'static str) -> Result<Self, Failure> {
        // SAFETY: `handle` is an EVP_PKEY, the name ends in a zero byte.
        let (is_a, bits) =
            unsafe { ((api.key_is_a)(handle.raw(), kind.type_name().as_ptr()), (api.key_bits)(handle.raw())) };
        if is_a != 1 || usize::try_from(bits) != Ok(kind.bits()) {
            return Err(Failure::new(call, format!("the document's key of {bits} bits is not of the kind {kind:?}")));
        }
        Ok(Self { api, handle })
    }

    /// A context that signs digests made by the digest of that name, with implementations of these properties.
    pub(super) fn signing_context(
        &self,
        library: Option<&Context<'a>>,
        properties: Option<&CStr>,
        digest: &CStr,
    ) -> Result<Handle<'a>, Failure> {
        let (library, properties) = (raw_context(library), properties.map_or(ptr::null(), CStr::as_ptr));
        // SAFETY: all are live; the context takes a reference of its own to the key.
        let raw = unsafe { (self.api.key_context_in)(library, self.handle.raw(), properties) };
        let context = self.api.own(raw, self.api.key_context_free, "EVP_PKEY_CTX_new_from_pkey")?;
        // SAFETY: `context` is an EVP_PKEY_CTX.
        self.api.check(unsafe { (self.api.sign_init)(context.raw()) }, "EVP_PKEY_sign_init")?;
        set_signature_digest(self.api, &context, digest)?;
        Ok(context)
    }

    /// A context that signs messages without a digest, with implementations of these properties.
    pub(super) fn message_context(
        &self,
        library: Option<&Context<'a>>,
        properties: Option<&CStr>,
    ) -> Result<Handle<'a>, Failure> {
        let context = message_context(self)?;
        let (library, properties) = (raw_context(library), properties.map_or(ptr::null(), CStr::as_ptr));
        let init = self.api.message_sign_init_in;
        // SAFETY: all are live; the context makes its own key context, which refers to the key; null means no digest
        // and no parameters.
        let status = unsafe {
            let key = self.handle.raw();
            init(context.raw(), ptr::null_mut(), ptr::null(), library, properties, key, ptr::null())
        };
        self.api.check(status, "EVP_DigestSignInit_ex")?;
        Ok(context)
    }

    fn context(&self, init: Init, call: &'static str) -> Result<Handle<'a>, Failure> {
        // SAFETY: the context takes a reference of its own to the key.
        let raw = unsafe { (self.api.key_context_new)(self.handle.raw(), ptr::null_mut()) };
        let context = self.api.own(raw, self.api.key_context_free, "EVP_PKEY_CTX_new")?;
        // SAFETY: `context` is an EVP_PKEY_CTX.
        self.api.check(unsafe { init(context.raw()) }, call)?;
        Ok(context)
    }
}

/// What a [`Transform`] makes of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action<'n> {
    /// The signature of a digest made by the digest of that name (RSA: PKCS#1 v1.5).
    SignDigest(&'n CStr),
    /// RSA encryption under the public half, OAEP with SHA-256.
    Encrypt,
    /// RSA decryption, OAEP with SHA-256.
    Decrypt,
    /// The secret shared with oneself: as much work as with a stranger. It has no input.
    Derive,
}

/// An operation that turns input bytes into output bytes under a key.
pub(crate) struct Transform<'a> {
    api: &'a Api,
    context: Handle<'a>,
    run: Run,
}

enum Run {
    WithInput(Transforming, &'static str),
    Derive,
}

impl<'a> Transform<'a> {
    /// Sets `action` up with `key`.
    pub(crate) fn new(key: &Key<'a>, action: Action<'_>) -> Result<Self, Failure> {
        let api = key.api;
        let (context, run) = match action {
            Action::SignDigest(digest) => {
                let context = key.context(api.sign_init, "EVP_PKEY_sign_init")?;
                set_signature_digest(api, &context, digest)?;
                (context, Run::WithInput(api.sign, "EVP_PKEY_sign"))
            }
            Action::Encrypt => {
                let context = key.context(api.encrypt_init, "EVP_PKEY_encrypt_init")?;
                set_oaep(api, &context)?;
                (context, Run::WithInput(api.encrypt, "EVP_PKEY_encrypt"))
            }
            Action::Decrypt => {
                let context = key.context(api.decrypt_init, "EVP_PKEY_decrypt_init")?;
                set_oaep(api, &context)?;
                (context, Run::WithInput(api.decrypt, "EVP_PKEY_decrypt"))
            }
            Action::Derive => {
                let context = key.context(api.derive_init, "EVP_PKEY_derive_init")?;
                // SAFETY: both are live; the context takes a reference of its own to the peer.
                let status = unsafe { (api.derive_peer)(context.raw(), key.handle.raw()) };
                api.check(status, "EVP_PKEY_derive_set_peer")?;
                (context, Run::Derive)
            }
        };
        Ok(Self { api, context, run })
    }

    /// Runs the operation into the front of `out`; the length of its result.
    pub(crate) fn run(&mut self, input: &[u8], out: &mut [u8; MAX_OUTPUT_BYTES]) -> Result<usize, Failure> {
        let mut length = out.len();
        let (status, call) = match self.run {
            Run::WithInput(run, call) => {
                // SAFETY: the library reads the bytes of `input` and writes at most `length` bytes, which `out` has.
                let status =
                    unsafe { run(self.context.raw(), out.as_mut_ptr(), &raw mut length, input.as_ptr(), input.len()) };
                (status, call)
            }
            Run::Derive => {
                // SAFETY: the library writes at most `length` bytes, which `out` has.
                let status = unsafe { (self.api.derive)(self.context.raw(), out.as_mut_ptr(), &raw mut length) };
                (status, "EVP_PKEY_derive")
            }
        };
        self.api.check(status, call)?;
        Ok(length)
    }
}

/// Verifies signatures of digests.
pub(crate) struct Verifier<'a> {
    api: &'a Api,
    context: Handle<'a>,
}

impl<'a> Verifier<'a> {
    /// Verifies with the public half of `key`, for digests made by the digest of that name.
    pub(crate) fn new(key: &Key<'a>, digest: &CStr) -> Result<Self, Failure> {
        let context = key.context(key.api.verify_init, "EVP_PKEY_verify_init")?;
        set_signature_digest(key.api, &context, digest)?;
        Ok(Self { api: key.api, context })
    }

    /// `Ok` if `signature` is one of `digest`.
    pub(crate) fn verify(&mut self, signature: &[u8], digest: &[u8]) -> Result<(), Failure> {
        // SAFETY: the library reads the bytes of both.
        let status = unsafe {
            let raw = self.context.raw();
            (self.api.verify)(raw, signature.as_ptr(), signature.len(), digest.as_ptr(), digest.len())
        };
        self.api.check(status, "EVP_PKEY_verify")
    }
}

/// Signs whole messages, for keys such as Ed25519's that take no digest.
pub(crate) struct MessageSigner<'a> {
    api: &'a Api,
    context: Handle<'a>,
}

impl<'a> MessageSigner<'a> {
    /// Signs with `key`.
    pub(crate) fn new(key: &Key<'a>) -> Result<Self, Failure> {
        let context = message_context(key)?;
        message_init(key.api.message_sign_init, key.api, &context, Some(key))?;
        Ok(Self { api: key.api, context })
    }

    /// Signs `message` into the front of `out`; the signature's length.
    pub(crate) fn sign(&mut self, message: &[u8], out: &mut [u8; MAX_OUTPUT_BYTES]) -> Result<usize, Failure> {
        message_init(self.api.message_sign_init, self.api, &self.context, None)?;
        let mut length = out.len();
        // SAFETY: the library reads the bytes of `message` and writes at most `length` bytes, which `out` has.
        let status = unsafe {
            let raw = self.context.raw();
            (self.api.message_sign)(raw, out.as_mut_ptr(), &raw mut length, message.as_ptr(), message.len())
        };
        self.api.check(status, "EVP_DigestSign")?;
        Ok(length)
    }
}

/// Verifies signatures of whole messages.
pub(crate) struct MessageVerifier<'a> {
    api: &'a Api,
    context: Handle<'a>,
}

impl<'a> MessageVerifier<'a> {
    /// Verifies with the public half of `key`.
    pub(crate) fn new(key: &Key<'a>) -> Result<Self, Failure> {
        let context = message_context(key)?;
        message_init(key.api.message_verify_init, key.api, &context, Some(key))?;
        Ok(Self { api: key.api, context })
    }

    /// `Ok` if `signature` is one of `message`.
    pub(crate) fn verify(&mut self, signature: &[u8], message: &[u8]) -> Result<(), Failure> {
        message_init(self.api.message_verify_init, self.api, &self.context, None)?;
        // SAFETY: the library reads the bytes of both.
        let status = unsafe {
            let raw = self.context.raw();
            (self.api.message_verify)(raw, signature.as_ptr(), signature.len(), message.as_ptr(), message.len())
        };
        self.api.check(status, "EVP_DigestVerify")
    }
}

fn raw_context(library: Option<&Context<'_>>) -> Object {
    library.map_or(ptr::null_mut(), |library| library.handle.raw())
}

fn message_context<'a>(key: &Key<'a>) -> Result<Handle<'a>, Failure> {
    // SAFETY: takes nothing.
    let raw = unsafe { (key.api.digest_context_new)() };
    key.api.own(raw, key.api.digest_context_free, "EVP_MD_CTX_new")
}

/// Starts a message. Without a key the context goes on with the one it has, a fifth faster than if it took it again.
fn message_init(init: MessageInit, api: &Api, context: &Handle<'_>, key: Option<&Key<'_>>) -> Result<(), Failure> {
    let (none, key) = (ptr::null_mut(), key.map_or(ptr::null_mut(), |key| key.handle.raw()));
    // SAFETY: the context makes its own key context, which refers to the key; null means no digest and no engine.
    let status = unsafe { init(context.raw(), ptr::null_mut(), none, none, key) };
    api.check(status, "start of a message")
}

fn set_signature_digest(api: &Api, context: &Handle<'_>, digest: &CStr) -> Result<(), Failure> {
    let digest = api.digest(digest)?;
    // SAFETY: both are live; the context finds the digest again by its name.
    let status = unsafe { (api.key_signature_digest)(context.raw(), digest.raw()) };
    api.check(status, "EVP_PKEY_CTX_set_signature_md")
}

fn set_oaep(api: &Api, context: &Handle<'_>) -> Result<(), Failure> {
    let digest = api.digest(c"SHA256")?;
    // SAFETY: `context` is an EVP_PKEY_CTX set up for an RSA key, or the library refuses.
    api.check(unsafe { (api.key_padding)(context.raw(), OAEP_PADDING) }, "EVP_PKEY_CTX_set_rsa_padding")?;
    // SAFETY: both are live; the context finds the digest again by its name.
    api.check(unsafe { (api.key_oaep_digest)(context.raw(), digest.raw()) }, "EVP_PKEY_CTX_set_rsa_oaep_md")
}
