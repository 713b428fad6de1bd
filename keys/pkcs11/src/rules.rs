//! What each attribute of a template may say, for each object that a program makes.

use crate::certificate::Certificate;
use crate::mechanism;
use crate::objects::{Object, What, key_type};
use crate::template::{Rule, Template};
use cryptoki_sys::{
    CK_ATTRIBUTE_TYPE, CK_CERTIFICATE_CATEGORY_UNSPECIFIED, CK_SECURITY_DOMAIN_UNSPECIFIED, CKA_ALLOWED_MECHANISMS,
    CKA_ALWAYS_AUTHENTICATE, CKA_ALWAYS_SENSITIVE, CKA_CERTIFICATE_CATEGORY, CKA_CERTIFICATE_TYPE, CKA_CLASS,
    CKA_COEFFICIENT, CKA_COPYABLE, CKA_DECAPSULATE, CKA_DECRYPT, CKA_DERIVE, CKA_DESTROYABLE, CKA_EC_PARAMS,
    CKA_EC_POINT, CKA_ENCAPSULATE, CKA_ENCRYPT, CKA_END_DATE, CKA_EXPONENT_1, CKA_EXPONENT_2, CKA_EXTRACTABLE,
    CKA_HASH_OF_ISSUER_PUBLIC_KEY, CKA_HASH_OF_SUBJECT_PUBLIC_KEY, CKA_ID, CKA_ISSUER, CKA_JAVA_MIDP_SECURITY_DOMAIN,
    CKA_KEY_GEN_MECHANISM, CKA_KEY_TYPE, CKA_LABEL, CKA_LOCAL, CKA_MODIFIABLE, CKA_MODULUS, CKA_MODULUS_BITS,
    CKA_NEVER_EXTRACTABLE, CKA_PARAMETER_SET, CKA_PRIME_1, CKA_PRIME_2, CKA_PRIVATE, CKA_PRIVATE_EXPONENT,
    CKA_PUBLIC_EXPONENT, CKA_PUBLIC_KEY_INFO, CKA_SEED, CKA_SENSITIVE, CKA_SERIAL_NUMBER, CKA_SIGN, CKA_SIGN_RECOVER,
    CKA_START_DATE, CKA_SUBJECT, CKA_TOKEN, CKA_TRUSTED, CKA_UNIQUE_ID, CKA_UNWRAP, CKA_URL, CKA_VALUE, CKA_VERIFY,
    CKA_VERIFY_RECOVER, CKA_WRAP, CKA_WRAP_WITH_TRUSTED, CKC_X_509, CKO_CERTIFICATE, CKO_PRIVATE_KEY, CKO_PUBLIC_KEY,
    CKP_ML_DSA_65,
};
use sidecore_client::keyops::key::{Family, Raw};
use sidecore_client::keys::{Kind, Usage};

/// A pair of keys that is to be made.
pub(crate) struct Wanted<'w> {
    pub(crate) family: Family,
    /// In the service, as opposed to this process.
    pub(crate) token: bool,
    pub(crate) usage: Usage,
    /// The curve, as the program names it.
    pub(crate) curve: Option<&'w [u8]>,
}

/// The operations that the templates of a pair ask for. One that is named in either makes the others its choice: a key
/// that is asked for decryption does nothing else. `None`: they contradict each other, or nothing is left.
pub(crate) fn usage(kind: Kind, of_public: &Template<'_>, of_private: &Template<'_>) -> Option<Usage> {
    let [mut named, mut denied] = [Usage::NONE; 2];
    for (template, attribute, usage) in [
        (of_private, CKA_SIGN, Usage::SIGN),
        (of_public, CKA_VERIFY, Usage::SIGN),
        (of_private, CKA_DECRYPT, Usage::DECRYPT),
        (of_public, CKA_ENCRYPT, Usage::DECRYPT),
        (of_private, CKA_DERIVE, Usage::DERIVE),
        (of_public, CKA_DERIVE, Usage::DERIVE),
    ] {
        match template.choice(attribute) {
            Some(true) => named = named.with(usage),
            Some(false) => denied = denied.with(usage),
            None => {}
        }
    }
    let all = Usage::of_kind(kind);
    let usage = if named == Usage::NONE { all.without(denied) } else { named };
    (usage != Usage::NONE && all.contains(usage) && usage.both(denied) == Usage::NONE).then_some(usage)
}

impl Wanted<'_> {
    pub(crate) fn private(&self, attribute: CK_ATTRIBUTE_TYPE) -> Option<Rule> {
        let is_rsa = self.family == Family::Rsa;
        Some(match attribute {
            CKA_CLASS => Rule::number(CKO_PRIVATE_KEY),
            // What keys of the kind never do was refused with the usage.
            CKA_LABEL | CKA_ID | CKA_TOKEN | CKA_SIGN | CKA_DECRYPT | CKA_DERIVE => Rule::Applied,
            CKA_PRIVATE | CKA_SENSITIVE => Rule::flag(true),
            CKA_EXTRACTABLE
            | CKA_SIGN_RECOVER
            | CKA_UNWRAP
            | CKA_ALWAYS_AUTHENTICATE
            | CKA_WRAP_WITH_TRUSTED
            | CKA_DECAPSULATE => Rule::flag(false),
            CKA_SUBJECT => Rule::empty(),
            CKA_ALLOWED_MECHANISMS => Rule::Lists(mechanism::for_private(self.family, self.usage)),
            CKA_PUBLIC_KEY_INFO | CKA_ALWAYS_SENSITIVE | CKA_NEVER_EXTRACTABLE => Rule::ReadOnly,
            CKA_PRIVATE_EXPONENT | CKA_PRIME_1 | CKA_PRIME_2 | CKA_EXPONENT_1 | CKA_EXPONENT_2 | CKA_COEFFICIENT
            | CKA_MODULUS | CKA_PUBLIC_EXPONENT
                if is_rsa =>
            {
                Rule::ReadOnly
            }
            CKA_VALUE | CKA_SEED if !is_rsa => Rule::ReadOnly,
            CKA_EC_PARAMS => Rule::Is(self.curve?.to_vec()),
            other => return self.both(other),
        })
    }

    pub(crate) fn public(&self, attribute: CK_ATTRIBUTE_TYPE) -> Option<Rule> {
        Some(match attribute {
            CKA_CLASS => Rule::number(CKO_PUBLIC_KEY),
            CKA_LABEL | CKA_ID | CKA_VERIFY | CKA_ENCRYPT | CKA_DERIVE => Rule::Applied,
            CKA_TOKEN => Rule::flag(self.token),
            CKA_PRIVATE | CKA_VERIFY_RECOVER | CKA_WRAP | CKA_TRUSTED | CKA_ENCAPSULATE => Rule::flag(false),
            CKA_SUBJECT => Rule::empty(),
            CKA_ALLOWED_MECHANISMS => Rule::Lists(mechanism::for_public(self.family, self.usage)),
            CKA_PUBLIC_KEY_INFO => Rule::ReadOnly,
            // The mechanism reads these.
            CKA_MODULUS_BITS | CKA_PUBLIC_EXPONENT if self.family == Family::Rsa => Rule::Applied,
            CKA_EC_PARAMS if self.curve.is_some() => Rule::Applied,
            CKA_MODULUS if self.family == Family::Rsa => Rule::ReadOnly,
            CKA_EC_POINT if matches!(self.family, Family::Ec | Family::Raw(Raw::Ed25519)) => Rule::ReadOnly,
            CKA_VALUE if self.family == Family::Raw(Raw::MlDsa65) => Rule::ReadOnly,
            other => return self.both(other),
        })
    }

    fn both(&self, attribute: CK_ATTRIBUTE_TYPE) -> Option<Rule> {
        Some(match attribute {
            CKA_KEY_TYPE => Rule::number(key_type(self.family)),
            CKA_PARAMETER_SET if self.family == Family::Raw(Raw::MlDsa65) => Rule::number(CKP_ML_DSA_65),
            CKA_MODIFIABLE | CKA_COPYABLE | CKA_DESTROYABLE => Rule::flag(!self.token),
            CKA_START_DATE | CKA_END_DATE => Rule::empty(),
            CKA_LOCAL | CKA_KEY_GEN_MECHANISM | CKA_UNIQUE_ID => Rule::ReadOnly,
            _ => return None,
        })
    }
}

/// A certificate that is created.
pub(crate) fn certificate(certificate: &Certificate, token: bool, attribute: CK_ATTRIBUTE_TYPE) -> Option<Rule> {
    Some(match attribute {
        CKA_CLASS => Rule::number(CKO_CERTIFICATE),
        CKA_TOKEN | CKA_LABEL | CKA_ID | CKA_VALUE => Rule::Applied,
        CKA_CERTIFICATE_TYPE => Rule::number(CKC_X_509),
        CKA_CERTIFICATE_CATEGORY => Rule::number(CK_CERTIFICATE_CATEGORY_UNSPECIFIED),
        CKA_JAVA_MIDP_SECURITY_DOMAIN => Rule::number(CK_SECURITY_DOMAIN_UNSPECIFIED),
        CKA_PRIVATE | CKA_TRUSTED => Rule::flag(false),
        CKA_MODIFIABLE | CKA_COPYABLE | CKA_DESTROYABLE => Rule::flag(!token),
        CKA_SUBJECT => Rule::Is(certificate.subject.clone()),
        CKA_ISSUER => Rule::Is(certificate.issuer.clone()),
        // Java gives the number's bytes without their DER.
        CKA_SERIAL_NUMBER => Rule::Either(certificate.serial.clone(), certificate.serial_bytes().to_vec()),
        CKA_PUBLIC_KEY_INFO => Rule::Is(certificate.spki.clone()),
        CKA_URL | CKA_HASH_OF_SUBJECT_PUBLIC_KEY | CKA_HASH_OF_ISSUER_PUBLIC_KEY | CKA_START_DATE | CKA_END_DATE => {
            Rule::empty()
        }
        CKA_UNIQUE_ID => Rule::ReadOnly,
        _ => return None,
    })
}

/// A public key that is created in this process.
pub(crate) fn public_key(object: &Object, setup: &crate::config::Setup, attribute: CK_ATTRIBUTE_TYPE) -> Option<Rule> {
    let What::Public(pair) = &object.what else { return None };
    let own = || object.attribute(setup, attribute).ok();
    Some(match attribute {
        CKA_TOKEN | CKA_LABEL | CKA_ID | CKA_VERIFY | CKA_ENCRYPT => Rule::Applied,
        // In several forms.
        CKA_MODULUS | CKA_PUBLIC_EXPONENT | CKA_EC_PARAMS | CKA_EC_POINT if own().is_some() => Rule::Applied,
        CKA_LOCAL | CKA_KEY_GEN_MECHANISM | CKA_UNIQUE_ID => Rule::ReadOnly,
        CKA_ALLOWED_MECHANISMS => Rule::Lists(mechanism::for_public(pair.public.public.family(), pair.usage)),
        _ => Rule::Is(own()?),
    })
}
