//! Signatures: maps the settings of programs to the service's schemes.

use crate::keyops::call::{self, Request};
use crate::keyops::digest::Digest;
use crate::keyops::failure::Failure;
use crate::keyops::key::{Key, Public, Raw};
use crate::keyops::wait::Caller;
use crate::spec::{EncryptionPadding, Hash, SaltLength, Scheme, SignaturePadding};
use sidecore_core::session::{Op, Refusal};
use std::sync::Arc;

/// Padding of an RSA signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// PKCS#1 v1.5.
    #[default]
    Pkcs1,
    /// PSS of PKCS#1 v2.2.
    Pss,
}

/// Length of a PSS salt, as programs set it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Salt {
    /// As long as the digest.
    Digest,
    /// Verifying: any length; signing: the longest.
    #[default]
    Auto,
    /// As long as the key allows.
    Max,
    /// As `Auto`; signing: no longer than the digest.
    AutoDigestMax,
    /// This number of bytes.
    Bytes(u16),
}

/// Parameters of a signature, except the key.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Digest of the message, for algorithms that use one.
    pub digest: Option<Digest>,
    /// Padding of RSA.
    pub padding: Padding,
    /// Salt of PSS.
    pub salt: Salt,
    /// Digest of the mask generation function; `None`: the same.
    pub mgf1: Option<Digest>,
}

/// A signature as a request to the service.
#[derive(Debug)]
pub struct Prepared {
    /// Scheme of the session on the key.
    pub scheme: Scheme,
    /// Operation.
    pub op: Op,
    /// Input of the operation.
    pub payload: Vec<u8>,
    /// Room for the result, bytes.
    pub max_output: usize,
}

impl Settings {
    /// Signs a digest, or a message where the algorithm takes no digest.
    ///
    /// # Errors
    /// The key or settings cannot sign, the digest does not fit them, or the service fails or refuses.
    pub fn sign(&self, caller: Caller<'_>, key: &Arc<Key>, digest: &[u8]) -> Result<Vec<u8>, Failure> {
        let Prepared { scheme, op, payload, max_output } = self.prepare(key, digest)?;
        let request = Request { key, scheme, op, head: &[], input: &payload, max_output };
        call::call(caller, &request)?.map_err(Failure::from)
    }

    /// The request that makes such a signature, for programs with a lane of their own.
    ///
    /// # Errors
    /// The key or settings cannot sign, or the digest does not fit them.
    pub fn prepare(&self, key: &Key, digest: &[u8]) -> Result<Prepared, Failure> {
        let (scheme, payload) = self.scheme(key, digest)?;
        let op = if key.public.family().takes_digest() { Op::SignDigest } else { Op::Sign };
        // The service's library requires two bytes more than the longest signature on P-521.
        Ok(Prepared { scheme, op, payload, max_output: key.public.max_len() + 2 })
    }

    /// Verifies a signature of a digest, or of a message.
    ///
    /// # Errors
    /// The key or settings cannot verify, the digest does not fit them, or the service fails or refuses.
    pub fn verify(&self, caller: Caller<'_>, key: &Arc<Key>, signature: &[u8], digest: &[u8]) -> Result<bool, Failure> {
        let (scheme, payload) = self.scheme(key, digest)?;
        let request = Request { key, scheme, op: Op::Verify, head: signature, input: &payload, max_output: 0 };
        match call::call(caller, &request)? {
            Ok(_) => Ok(true),
            Err(Refusal::Authentication | Refusal::InputLength) => Ok(false),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Recovers the signed digest from a PKCS#1 v1.5 signature, or all padded bytes if no digest is set.
    ///
    /// # Errors
    /// Another key or padding, a signature that does not match key and digest, or the service fails or refuses.
    pub fn recover(&self, caller: Caller<'_>, key: &Arc<Key>, signature: &[u8]) -> Result<Vec<u8>, Failure> {
        if !matches!(key.public, Public::Rsa { .. }) || self.padding != Padding::Pkcs1 {
            return Err(Failure::unsupported("only RSA signatures by PKCS#1 v1.5 show what was signed"));
        }
        let scheme = Scheme::RsaEncryption { padding: EncryptionPadding::None };
        let max_output = key.public.max_len();
        let request = Request { key, scheme, op: Op::Encrypt, head: &[], input: signature, max_output };
        let padded = match call::call(caller, &request)? {
            Ok(padded) => padded,
            Err(Refusal::Authentication | Refusal::InputLength) => return Err(no_signature()),
            Err(refusal) => return Err(refusal.into()),
        };
        let signed = unframed(&padded).ok_or_else(no_signature)?;
        let Some(digest) = self.digest else { return Ok(signed.to_vec()) };
        let found = &signed[signed.len().saturating_sub(digest.size())..];
        let is_whole = found.len() == digest.size() && digest_info(Some(digest), found) == signed;
        if is_whole { Ok(found.to_vec()) } else { Err(no_signature()) }
    }

    fn scheme(&self, key: &Key, digest: &[u8]) -> Result<(Scheme, Vec<u8>), Failure> {
        if let Some(expected) = self.digest
            && expected.size() != digest.len()
        {
            let (found, expected) = (digest.len(), expected.size());
            return Err(Failure::input(format!("a digest of {found} bytes: give one of {expected}")));
        }
        match &key.public {
            Public::Raw(Raw::Ed25519, _) => Ok((Scheme::Ed25519, digest.to_vec())),
            Public::Raw(Raw::MlDsa65, _) => Ok((Scheme::MlDsa65, digest.to_vec())),
            Public::Raw(..) => Err(Failure::unsupported("signatures with this key")),
            // ECDSA uses the leading bits of any digest, so one session serves all digests.
            Public::Ec { .. } => Ok((Scheme::EcdsaRaw, ecdsa_input(digest))),
            Public::Rsa { .. } => self.rsa(key, digest),
        }
    }

    fn rsa(&self, key: &Key, digest: &[u8]) -> Result<(Scheme, Vec<u8>), Failure> {
        match self.padding {
            Padding::Pkcs1 => {
                let scheme = Scheme::RsaSignature { padding: SignaturePadding::Pkcs1Raw, hash: Hash::Sha256 };
                let payload = digest_info(self.digest, digest);
                let longest = key.public.max_len() - 11;
                if payload.is_empty() || payload.len() > longest {
                    let found = payload.len();
                    return Err(Failure::input(format!("{found} bytes to sign: give 1 to {longest}, or a digest")));
                }
                Ok((scheme, payload))
            }
            Padding::Pss => {
                let Some(hash) = self.digest.and_then(Digest::hash) else {
                    return Err(Failure::unsupported("PSS with this digest: use one of SHA-2"));
                };
                let Some(mgf1) = self.mgf1.or(self.digest).and_then(Digest::padding_hash) else {
                    return Err(Failure::unsupported("PSS with this digest for MGF1: use SHA-1 or one of SHA-2"));
                };
                let padding = SignaturePadding::PssRaw { mgf1, salt: self.salt_length(key, hash)? };
                Ok((Scheme::RsaSignature { padding, hash }, digest.to_vec()))
            }
        }
    }

    fn salt_length(&self, key: &Key, hash: Hash) -> Result<SaltLength, Failure> {
        let longest = longest_salt(key, hash.len())
            .ok_or_else(|| Failure::input("the key is too small for PSS with this digest: use a shorter digest"))?;
        Ok(match self.salt {
            Salt::Auto => SaltLength::Any,
            Salt::Max => SaltLength::Bytes(longest),
            Salt::AutoDigestMax if usize::from(longest) < hash.len() => SaltLength::Bytes(longest),
            Salt::Digest | Salt::AutoDigestMax => SaltLength::Digest,
            Salt::Bytes(bytes) if bytes <= longest => SaltLength::Bytes(bytes),
            Salt::Bytes(bytes) => {
                return Err(Failure::input(format!("a PSS salt of {bytes} bytes: this key takes at most {longest}")));
            }
        })
    }

    /// Length of the salt in a signature with these settings, bytes.
    pub fn salt_bytes(&self, key: &Key, digest: Digest) -> Option<u16> {
        let longest = longest_salt(key, digest.size())?;
        Some(match self.salt {
            Salt::Digest => digest.size() as u16,
            Salt::Auto | Salt::Max => longest,
            Salt::AutoDigestMax => longest.min(digest.size() as u16),
            Salt::Bytes(bytes) => bytes,
        })
    }
}

fn longest_salt(key: &Key, digest_len: usize) -> Option<u16> {
    let encoded = (key.public.bits().checked_sub(1)?).div_ceil(8);
    u16::try_from(encoded.checked_sub(digest_len + 2)?).ok()
}

/// The service takes digests of 20 to 66 bytes. Leading zeros do not change the number of a shorter digest, and no
/// curve uses more bytes.
fn ecdsa_input(digest: &[u8]) -> Vec<u8> {
    [&vec![0; 20_usize.saturating_sub(digest.len())], &digest[..digest.len().min(66)]].concat()
}

fn no_signature() -> Failure {
    Failure::input("this is no signature by this key, or of another digest or padding")
}

/// Removes the framing of PKCS#1 v1.5: 00 01, at least eight ff, 00.
fn unframed(padded: &[u8]) -> Option<&[u8]> {
    let rest = padded.strip_prefix(&[0, 1])?;
    let filled = rest.iter().take_while(|byte| **byte == 0xff).count();
    rest[filled..].strip_prefix(&[0]).filter(|_| filled >= 8)
}

/// `DigestInfo` in DER, the input of PKCS#1 v1.5. MD5-SHA1 and bytes without a digest stay as they are.
fn digest_info(digest: Option<Digest>, bytes: &[u8]) -> Vec<u8> {
    let Some(oid) = digest.and_then(Digest::oid_der) else { return bytes.to_vec() };
    let algorithm = [&oid[..], &[0x05, 0x00]].concat();
    let inside = [&[0x30, algorithm.len() as u8][..], &algorithm, &[0x04, bytes.len() as u8], bytes].concat();
    [&[0x30, inside.len() as u8][..], &inside].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_frame_is_taken_off() {
        let frame = |filled: usize| [&[0, 1][..], &vec![0xff; filled], &[0], b"info"].concat();
        assert_eq!(unframed(&frame(8)), Some(&b"info"[..]));
        assert_eq!(unframed(&frame(7)), None);
        let other = |at: usize, byte| {
            let mut padded = frame(8);
            padded[at] = byte;
            unframed(&padded).is_some()
        };
        assert!(!other(0, 1) && !other(1, 2) && !other(9, 0xfe) && !other(10, 1) && other(11, 0));
        assert!(
            unframed(&[]).is_none() && unframed(&[0, 1]).is_none() && unframed(&[[0, 1], [0xff; 2]].concat()).is_none()
        );
    }

    #[test]
    fn any_digest_is_the_number_that_it_is() {
        assert_eq!(ecdsa_input(b""), [0; 20]);
        assert_eq!(ecdsa_input(&[7]), [&[0; 19][..], &[7]].concat());
        assert_eq!(ecdsa_input(&[7; 64]), [7; 64]);
        assert_eq!(ecdsa_input(&[7; 100]), [7; 66]);
    }
}
