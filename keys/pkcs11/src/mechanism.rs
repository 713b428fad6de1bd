//! Mechanisms: what each does, for keys of what length, and its parameters.

use crate::config::Setup;
use crate::rv::Rv;
use cryptoki_sys::{
    CK_FLAGS, CK_MECHANISM_TYPE, CK_RSA_PKCS_MGF_TYPE, CK_ULONG, CKF_DECRYPT, CKF_EC_F_P, CKF_EC_OID,
    CKF_EC_UNCOMPRESS, CKF_ENCRYPT, CKF_GENERATE_KEY_PAIR, CKF_SIGN, CKF_VERIFY, CKG_MGF1_SHA1, CKG_MGF1_SHA224,
    CKG_MGF1_SHA256, CKG_MGF1_SHA384, CKG_MGF1_SHA512, CKM_EC_EDWARDS_KEY_PAIR_GEN, CKM_EC_KEY_PAIR_GEN, CKM_ECDSA,
    CKM_ECDSA_SHA1, CKM_ECDSA_SHA224, CKM_ECDSA_SHA256, CKM_ECDSA_SHA384, CKM_ECDSA_SHA512, CKM_EDDSA, CKM_ML_DSA,
    CKM_ML_DSA_KEY_PAIR_GEN, CKM_RSA_PKCS, CKM_RSA_PKCS_KEY_PAIR_GEN, CKM_RSA_PKCS_OAEP, CKM_RSA_PKCS_PSS, CKM_SHA_1,
    CKM_SHA1_RSA_PKCS, CKM_SHA224, CKM_SHA224_RSA_PKCS, CKM_SHA224_RSA_PKCS_PSS, CKM_SHA256, CKM_SHA256_RSA_PKCS,
    CKM_SHA256_RSA_PKCS_PSS, CKM_SHA384, CKM_SHA384_RSA_PKCS, CKM_SHA384_RSA_PKCS_PSS, CKM_SHA512, CKM_SHA512_RSA_PKCS,
    CKM_SHA512_RSA_PKCS_PSS, CKR_CURVE_NOT_SUPPORTED, CKR_KEY_SIZE_RANGE, CKR_KEY_TYPE_INCONSISTENT,
    CKR_MECHANISM_INVALID, CKR_MECHANISM_PARAM_INVALID, CKR_TEMPLATE_INCOMPLETE, CKZ_DATA_SPECIFIED,
};
use sidecore_client::keyops::digest::Digest;
use sidecore_client::keyops::key::{Family, Key, Public, Raw};
use sidecore_client::keyops::sign::{Padding, Salt, Settings};
use sidecore_client::keyops::{decrypt, key::Curve};
use sidecore_client::keys::{Kind, Usage};

/// A mechanism as the program names it.
#[derive(Clone, Debug)]
pub(crate) struct Mechanism {
    pub(crate) kind: CK_MECHANISM_TYPE,
    pub(crate) parameter: Parameter,
}

/// Parameters of a mechanism.
#[derive(Clone, Debug)]
pub(crate) enum Parameter {
    None,
    Pss {
        hash: CK_MECHANISM_TYPE,
        mgf: CK_RSA_PKCS_MGF_TYPE,
        salt: CK_ULONG,
    },
    Oaep {
        hash: CK_MECHANISM_TYPE,
        mgf: CK_RSA_PKCS_MGF_TYPE,
        source: CK_ULONG,
        label: Vec<u8>,
    },
    /// A variant of the signature, and its context.
    Context {
        prehashed: bool,
        context: Vec<u8>,
    },
    /// One that does not belong to the mechanism.
    Unfit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Rsa(Padding, Option<Digest>),
    Oaep,
    Ecdsa(Option<Digest>),
    Raw(Raw),
    Generate(Family),
}

pub(crate) struct Row {
    pub(crate) kind: CK_MECHANISM_TYPE,
    pub(crate) flags: CK_FLAGS,
    /// Least and most bits of a key.
    pub(crate) bits: (CK_ULONG, CK_ULONG),
    work: Work,
}

const BOTH: CK_FLAGS = CKF_SIGN | CKF_VERIFY;
const CIPHER: CK_FLAGS = CKF_DECRYPT | CKF_ENCRYPT;
const CURVES: CK_FLAGS = CKF_EC_F_P | CKF_EC_OID | CKF_EC_UNCOMPRESS;

const fn row(kind: CK_MECHANISM_TYPE, flags: CK_FLAGS, bits: (CK_ULONG, CK_ULONG), work: Work) -> Row {
    Row { kind, flags, bits, work }
}

const fn rsa(kind: CK_MECHANISM_TYPE, flags: CK_FLAGS, work: Work) -> Row {
    row(kind, flags, (2048, 8192), work)
}

const fn pkcs1(kind: CK_MECHANISM_TYPE, digest: Digest) -> Row {
    rsa(kind, BOTH, Work::Rsa(Padding::Pkcs1, Some(digest)))
}

const fn pss(kind: CK_MECHANISM_TYPE, digest: Digest) -> Row {
    rsa(kind, BOTH, Work::Rsa(Padding::Pss, Some(digest)))
}

const fn ecdsa(kind: CK_MECHANISM_TYPE, digest: Option<Digest>) -> Row {
    row(kind, BOTH | CURVES, (256, 521), Work::Ecdsa(digest))
}

const MADE: CK_FLAGS = CKF_GENERATE_KEY_PAIR;

static ROWS: [Row; 24] = [
    rsa(CKM_RSA_PKCS, BOTH | CIPHER, Work::Rsa(Padding::Pkcs1, None)),
    pkcs1(CKM_SHA1_RSA_PKCS, Digest::Sha1),
    pkcs1(CKM_SHA224_RSA_PKCS, Digest::Sha224),
    pkcs1(CKM_SHA256_RSA_PKCS, Digest::Sha256),
    pkcs1(CKM_SHA384_RSA_PKCS, Digest::Sha384),
    pkcs1(CKM_SHA512_RSA_PKCS, Digest::Sha512),
    rsa(CKM_RSA_PKCS_PSS, BOTH, Work::Rsa(Padding::Pss, None)),
    pss(CKM_SHA224_RSA_PKCS_PSS, Digest::Sha224),
    pss(CKM_SHA256_RSA_PKCS_PSS, Digest::Sha256),
    pss(CKM_SHA384_RSA_PKCS_PSS, Digest::Sha384),
    pss(CKM_SHA512_RSA_PKCS_PSS, Digest::Sha512),
    rsa(CKM_RSA_PKCS_OAEP, CIPHER, Work::Oaep),
    ecdsa(CKM_ECDSA, None),
    ecdsa(CKM_ECDSA_SHA1, Some(Digest::Sha1)),
    ecdsa(CKM_ECDSA_SHA224, Some(Digest::Sha224)),
    ecdsa(CKM_ECDSA_SHA256, Some(Digest::Sha256)),
    ecdsa(CKM_ECDSA_SHA384, Some(Digest::Sha384)),
    ecdsa(CKM_ECDSA_SHA512, Some(Digest::Sha512)),
    row(CKM_EDDSA, BOTH, (255, 255), Work::Raw(Raw::Ed25519)),
    row(CKM_ML_DSA, BOTH, (15_616, 15_616), Work::Raw(Raw::MlDsa65)),
    row(CKM_RSA_PKCS_KEY_PAIR_GEN, MADE, (2048, 4096), Work::Generate(Family::Rsa)),
    row(CKM_EC_KEY_PAIR_GEN, MADE | CURVES, (256, 521), Work::Generate(Family::Ec)),
    row(CKM_EC_EDWARDS_KEY_PAIR_GEN, MADE, (255, 255), Work::Generate(Family::Raw(Raw::Ed25519))),
    row(CKM_ML_DSA_KEY_PAIR_GEN, MADE, (15_616, 15_616), Work::Generate(Family::Raw(Raw::MlDsa65))),
];

/// The mechanisms for keys of these families.
pub(crate) fn all(have: impl Fn(Family) -> bool) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| have(row.work.family()))
}

pub(crate) fn find(kind: CK_MECHANISM_TYPE) -> Result<&'static Row, Rv> {
    ROWS.iter().find(|row| row.kind == kind).ok_or(Rv(CKR_MECHANISM_INVALID))
}

/// Checks that the token offers the mechanism: programs with these settings find it in the list.
pub(crate) fn offered(setup: &Setup, kind: CK_MECHANISM_TYPE) -> Result<(), Rv> {
    if setup.families.have(find(kind)?.work.family()) { Ok(()) } else { Err(Rv(CKR_MECHANISM_INVALID)) }
}

/// Numbers of the mechanisms of a private key with this usage, as the value of an attribute.
pub(crate) fn for_private(family: Family, usage: Usage) -> Vec<u8> {
    for_keys(family, usage, [CKF_SIGN, CKF_DECRYPT])
}

/// The same of its public key.
pub(crate) fn for_public(family: Family, usage: Usage) -> Vec<u8> {
    for_keys(family, usage, [CKF_VERIFY, CKF_ENCRYPT])
}

/// `flags`: of a key that signs, and of one that decrypts.
fn for_keys(family: Family, usage: Usage, flags: [CK_FLAGS; 2]) -> Vec<u8> {
    let may = [Usage::SIGN, Usage::DECRYPT].into_iter().zip(flags).filter(|(wanted, _)| usage.contains(*wanted));
    let flags = may.fold(0, |all, (_, flag)| all | flag);
    let fits = |row: &&Row| row.work.family() == family && row.flags & flags != 0;
    ROWS.iter().filter(fits).flat_map(|row| row.kind.to_ne_bytes()).collect()
}

impl Work {
    fn family(self) -> Family {
        match self {
            Self::Rsa(..) | Self::Oaep => Family::Rsa,
            Self::Ecdsa(_) => Family::Ec,
            Self::Raw(raw) => Family::Raw(raw),
            Self::Generate(family) => family,
        }
    }
}

/// How a signature's input is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// Hashed here.
    Hashed(Digest),
    /// As it is: at least and at most this number of bytes.
    Whole { least: usize, most: usize },
}

/// Longest input of ECDSA that is not hashed here, bytes.
const MAX_DIGEST: usize = 512;
/// Longest message to sign as a whole, bytes; the service's own limit is lower by default.
const MAX_MESSAGE: usize = 16 << 20;

impl Mechanism {
    fn row(&self, flags: CK_FLAGS, key: &Key) -> Result<&'static Row, Rv> {
        let row = find(self.kind)?;
        if row.flags & flags != flags {
            return Err(Rv(CKR_MECHANISM_INVALID));
        }
        if row.work.family() == key.public.family() { Ok(row) } else { Err(Rv(CKR_KEY_TYPE_INCONSISTENT)) }
    }

    /// The settings of signatures with this key. `flags`: `CKF_SIGN` or `CKF_VERIFY`.
    pub(crate) fn signature(&self, flags: CK_FLAGS, key: &Key) -> Result<(Settings, Input), Rv> {
        let none =
            || if matches!(self.parameter, Parameter::None) { Ok(()) } else { Err(Rv(CKR_MECHANISM_PARAM_INVALID)) };
        let hashed = |digest: Option<Digest>, least, most| digest.map_or(Input::Whole { least, most }, Input::Hashed);
        let message = Input::Whole { least: 0, most: MAX_MESSAGE };
        match self.row(flags, key)?.work {
            Work::Rsa(Padding::Pkcs1, digest) => {
                none()?;
                let longest = key.public.max_len().saturating_sub(11);
                Ok((Settings { digest, ..Settings::default() }, hashed(digest, 0, longest)))
            }
            Work::Rsa(Padding::Pss, digest) => {
                let settings = self.pss(digest, key)?;
                let size = settings.digest.map_or(0, Digest::size);
                Ok((settings, hashed(digest, size, size)))
            }
            Work::Ecdsa(digest) => {
                none()?;
                Ok((Settings { digest, ..Settings::default() }, hashed(digest, 1, MAX_DIGEST)))
            }
            Work::Raw(_) => match &self.parameter {
                Parameter::None => Ok((Settings::default(), message)),
                Parameter::Context { prehashed: false, context } if context.is_empty() => {
                    Ok((Settings::default(), message))
                }
                _ => Err(Rv(CKR_MECHANISM_PARAM_INVALID)),
            },
            Work::Oaep | Work::Generate(_) => Err(Rv(CKR_MECHANISM_INVALID)),
        }
    }

    fn pss(&self, hashed: Option<Digest>, key: &Key) -> Result<Settings, Rv> {
        let unfit = Rv(CKR_MECHANISM_PARAM_INVALID);
        let Parameter::Pss { hash, mgf, salt } = self.parameter else { return Err(unfit) };
        let digest = digest_of(hash).filter(|digest| hashed.is_none_or(|hashed| hashed == *digest)).ok_or(unfit)?;
        // The service signs no PSS over SHA-1.
        digest.hash().ok_or(unfit)?;
        // Salt, digest and two bytes fill what one bit less than the modulus holds.
        let room = key.public.bits().saturating_sub(1).div_ceil(8).checked_sub(digest.size() + 2).ok_or(unfit)?;
        let salt = match usize::try_from(salt).ok() {
            Some(bytes) if bytes > room => return Err(unfit),
            // One session in the service serves this and what others call the digest's length.
            Some(bytes) if bytes == digest.size() => Salt::Digest,
            bytes => Salt::Bytes(bytes.and_then(|bytes| u16::try_from(bytes).ok()).ok_or(unfit)?),
        };
        let mgf1 = Some(mgf_of(mgf).ok_or(unfit)?);
        Ok(Settings { digest: Some(digest), padding: Padding::Pss, salt, mgf1 })
    }

    /// The settings of decryption or encryption with this key. `flags`: `CKF_DECRYPT` or `CKF_ENCRYPT`.
    pub(crate) fn cipher(&self, flags: CK_FLAGS, key: &Key) -> Result<decrypt::Settings, Rv> {
        let unfit = Rv(CKR_MECHANISM_PARAM_INVALID);
        match (self.row(flags, key)?.work, &self.parameter) {
            (Work::Rsa(..), Parameter::None) => Ok(decrypt::Settings::default()),
            (Work::Oaep, Parameter::Oaep { hash, mgf, source, label }) => {
                // Without a label some programs name no source.
                let no_label = *source == 0 && label.is_empty();
                if *source != CKZ_DATA_SPECIFIED && !no_label {
                    return Err(unfit);
                }
                let digest = digest_of(*hash).ok_or(unfit)?;
                let mgf1 = Some(mgf_of(*mgf).ok_or(unfit)?);
                let padding = decrypt::Padding::Oaep;
                Ok(decrypt::Settings { padding, digest, mgf1, label: label.clone(), ..decrypt::Settings::default() })
            }
            _ => Err(unfit),
        }
    }

    /// The kind of key to make. `bits` and `curve`: of the program's template.
    pub(crate) fn made(&self, bits: Option<CK_ULONG>, curve: Option<&[u8]>) -> Result<(Kind, Family), Rv> {
        let Work::Generate(family) = find(self.kind)?.work else { return Err(Rv(CKR_MECHANISM_INVALID)) };
        if !matches!(self.parameter, Parameter::None) {
            return Err(Rv(CKR_MECHANISM_PARAM_INVALID));
        }
        let kind = match family {
            Family::Rsa => match bits.ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))? {
                2048 => Ok(Kind::Rsa2048),
                3072 => Ok(Kind::Rsa3072),
                4096 => Ok(Kind::Rsa4096),
                _ => Err(Rv(CKR_KEY_SIZE_RANGE)),
            },
            Family::Ec => {
                match curve_of(curve.ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))?).ok_or(Rv(CKR_CURVE_NOT_SUPPORTED))? {
                    Curve::P256 => Ok(Kind::P256),
                    Curve::P384 => Ok(Kind::P384),
                    Curve::P521 => Ok(Kind::P521),
                }
            }
            Family::Raw(Raw::Ed25519) if curve.is_some_and(|curve| !is_ed25519(curve)) => {
                Err(Rv(CKR_CURVE_NOT_SUPPORTED))
            }
            Family::Raw(raw) => Ok(raw.kind()),
        }?;
        Ok((kind, family))
    }
}

/// Length of a signature by this key, bytes.
pub(crate) fn signature_len(public: &Public) -> usize {
    match public {
        Public::Ec { curve, .. } => 2 * curve.size(),
        public => public.max_len(),
    }
}

fn digest_of(hash: CK_MECHANISM_TYPE) -> Option<Digest> {
    Some(match hash {
        CKM_SHA_1 => Digest::Sha1,
        CKM_SHA224 => Digest::Sha224,
        CKM_SHA256 => Digest::Sha256,
        CKM_SHA384 => Digest::Sha384,
        CKM_SHA512 => Digest::Sha512,
        _ => return None,
    })
}

/// The mechanism is a hash of PSS. As a mechanism of its own it is not offered.
pub(crate) fn is_pss_hash(kind: CK_MECHANISM_TYPE) -> bool {
    digest_of(kind).is_some_and(|digest| digest.hash().is_some())
}

fn mgf_of(mgf: CK_RSA_PKCS_MGF_TYPE) -> Option<Digest> {
    Some(match mgf {
        CKG_MGF1_SHA1 => Digest::Sha1,
        CKG_MGF1_SHA224 => Digest::Sha224,
        CKG_MGF1_SHA256 => Digest::Sha256,
        CKG_MGF1_SHA384 => Digest::Sha384,
        CKG_MGF1_SHA512 => Digest::Sha512,
        _ => return None,
    })
}

const P256: &[u8] = &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22];
const P521: &[u8] = &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23];
/// Object identifier of Ed25519, in DER.
pub(crate) const ED25519: &[u8] = &[0x06, 0x03, 0x2b, 0x65, 0x70];
/// Its name as a printable string, in DER.
pub(crate) const ED25519_NAME: &[u8] = b"\x13\x0cedwards25519";

/// Object identifier of a curve, in DER.
pub(crate) fn curve_oid(curve: Curve) -> &'static [u8] {
    match curve {
        Curve::P256 => P256,
        Curve::P384 => P384,
        Curve::P521 => P521,
    }
}

pub(crate) fn curve_of(oid: &[u8]) -> Option<Curve> {
    Curve::ALL.into_iter().find(|curve| curve_oid(*curve) == oid)
}

pub(crate) fn is_ed25519(params: &[u8]) -> bool {
    params == ED25519 || params == ED25519_NAME
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_there_once_and_who_signs_also_verifies() {
        for (place, row) in ROWS.iter().enumerate() {
            assert!(ROWS[..place].iter().all(|other| other.kind != row.kind));
            // Java takes no mechanism that only signs.
            assert_eq!(row.flags & CKF_SIGN == 0, row.flags & CKF_VERIFY == 0);
        }
    }
}
