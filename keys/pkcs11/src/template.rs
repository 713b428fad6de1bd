//! Templates: what a program wants of an object. Each attribute is applied, or is what the object has anyway, or the whole
//! template is refused, and the log names the attribute. A program that asks for a key that only decrypts must not get
//! one that signs.

use crate::config::Setup;
use crate::log::refused;
use crate::rv::Rv;
use cryptoki_sys::{
    CK_ATTRIBUTE, CK_ATTRIBUTE_TYPE, CK_FALSE, CK_TRUE, CK_ULONG, CKA_AC_ISSUER, CKA_ALLOWED_MECHANISMS,
    CKA_ALWAYS_AUTHENTICATE, CKA_ALWAYS_SENSITIVE, CKA_APPLICATION, CKA_BASE, CKA_CERTIFICATE_CATEGORY,
    CKA_CERTIFICATE_TYPE, CKA_CHECK_VALUE, CKA_CLASS, CKA_COEFFICIENT, CKA_COPYABLE, CKA_DECAPSULATE,
    CKA_DECAPSULATE_TEMPLATE, CKA_DECRYPT, CKA_DERIVE, CKA_DERIVE_TEMPLATE, CKA_DESTROYABLE, CKA_EC_PARAMS,
    CKA_EC_POINT, CKA_ENCAPSULATE, CKA_ENCAPSULATE_TEMPLATE, CKA_ENCRYPT, CKA_END_DATE, CKA_EXPONENT_1, CKA_EXPONENT_2,
    CKA_EXTRACTABLE, CKA_HASH_OF_ISSUER_PUBLIC_KEY, CKA_HASH_OF_SUBJECT_PUBLIC_KEY, CKA_ID, CKA_ISSUER,
    CKA_JAVA_MIDP_SECURITY_DOMAIN, CKA_KEY_GEN_MECHANISM, CKA_KEY_TYPE, CKA_LABEL, CKA_LOCAL, CKA_MODIFIABLE,
    CKA_MODULUS, CKA_MODULUS_BITS, CKA_NAME_HASH_ALGORITHM, CKA_NEVER_EXTRACTABLE, CKA_OBJECT_ID, CKA_OWNER,
    CKA_PARAMETER_SET, CKA_PRIME, CKA_PRIME_1, CKA_PRIME_2, CKA_PRIME_BITS, CKA_PRIVATE, CKA_PRIVATE_EXPONENT,
    CKA_PUBLIC_EXPONENT, CKA_PUBLIC_KEY_INFO, CKA_SEED, CKA_SENSITIVE, CKA_SERIAL_NUMBER, CKA_SIGN, CKA_SIGN_RECOVER,
    CKA_START_DATE, CKA_SUBJECT, CKA_SUBPRIME, CKA_TOKEN, CKA_TRUSTED, CKA_UNIQUE_ID, CKA_UNWRAP, CKA_UNWRAP_TEMPLATE,
    CKA_URL, CKA_VALUE, CKA_VALUE_BITS, CKA_VALUE_LEN, CKA_VERIFY, CKA_VERIFY_RECOVER, CKA_WRAP, CKA_WRAP_TEMPLATE,
    CKA_WRAP_WITH_TRUSTED, CKR_ATTRIBUTE_READ_ONLY, CKR_ATTRIBUTE_TYPE_INVALID, CKR_ATTRIBUTE_VALUE_INVALID,
    CKR_TEMPLATE_INCOMPLETE, CKR_TEMPLATE_INCONSISTENT,
};

/// Longest label or identifier of an object, bytes.
const MAX_NAME: usize = 1024;

/// Attributes that the program gives for an object.
pub(crate) struct Template<'t>(pub(crate) &'t [(CK_ATTRIBUTE_TYPE, Vec<u8>)]);

/// What may be asked of an attribute of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Whoever makes the object applies it, and checks its value.
    Applied,
    /// The object has this value, and no other one can be had.
    Is(Vec<u8>),
    /// The object has the first value, and programs also write it as the second.
    Either(Vec<u8>, Vec<u8>),
    /// The object has this list of numbers, in any order.
    Lists(Vec<u8>),
    /// The service alone sets it.
    ReadOnly,
}

impl Rule {
    pub(crate) fn flag(set: bool) -> Self {
        Self::Is(vec![if set { CK_TRUE } else { CK_FALSE }])
    }

    pub(crate) fn number(number: CK_ULONG) -> Self {
        Self::Is(number.to_ne_bytes().to_vec())
    }

    pub(crate) const fn empty() -> Self {
        Self::Is(Vec::new())
    }

    fn permits(&self, value: &[u8]) -> bool {
        match self {
            Self::Applied => true,
            Self::Is(own) => own == value,
            Self::Either(own, other) => own == value || other == value,
            Self::Lists(own) => sorted(own) == sorted(value),
            Self::ReadOnly => false,
        }
    }
}

fn sorted(numbers: &[u8]) -> Vec<&[u8]> {
    let mut numbers: Vec<_> = numbers.chunks(size_of::<CK_ULONG>()).collect();
    numbers.sort_unstable();
    numbers
}

/// Form of an attribute's value.
#[derive(Clone, Copy)]
enum Form {
    Flag,
    Number,
    /// Eight digits, or nothing.
    Date,
    Text,
    Bytes,
    /// A whole number of entries of this length.
    Array(usize),
}

impl Form {
    /// `None`: PKCS#11 has no such attribute for certificates and keys.
    fn of(kind: CK_ATTRIBUTE_TYPE) -> Option<Self> {
        Some(match kind {
            CKA_TOKEN
            | CKA_PRIVATE
            | CKA_MODIFIABLE
            | CKA_COPYABLE
            | CKA_DESTROYABLE
            | CKA_TRUSTED
            | CKA_SENSITIVE
            | CKA_ENCRYPT
            | CKA_DECRYPT
            | CKA_WRAP
            | CKA_UNWRAP
            | CKA_SIGN
            | CKA_SIGN_RECOVER
            | CKA_VERIFY
            | CKA_VERIFY_RECOVER
            | CKA_DERIVE
            | CKA_EXTRACTABLE
            | CKA_LOCAL
            | CKA_NEVER_EXTRACTABLE
            | CKA_ALWAYS_SENSITIVE
            | CKA_ALWAYS_AUTHENTICATE
            | CKA_WRAP_WITH_TRUSTED
            | CKA_ENCAPSULATE
            | CKA_DECAPSULATE => Self::Flag,
            CKA_CLASS
            | CKA_KEY_TYPE
            | CKA_CERTIFICATE_TYPE
            | CKA_CERTIFICATE_CATEGORY
            | CKA_JAVA_MIDP_SECURITY_DOMAIN
            | CKA_NAME_HASH_ALGORITHM
            | CKA_MODULUS_BITS
            | CKA_PRIME_BITS
            | CKA_VALUE_BITS
            | CKA_VALUE_LEN
            | CKA_KEY_GEN_MECHANISM
            | CKA_PARAMETER_SET => Self::Number,
            CKA_START_DATE | CKA_END_DATE => Self::Date,
            CKA_LABEL | CKA_URL | CKA_UNIQUE_ID | CKA_APPLICATION => Self::Text,
            CKA_ALLOWED_MECHANISMS => Self::Array(size_of::<CK_ULONG>()),
            CKA_WRAP_TEMPLATE
            | CKA_UNWRAP_TEMPLATE
            | CKA_DERIVE_TEMPLATE
            | CKA_ENCAPSULATE_TEMPLATE
            | CKA_DECAPSULATE_TEMPLATE => Self::Array(size_of::<CK_ATTRIBUTE>()),
            CKA_ID
            | CKA_VALUE
            | CKA_SUBJECT
            | CKA_ISSUER
            | CKA_SERIAL_NUMBER
            | CKA_OBJECT_ID
            | CKA_OWNER
            | CKA_AC_ISSUER
            | CKA_CHECK_VALUE
            | CKA_HASH_OF_SUBJECT_PUBLIC_KEY
            | CKA_HASH_OF_ISSUER_PUBLIC_KEY
            | CKA_PUBLIC_KEY_INFO
            | CKA_MODULUS
            | CKA_PUBLIC_EXPONENT
            | CKA_PRIVATE_EXPONENT
            | CKA_PRIME_1
            | CKA_PRIME_2
            | CKA_EXPONENT_1
            | CKA_EXPONENT_2
            | CKA_COEFFICIENT
            | CKA_PRIME
            | CKA_SUBPRIME
            | CKA_BASE
            | CKA_EC_PARAMS
            | CKA_EC_POINT
            | CKA_SEED => Self::Bytes,
            _ => return None,
        })
    }

    fn fits(self, value: &[u8]) -> bool {
        match self {
            Self::Flag => value == [CK_TRUE] || value == [CK_FALSE],
            Self::Number => value.len() == size_of::<CK_ULONG>(),
            Self::Date => value.is_empty() || value.len() == 8 && value.iter().all(u8::is_ascii_digit),
            Self::Text => std::str::from_utf8(value).is_ok(),
            Self::Bytes => true,
            Self::Array(size) => value.len().is_multiple_of(size),
        }
    }
}

impl Template<'_> {
    pub(crate) fn get(&self, kind: CK_ATTRIBUTE_TYPE) -> Option<&[u8]> {
        self.0.iter().find(|(given, _)| *given == kind).map(|(_, value)| value.as_slice())
    }

    pub(crate) fn needed(&self, kind: CK_ATTRIBUTE_TYPE) -> Result<&[u8], Rv> {
        self.get(kind).filter(|value| !value.is_empty()).ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))
    }

    pub(crate) fn number(&self, kind: CK_ATTRIBUTE_TYPE) -> Result<Option<CK_ULONG>, Rv> {
        let read =
            |value: &[u8]| value.try_into().map(CK_ULONG::from_ne_bytes).map_err(|_| Rv(CKR_ATTRIBUTE_VALUE_INVALID));
        self.get(kind).map(read).transpose()
    }

    /// `None`: it is not given.
    pub(crate) fn choice(&self, kind: CK_ATTRIBUTE_TYPE) -> Option<bool> {
        self.get(kind).map(|value| value.iter().any(|byte| *byte != 0))
    }

    pub(crate) fn flag(&self, kind: CK_ATTRIBUTE_TYPE) -> bool {
        self.choice(kind).unwrap_or(false)
    }

    pub(crate) fn label(&self) -> Result<Option<String>, Rv> {
        let read = |value: &[u8]| String::from_utf8(value.to_vec()).ok().filter(|text| text.len() <= MAX_NAME);
        self.get(CKA_LABEL).map(|value| read(value).ok_or(Rv(CKR_ATTRIBUTE_VALUE_INVALID))).transpose()
    }

    pub(crate) fn id(&self) -> Result<Option<Vec<u8>>, Rv> {
        let read = |value: &[u8]| Some(value.to_vec()).filter(|id| id.len() <= MAX_NAME);
        self.get(CKA_ID).map(|value| read(value).ok_or(Rv(CKR_ATTRIBUTE_VALUE_INVALID))).transpose()
    }

    /// Checks each attribute: its type, the form of its value, and what the object's rules say of it. `None`: such an
    /// object has no such attribute.
    pub(crate) fn check(&self, setup: &Setup, rule: impl Fn(CK_ATTRIBUTE_TYPE) -> Option<Rule>) -> Result<(), Rv> {
        for (place, (kind, value)) in self.0.iter().enumerate() {
            let refuse = |why, rv| refused(setup, &format!("attribute {kind:#x} of the template {why}"), Rv(rv));
            let form = Form::of(*kind).ok_or_else(|| refuse("is not known", CKR_ATTRIBUTE_TYPE_INVALID))?;
            if !form.fits(value) {
                return Err(refuse("has a value of another form", CKR_ATTRIBUTE_VALUE_INVALID));
            }
            if self.0[..place].iter().any(|(earlier, other)| earlier == kind && other != value) {
                return Err(refuse("is given twice, with two values", CKR_TEMPLATE_INCONSISTENT));
            }
            match rule(*kind) {
                Some(rule) if rule.permits(value) => {}
                Some(Rule::ReadOnly) => {
                    return Err(refuse("is set by the service: leave it out", CKR_ATTRIBUTE_READ_ONLY));
                }
                Some(_) => {
                    let why = "wants what such an object of the service never has: leave it out";
                    return Err(refuse(why, CKR_TEMPLATE_INCONSISTENT));
                }
                None => return Err(refuse("belongs to other objects: leave it out", CKR_TEMPLATE_INCONSISTENT)),
            }
        }
        Ok(())
    }
}
