//! Attributes of objects, computed at each question.

use super::{Object, Pair, What, key_type};
use crate::certificate::{Certificate, octets};
use crate::config::{Setup, hex};
use crate::mechanism::{self, ED25519, ED25519_NAME};
use crate::rv::Rv;
use cryptoki_sys::{
    CK_ATTRIBUTE_TYPE, CK_CERTIFICATE_CATEGORY_UNSPECIFIED, CK_FALSE, CK_SECURITY_DOMAIN_UNSPECIFIED, CK_TRUE,
    CK_ULONG, CK_UNAVAILABLE_INFORMATION, CKA_ALLOWED_MECHANISMS, CKA_ALWAYS_AUTHENTICATE, CKA_ALWAYS_SENSITIVE,
    CKA_CERTIFICATE_CATEGORY, CKA_CERTIFICATE_TYPE, CKA_CLASS, CKA_COEFFICIENT, CKA_COPYABLE, CKA_DECAPSULATE,
    CKA_DECRYPT, CKA_DERIVE, CKA_DESTROYABLE, CKA_EC_PARAMS, CKA_EC_POINT, CKA_ENCAPSULATE, CKA_ENCRYPT, CKA_END_DATE,
    CKA_EXPONENT_1, CKA_EXPONENT_2, CKA_EXTRACTABLE, CKA_HASH_OF_ISSUER_PUBLIC_KEY, CKA_HASH_OF_SUBJECT_PUBLIC_KEY,
    CKA_ID, CKA_ISSUER, CKA_JAVA_MIDP_SECURITY_DOMAIN, CKA_KEY_GEN_MECHANISM, CKA_KEY_TYPE, CKA_LABEL, CKA_LOCAL,
    CKA_MODIFIABLE, CKA_MODULUS, CKA_MODULUS_BITS, CKA_NEVER_EXTRACTABLE, CKA_PARAMETER_SET, CKA_PRIME_1, CKA_PRIME_2,
    CKA_PRIVATE, CKA_PRIVATE_EXPONENT, CKA_PUBLIC_EXPONENT, CKA_PUBLIC_KEY_INFO, CKA_SEED, CKA_SENSITIVE,
    CKA_SERIAL_NUMBER, CKA_SIGN, CKA_SIGN_RECOVER, CKA_START_DATE, CKA_SUBJECT, CKA_TOKEN, CKA_TRUSTED, CKA_UNIQUE_ID,
    CKA_UNWRAP, CKA_URL, CKA_VALUE, CKA_VERIFY, CKA_VERIFY_RECOVER, CKA_WRAP, CKA_WRAP_WITH_TRUSTED, CKC_X_509,
    CKO_CERTIFICATE, CKO_PRIVATE_KEY, CKO_PUBLIC_KEY, CKP_ML_DSA_65, CKR_ATTRIBUTE_SENSITIVE,
    CKR_ATTRIBUTE_TYPE_INVALID,
};
use sidecore_client::keyops::key::{Public, Raw};
use sidecore_client::keys::Usage;

fn flag(set: bool) -> Vec<u8> {
    vec![if set { CK_TRUE } else { CK_FALSE }]
}

fn number(number: CK_ULONG) -> Vec<u8> {
    number.to_ne_bytes().to_vec()
}

impl Object {
    /// Whether the attribute has this value.
    pub(crate) fn has(&self, setup: &Setup, kind: CK_ATTRIBUTE_TYPE, value: &[u8]) -> bool {
        self.attribute(setup, kind).is_ok_and(|own| own == value)
    }

    /// Value of an attribute.
    ///
    /// # Errors
    /// `CKR_ATTRIBUTE_SENSITIVE` for private parts, `CKR_ATTRIBUTE_TYPE_INVALID`.
    pub(crate) fn attribute(&self, setup: &Setup, kind: CK_ATTRIBUTE_TYPE) -> Result<Vec<u8>, Rv> {
        let own = match &self.what {
            What::Private(pair) => private(pair, kind)?.or_else(|| of_key(pair, setup, kind)),
            What::Public(pair) => public(pair, kind).or_else(|| of_key(pair, setup, kind)),
            What::Certificate(certificate) => of_certificate(certificate, kind),
        };
        own.or_else(|| self.common(kind)).ok_or(Rv(CKR_ATTRIBUTE_TYPE_INVALID))
    }

    fn common(&self, kind: CK_ATTRIBUTE_TYPE) -> Option<Vec<u8>> {
        Some(match kind {
            CKA_TOKEN => flag(self.token),
            CKA_MODIFIABLE | CKA_DESTROYABLE | CKA_COPYABLE => flag(!self.token),
            CKA_LABEL => self.label.clone().into_bytes(),
            CKA_ID => self.id.clone(),
            CKA_UNIQUE_ID => hex(&self.handle.to_be_bytes()).into_bytes(),
            CKA_START_DATE | CKA_END_DATE => Vec::new(),
            _ => return None,
        })
    }
}

fn private(pair: &Pair, kind: CK_ATTRIBUTE_TYPE) -> Result<Option<Vec<u8>>, Rv> {
    Ok(Some(match kind {
        CKA_PRIVATE_EXPONENT | CKA_PRIME_1 | CKA_PRIME_2 | CKA_EXPONENT_1 | CKA_EXPONENT_2 | CKA_COEFFICIENT
        | CKA_VALUE | CKA_SEED => return Err(Rv(CKR_ATTRIBUTE_SENSITIVE)),
        CKA_CLASS => number(CKO_PRIVATE_KEY),
        CKA_PRIVATE | CKA_SENSITIVE => flag(true),
        CKA_SIGN => flag(pair.usage.contains(Usage::SIGN)),
        CKA_DECRYPT => flag(pair.usage.contains(Usage::DECRYPT)),
        // The service derives for other interfaces; this one has no mechanism for it.
        CKA_DERIVE => flag(pair.usage.contains(Usage::DERIVE)),
        CKA_EXTRACTABLE
        | CKA_SIGN_RECOVER
        | CKA_UNWRAP
        | CKA_ALWAYS_AUTHENTICATE
        | CKA_WRAP_WITH_TRUSTED
        | CKA_DECAPSULATE => flag(false),
        // The store does not say whether a key was imported.
        CKA_ALWAYS_SENSITIVE | CKA_NEVER_EXTRACTABLE => flag(pair.made.is_some()),
        CKA_ALLOWED_MECHANISMS => mechanism::for_private(pair.public.public.family(), pair.usage),
        _ => return Ok(None),
    }))
}

fn public(pair: &Pair, kind: CK_ATTRIBUTE_TYPE) -> Option<Vec<u8>> {
    Some(match kind {
        CKA_CLASS => number(CKO_PUBLIC_KEY),
        CKA_VERIFY => flag(pair.usage.contains(Usage::SIGN)),
        CKA_ENCRYPT => flag(pair.usage.contains(Usage::DECRYPT)),
        CKA_DERIVE => flag(pair.usage.contains(Usage::DERIVE)),
        CKA_PRIVATE | CKA_VERIFY_RECOVER | CKA_WRAP | CKA_TRUSTED | CKA_ENCAPSULATE => flag(false),
        CKA_ALLOWED_MECHANISMS => mechanism::for_public(pair.public.public.family(), pair.usage),
        CKA_VALUE => match &pair.public.public {
            Public::Raw(Raw::MlDsa65, key) => key.clone(),
            _ => return None,
        },
        _ => return None,
    })
}

/// Attributes that both parts of a key have.
fn of_key(pair: &Pair, setup: &Setup, kind: CK_ATTRIBUTE_TYPE) -> Option<Vec<u8>> {
    Some(match (kind, &pair.public.public) {
        (CKA_KEY_TYPE, public) => number(key_type(public.family())),
        (CKA_LOCAL, _) => flag(pair.made.is_some()),
        (CKA_KEY_GEN_MECHANISM, _) => number(pair.made.unwrap_or(CK_UNAVAILABLE_INFORMATION)),
        (CKA_SUBJECT, _) => pair.certificates.first().map_or_else(Vec::new, |own| own.subject.clone()),
        (CKA_PUBLIC_KEY_INFO, public) => public.to_spki().ok()?,
        (CKA_MODULUS, Public::Rsa { n, .. }) => n.clone(),
        (CKA_MODULUS_BITS, Public::Rsa { .. }) => number(pair.public.public.bits() as CK_ULONG),
        (CKA_PUBLIC_EXPONENT, Public::Rsa { e, .. }) => e.clone(),
        (CKA_EC_PARAMS, Public::Ec { curve, .. }) => mechanism::curve_oid(*curve).to_vec(),
        (CKA_EC_PARAMS, Public::Raw(Raw::Ed25519, _)) => {
            if setup.printable_curve { ED25519_NAME } else { ED25519 }.to_vec()
        }
        (CKA_EC_POINT, Public::Ec { point, .. } | Public::Raw(Raw::Ed25519, point)) => octets(point),
        (CKA_PARAMETER_SET, Public::Raw(Raw::MlDsa65, _)) => number(CKP_ML_DSA_65),
        _ => return None,
    })
}

fn of_certificate(certificate: &Certificate, kind: CK_ATTRIBUTE_TYPE) -> Option<Vec<u8>> {
    Some(match kind {
        CKA_CLASS => number(CKO_CERTIFICATE),
        CKA_CERTIFICATE_TYPE => number(CKC_X_509),
        CKA_CERTIFICATE_CATEGORY => number(CK_CERTIFICATE_CATEGORY_UNSPECIFIED),
        CKA_PRIVATE | CKA_TRUSTED => flag(false),
        CKA_VALUE => certificate.der.clone(),
        CKA_SUBJECT => certificate.subject.clone(),
        CKA_ISSUER => certificate.issuer.clone(),
        CKA_SERIAL_NUMBER => certificate.serial.clone(),
        CKA_PUBLIC_KEY_INFO => certificate.spki.clone(),
        CKA_URL | CKA_HASH_OF_SUBJECT_PUBLIC_KEY | CKA_HASH_OF_ISSUER_PUBLIC_KEY => Vec::new(),
        CKA_JAVA_MIDP_SECURITY_DOMAIN => number(CK_SECURITY_DOMAIN_UNSPECIFIED),
        _ => return None,
    })
}
