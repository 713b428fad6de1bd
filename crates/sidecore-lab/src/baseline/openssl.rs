//! The system's OpenSSL as a baseline: one operation in this process, as a program would call it.
//!
//! An operation goes through EVP with a context that is set up once and reused; ciphers work in place and take a new
//! initialisation vector each time. That is the fastest way OpenSSL 3 offers, so the comparison is a fair one.

use std::ffi::CStr;

use crate::ffi::openssl::{
    Action, Api, Cipher, Digest, Key, KeyKind, Mac, MessageSigner, MessageVerifier, Transform, Verifier,
};
pub(crate) use crate::ffi::openssl::{Failure, LoadError};

/// Runs the operation once; a failure says which call of the library refused and why.
pub(crate) type Operation<'a> = Box<dyn FnMut() -> Result<(), Failure> + 'a>;

/// The system's libcrypto.
pub(crate) struct OpenSsl {
    api: Api,
}

impl OpenSsl {
    /// Loads the library; the error says which packages to install.
    pub(crate) fn load() -> Result<Self, LoadError> {
        Ok(Self { api: Api::load()? })
    }

    /// The version as the library words it, e.g. `OpenSSL 3.0.19 27 Jan 2026`.
    pub(crate) fn version(&self) -> String {
        self.api.version()
    }

    /// The operation of that name on a message of `size` bytes, or `None` if the library or the size has none such.
    ///
    /// `key` is a PKCS#8 document in DER for the operations of private keys; without one a key is made. Operations on
    /// digests, ciphertexts and key agreement have a size of their own and ignore `size`.
    pub(crate) fn operation(
        &self,
        name: &str,
        size: usize,
        key: Option<&[u8]>,
    ) -> Result<Option<Operation<'_>>, Failure> {
        if let Some(spec) = CIPHERS.iter().find(|spec| spec.name == name) {
            return if spec.takes(size) { self.cipher(spec, size).map(Some) } else { Ok(None) };
        }
        if let Some(digest) = digest_name(name) {
            return self.digest(digest, size).map(Some);
        }
        if let Some(digest) = name.strip_prefix("hmac-").and_then(digest_name) {
            return self.hmac(digest, size).map(Some);
        }
        let Some((kind, purpose)) = parse_key_operation(name) else { return Ok(None) };
        let key = match key {
            Some(der) => Key::from_pkcs8(&self.api, der, kind)?,
            None => Key::generate(&self.api, kind)?,
        };
        self.key_operation(&key, kind, purpose, size).map(Some)
    }

    fn cipher(&self, spec: &CipherSpec, size: usize) -> Result<Operation<'_>, Failure> {
        let mut cipher = Cipher::new(&self.api, spec.library_name, &KEY_BYTES[..spec.key_bytes])?;
        let (mut data, mut iv, iv_bytes, authenticated) = (vec![0; size], Iv::default(), spec.iv_bytes, spec.tag);
        Ok(Box::new(move || {
            cipher.encrypt(iv.next(iv_bytes), &mut data)?;
            if authenticated {
                std::hint::black_box(cipher.tag()?);
            }
            Ok(())
        }))
    }

    fn digest(&self, name: &CStr, size: usize) -> Result<Operation<'_>, Failure> {
        let (mut digest, message) = (Digest::new(&self.api, name)?, vec![0; size]);
        Ok(Box::new(move || digest.digest(&message, &mut [0; _]).map(drop)))
    }

    fn hmac(&self, digest: &CStr, size: usize) -> Result<Operation<'_>, Failure> {
        let (mut mac, message) = (Mac::hmac(&self.api, digest, &KEY_BYTES[..32])?, vec![0; size]);
        Ok(Box::new(move || mac.tag(&message, &mut [0; _]).map(drop)))
    }

    fn key_operation<'a>(
        &'a self,
        key: &Key<'a>,
        kind: KeyKind,
        purpose: Purpose,
        size: usize,
    ) -> Result<Operation<'a>, Failure> {
        match (kind, purpose) {
            (_, Purpose::Derive) => {
                let mut derive = Transform::new(key, Action::Derive)?;
                Ok(Box::new(move || derive.run(&[], &mut [0; _]).map(drop)))
            }
            (_, Purpose::Decrypt) => decrypt(key),
            (KeyKind::Ed25519, Purpose::Verify) => verify_message(key, size),
            (KeyKind::Ed25519, _) => {
                let (mut signer, message) = (MessageSigner::new(key)?, vec![0; size]);
                Ok(Box::new(move || signer.sign(&message, &mut [0; _]).map(drop)))
            }
            (_, Purpose::SignDigest) => {
                let (name, bytes) = signature_digest(kind);
                let mut sign = Transform::new(key, Action::SignDigest(name))?;
                Ok(Box::new(move || sign.run(&KEY_BYTES[..bytes], &mut [0; _]).map(drop)))
            }
            (_, Purpose::Sign) => self.sign(key, kind, size),
            (_, Purpose::Verify) => self.verify(key, kind, size),
        }
    }

    fn sign<'a>(&'a self, key: &Key<'a>, kind: KeyKind, size: usize) -> Result<Operation<'a>, Failure> {
        let (name, bytes) = signature_digest(kind);
        let mut sign = Transform::new(key, Action::SignDigest(name))?;
        let (mut digest, message) = (Digest::new(&self.api, name)?, vec![0; size]);
        Ok(Box::new(move || {
            let mut hashed = [0; _];
            digest.digest(&message, &mut hashed)?;
            sign.run(&hashed[..bytes], &mut [0; _]).map(drop)
        }))
    }

    fn verify<'a>(&'a self, key: &Key<'a>, kind: KeyKind, size: usize) -> Result<Operation<'a>, Failure> {
        let (name, bytes) = signature_digest(kind);
        let (mut digest, message) = (Digest::new(&self.api, name)?, vec![0; size]);
        let (mut hashed, mut signature) = ([0; _], [0; _]);
        digest.digest(&message, &mut hashed)?;
        let length = Transform::new(key, Action::SignDigest(name))?.run(&hashed[..bytes], &mut signature)?;
        let mut verifier = Verifier::new(key, name)?;
        Ok(Box::new(move || {
            digest.digest(&message, &mut hashed)?;
            verifier.verify(&signature[..length], &hashed[..bytes])
        }))
    }
}

/// Key material for baselines, which protect nothing: no two halves or thirds are equal, as XTS and 3DES demand.
const KEY_BYTES: [u8; 64] = {
    let mut bytes = [0; 64];
    let mut i = 0;
    while i < bytes.len() {
        bytes[i] = (i as u8).wrapping_mul(37).wrapping_add(11);
        i += 1;
    }
    bytes
};

const MAX_IV_BYTES: usize = 16;

/// Initialisation vectors that differ from message to message.
#[derive(Default)]
struct Iv {
    bytes: [u8; MAX_IV_BYTES],
    count: u64,
}

impl Iv {
    fn next(&mut self, length: usize) -> &[u8] {
        self.count += 1;
        self.bytes[..8].copy_from_slice(&self.count.to_le_bytes());
        &self.bytes[..length]
    }
}

struct CipherSpec {
    name: &'static str,
    library_name: &'static CStr,
    key_bytes: usize,
    iv_bytes: usize,
    /// Whether the mode makes a tag.
    tag: bool,
    /// The shortest message, and what a message's length must be a multiple of.
    shortest: usize,
    multiple: usize,
}

impl CipherSpec {
    const fn stream(name: &'static str, library_name: &'static CStr, key_bytes: usize, iv_bytes: usize) -> Self {
        Self { name, library_name, key_bytes, iv_bytes, tag: false, shortest: 0, multiple: 1 }
    }

    const fn authenticated(name: &'static str, library_name: &'static CStr, key_bytes: usize) -> Self {
        Self { tag: true, ..Self::stream(name, library_name, key_bytes, 12) }
    }

    const fn blocks(name: &'static str, library_name: &'static CStr, key_bytes: usize, block: usize) -> Self {
        Self { multiple: block, ..Self::stream(name, library_name, key_bytes, block) }
    }

    const fn sectors(name: &'static str, library_name: &'static CStr, key_bytes: usize) -> Self {
        Self { shortest: 16, ..Self::stream(name, library_name, key_bytes, 16) }
    }

    fn takes(&self, size: usize) -> bool {
        size >= self.shortest && size.is_multiple_of(self.multiple)
    }
}

const CIPHERS: [CipherSpec; 10] = [
    CipherSpec::authenticated("aes-128-gcm", c"AES-128-GCM", 16),
    CipherSpec::authenticated("aes-256-gcm", c"AES-256-GCM", 32),
    CipherSpec::authenticated("chacha20-poly1305", c"ChaCha20-Poly1305", 32),
    CipherSpec::stream("aes-128-ctr", c"AES-128-CTR", 16, 16),
    CipherSpec::stream("aes-256-ctr", c"AES-256-CTR", 32, 16),
    CipherSpec::blocks("aes-128-cbc", c"AES-128-CBC", 16, 16),
    CipherSpec::blocks("aes-256-cbc", c"AES-256-CBC", 32, 16),
    CipherSpec::blocks("3des-cbc", c"DES-EDE3-CBC", 24, 8),
    CipherSpec::sectors("aes-128-xts", c"AES-128-XTS", 32),
    CipherSpec::sectors("aes-256-xts", c"AES-256-XTS", 64),
];

/// What is asked of a private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Sign,
    SignDigest,
    Verify,
    Decrypt,
    Derive,
}

fn digest_name(name: &str) -> Option<&'static CStr> {
    match name {
        "sha-256" => Some(c"SHA256"),
        "sha-384" => Some(c"SHA384"),
        "sha-512" => Some(c"SHA512"),
        _ => None,
    }
}

fn parse_key_operation(name: &str) -> Option<(KeyKind, Purpose)> {
    if name == "x25519" {
        return Some((KeyKind::X25519, Purpose::Derive));
    }
    let (key, purpose) = [
        ("-sign-digest", Purpose::SignDigest),
        ("-sign", Purpose::Sign),
        ("-verify", Purpose::Verify),
        ("-decrypt", Purpose::Decrypt),
    ]
    .into_iter()
    .find_map(|(suffix, purpose)| Some((name.strip_suffix(suffix)?, purpose)))?;
    let kind = match key {
        "rsa-1024" => KeyKind::Rsa(1024),
        "rsa-2048" => KeyKind::Rsa(2048),
        "rsa-3072" => KeyKind::Rsa(3072),
        "rsa-4096" => KeyKind::Rsa(4096),
        "p-256" => KeyKind::P256,
        "p-384" => KeyKind::P384,
        "ed25519" => KeyKind::Ed25519,
        _ => return None,
    };
    let supported = match purpose {
        Purpose::Decrypt => matches!(kind, KeyKind::Rsa(_)),
        Purpose::SignDigest => kind != KeyKind::Ed25519,
        Purpose::Sign | Purpose::Verify | Purpose::Derive => true,
    };
    supported.then_some((kind, purpose))
}

/// The digest that a signature of that kind of key is made over, and its length.
fn signature_digest(kind: KeyKind) -> (&'static CStr, usize) {
    if kind == KeyKind::P384 { (c"SHA384", 48) } else { (c"SHA256", 32) }
}

fn decrypt<'a>(key: &Key<'a>) -> Result<Operation<'a>, Failure> {
    let secret = &KEY_BYTES[..48];
    let mut ciphertext = [0; _];
    let length = Transform::new(key, Action::Encrypt)?.run(secret, &mut ciphertext)?;
    let mut decrypt = Transform::new(key, Action::Decrypt)?;
    Ok(Box::new(move || {
        let mut plaintext = [0; _];
        let got = decrypt.run(&ciphertext[..length], &mut plaintext)?;
        if plaintext[..got] == *secret {
            Ok(())
        } else {
            Err(Failure::new("EVP_PKEY_decrypt", "the plaintext is not what was encrypted"))
        }
    }))
}

fn verify_message<'a>(key: &Key<'a>, size: usize) -> Result<Operation<'a>, Failure> {
    let (message, mut signature) = (vec![0; size], [0; _]);
    let length = MessageSigner::new(key)?.sign(&message, &mut signature)?;
    let mut verifier = MessageVerifier::new(key)?;
    Ok(Box::new(move || verifier.verify(&signature[..length], &message)))
}

#[cfg(test)]
mod tests;
