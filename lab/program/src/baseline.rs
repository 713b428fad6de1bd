//! The system's OpenSSL as a baseline: one operation in this process, as a program would call it.
//!
//! An operation goes through EVP with a context that is set up once and reused. Ciphers work in place and take a new
//! initialisation vector each time. That is the fastest way OpenSSL 3 offers, so the comparison is fair.

use sidecore::core::session::{Algorithm, Class, Op};
use sidecore::engine::crypto::sample::{Sample, sample};
use sidecore::engine::crypto::{KeyMaterial, Scheme};
use sidecore_libcrypto::{Action, Cipher, Context, Digest, Failure, Half, Key, MAX_DIGEST_BYTES, Mac, Operation};

#[derive(Debug, thiserror::Error)]
#[error("no key for {0}")]
pub(crate) struct NoKey(String);

pub(crate) fn openssl_library() -> Option<String> {
    Some(format!("openssl {}", Context::system().ok()?.version().split(' ').nth(1)?))
}

pub(crate) type Run = Box<dyn FnMut() -> Result<(), Failure>>;

/// Room for any signature, ciphertext or shared secret (RSA-8192: 1024 bytes).
pub(crate) const MAX_OUTPUT_BYTES: usize = 1024;

/// The operation of that class on a message of `size` bytes, with the sample's key. `None`: the library or the size has
/// none. Operations on digests, ciphertexts and key agreement have a fixed size and ignore `size`.
pub(crate) fn operation(openssl: &Context, class: Class, size: usize) -> Result<Option<Run>, Failure> {
    let sample = sample(class, size, 1);
    match (class.op(), &sample.spec.scheme, &sample.spec.key) {
        (Op::Encrypt, Scheme::Cipher(_), _) => return cipher(openssl, class, size, &sample),
        (Op::Encrypt, ..) => return Ok(None),
        (Op::Digest, ..) => return digest(openssl, class.name(), size).map(Some),
        (Op::Sign, _, KeyMaterial::Symmetric(key)) => return hmac(openssl, class, size, key.expose()).map(Some),
        _ => {}
    }
    let (Some(kind), Ok(der)) = (Kind::of(class.algorithm()), private_key(class.name())) else { return Ok(None) };
    let key = kind.read(openssl, &der, "")?;
    Ok(Some(match class.op() {
        Op::Derive => {
            let mut derive = Operation::new(openssl, &key, "", Action::Derive)?;
            // A key agreement with its own public key costs the same as with any other.
            derive.set_peer(&key)?;
            Box::new(move || derive.run(&[], &mut [0; MAX_OUTPUT_BYTES]).map(drop))
        }
        Op::Decrypt => decrypt(openssl, &key)?,
        op => signature(openssl, &key, kind.digest, op, size)?,
    }))
}

pub(crate) fn private_key(op: &str) -> Result<Vec<u8>, NoKey> {
    let signing = op.strip_suffix("-verify").map(|name| format!("{name}-sign"));
    let class = signing.and_then(|name| Class::from_name(&name)).or_else(|| Class::from_name(op));
    match class.map(|class| sample(class, 64, 1).spec.key) {
        Some(KeyMaterial::Private(secret)) => Ok(secret.expose().to_vec()),
        _ => Err(NoKey(op.to_owned())),
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    name: &'static str,
    bits: usize,
    /// The signed digest (RSA: PKCS#1 v1.5) and its length. `None`: the key signs whole messages.
    pub(crate) digest: Option<(&'static str, usize)>,
}

impl Kind {
    pub(crate) fn of(algorithm: Algorithm) -> Option<Self> {
        let (sha_256, sha_384) = (Some(("SHA256", 32)), Some(("SHA384", 48)));
        let (name, bits, digest) = match algorithm {
            Algorithm::Rsa1024 => ("RSA", 1024, sha_256),
            Algorithm::Rsa2048 => ("RSA", 2048, sha_256),
            Algorithm::Rsa3072 => ("RSA", 3072, sha_256),
            Algorithm::Rsa4096 => ("RSA", 4096, sha_256),
            Algorithm::Rsa6144 => ("RSA", 6144, sha_256),
            Algorithm::Rsa8192 => ("RSA", 8192, sha_256),
            Algorithm::P256 => ("EC", 256, sha_256),
            Algorithm::P384 => ("EC", 384, sha_384),
            Algorithm::P521 => ("EC", 521, Some(("SHA512", 64))),
            Algorithm::Ed25519 => ("ED25519", 256, None),
            Algorithm::X25519 => ("X25519", 253, None),
            _ => return None,
        };
        Some(Self { name, bits, digest })
    }

    /// The key of a document in the service's format: PKCS#8, or X25519's raw bytes.
    pub(crate) fn read(self, openssl: &Context, document: &[u8], properties: &str) -> Result<Key, Failure> {
        let key = match self.name {
            "X25519" => Key::from_raw(openssl, Half::Private, (self.name, document), properties)?,
            _ => Key::from_der(openssl, Half::Private, document, properties)?,
        };
        let wrong = || Failure::new("the key", format!("is not of the kind {}, {} bits", self.name, self.bits));
        if key.is(self.name, self.bits) { Ok(key) } else { Err(wrong()) }
    }
}

/// Its input is a digest, or a message for keys without a digest.
pub(crate) fn signer(
    openssl: &Context,
    key: &Key,
    properties: &str,
    digest: Option<(&str, usize)>,
    verifies: bool,
) -> Result<Operation, Failure> {
    let Some((digest, _)) = digest else {
        return Operation::on_messages(openssl, key, properties, None, verifies);
    };
    let action = if verifies { Action::Verify } else { Action::Sign };
    let operation = Operation::new(openssl, key, properties, action)?;
    operation.set("digest", digest)?;
    Ok(operation)
}

pub(crate) fn verify(verifier: &mut Operation, signature: &[u8], input: &[u8]) -> Result<(), Failure> {
    verifier.again()?;
    verifier.verify(signature, input)
}

/// `None`: the sample was rounded to a size that the mode accepts.
fn cipher(openssl: &Context, class: Class, size: usize, sample: &Sample) -> Result<Option<Run>, Failure> {
    let iv_bytes = sample.payload_offset() - sample.head_len;
    let KeyMaterial::Symmetric(key) = &sample.spec.key else { return Ok(None) };
    if sample.input.len() != sample.payload_offset() + size {
        return Ok(None);
    }
    let name = if class.algorithm() == Algorithm::TripleDesCbc { "DES-EDE3-CBC" } else { class.name() };
    let mut cipher = Cipher::new(openssl, name, key.expose())?;
    let authenticated = ["-gcm", "-poly1305"].iter().any(|mode| name.ends_with(mode));
    let (mut data, mut iv, mut count) = (vec![0; size], [0; 16], 0u64);
    Ok(Some(Box::new(move || {
        // A new initialisation vector for each message.
        count += 1;
        iv[..8].copy_from_slice(&count.to_le_bytes());
        cipher.encrypt(&iv[..iv_bytes], &mut data)?;
        if authenticated {
            std::hint::black_box(cipher.tag()?);
        }
        Ok(())
    })))
}

fn digest(openssl: &Context, name: &str, size: usize) -> Result<Run, Failure> {
    let (mut digest, message) = (Digest::new(openssl, name)?, vec![0; size]);
    Ok(Box::new(move || digest.digest(&message, &mut [0; _]).map(drop)))
}

fn hmac(openssl: &Context, class: Class, size: usize, key: &[u8]) -> Result<Run, Failure> {
    let digest = class.name().trim_start_matches("hmac-");
    let (mut mac, message) = (Mac::hmac(openssl, digest, key)?, vec![0; size]);
    Ok(Box::new(move || mac.tag(&message, &mut [0; _]).map(drop)))
}

fn decrypt(openssl: &Context, key: &Key) -> Result<Run, Failure> {
    let oaep = |action| {
        let operation = Operation::new(openssl, key, "", action)?;
        operation.set("rsa_padding_mode", "oaep")?;
        operation.set("rsa_oaep_md", "SHA256")?;
        Ok(operation)
    };
    let secret = [0x5c; 48];
    let mut ciphertext = [0; MAX_OUTPUT_BYTES];
    let length = oaep(Action::Encrypt)?.run(&secret, &mut ciphertext)?;
    let mut decrypt = oaep(Action::Decrypt)?;
    Ok(Box::new(move || {
        let mut plaintext = [0; MAX_OUTPUT_BYTES];
        let got = decrypt.run(&ciphertext[..length], &mut plaintext)?;
        if plaintext[..got] == secret {
            Ok(())
        } else {
            Err(Failure::new("EVP_PKEY_decrypt", "the plaintext is not what was encrypted"))
        }
    }))
}

fn signature(
    openssl: &Context,
    key: &Key,
    digest: Option<(&'static str, usize)>,
    op: Op,
    size: usize,
) -> Result<Run, Failure> {
    // A message is hashed each time; a digest is the input itself.
    let (hash, size) = match digest {
        Some((_, bytes)) if op == Op::SignDigest => (None, bytes),
        Some((name, _)) => (Some(Digest::new(openssl, name)?), size),
        None => (None, size),
    };
    let mut input = Input { hash, message: vec![0; size], hashed: [0; _] };
    let (mut signing, mut signature) = (signer(openssl, key, "", digest, false)?, [0; MAX_OUTPUT_BYTES]);
    if op != Op::Verify {
        return Ok(Box::new(move || signing.run(input.get()?, &mut [0; MAX_OUTPUT_BYTES]).map(drop)));
    }
    let length = signing.run(input.get()?, &mut signature)?;
    let mut verifier = signer(openssl, key, "", digest, true)?;
    Ok(Box::new(move || verify(&mut verifier, &signature[..length], input.get()?)))
}

struct Input {
    hash: Option<Digest>,
    message: Vec<u8>,
    hashed: [u8; MAX_DIGEST_BYTES],
}

impl Input {
    fn get(&mut self) -> Result<&[u8], Failure> {
        let Some(hash) = &mut self.hash else { return Ok(&self.message) };
        let length = hash.digest(&self.message, &mut self.hashed)?;
        Ok(&self.hashed[..length])
    }
}

#[cfg(test)]
mod tests;
