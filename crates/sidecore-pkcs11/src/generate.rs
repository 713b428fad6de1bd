//! Objects that the program makes: pairs of keys in the service, certificates and public keys in this process.

use crate::certificate::Certificate;
use crate::config::Setup;
use crate::mechanism::{Mechanism, curve_of, is_ed25519};
use crate::objects::{Object, Pair, What, id_of, own};
use crate::rv::{Doing, Rv, told};
use crate::session::Session;
use crate::store;
use cryptoki_sys::{
    CK_ATTRIBUTE_TYPE, CK_OBJECT_HANDLE, CK_ULONG, CKA_CLASS, CKA_EC_PARAMS, CKA_EC_POINT, CKA_EXTRACTABLE, CKA_ID,
    CKA_KEY_TYPE, CKA_LABEL, CKA_MODULUS, CKA_MODULUS_BITS, CKA_PUBLIC_EXPONENT, CKA_SENSITIVE, CKA_TOKEN, CKA_VALUE,
    CKK_EC, CKK_EC_EDWARDS, CKK_ML_DSA, CKK_RSA, CKO_CERTIFICATE, CKO_PRIVATE_KEY, CKO_PUBLIC_KEY, CKO_SECRET_KEY,
    CKR_ACTION_PROHIBITED, CKR_ATTRIBUTE_READ_ONLY, CKR_ATTRIBUTE_VALUE_INVALID, CKR_CURVE_NOT_SUPPORTED,
    CKR_SESSION_READ_ONLY, CKR_TEMPLATE_INCOMPLETE, CKR_TEMPLATE_INCONSISTENT, CKR_TOKEN_WRITE_PROTECTED,
};
use der::Decode;
use der::asn1::OctetStringRef;
use sidecore_client::keyops::ask::make;
use sidecore_client::keyops::key::{Key, Private, Public, Raw};
use sidecore_client::keys::Usage;
use std::sync::Arc;

/// Longest label or identifier of an object, bytes.
const MAX_NAME: usize = 1024;
/// The public exponent of all RSA keys.
const EXPONENT: [u8; 3] = [1, 0, 1];

/// Attributes that the program gives for an object.
pub(crate) struct Template<'t>(pub(crate) &'t [(CK_ATTRIBUTE_TYPE, Vec<u8>)]);

impl Template<'_> {
    fn get(&self, kind: CK_ATTRIBUTE_TYPE) -> Option<&[u8]> {
        self.0.iter().find(|(given, _)| *given == kind).map(|(_, value)| value.as_slice())
    }

    fn needed(&self, kind: CK_ATTRIBUTE_TYPE) -> Result<&[u8], Rv> {
        self.get(kind).filter(|value| !value.is_empty()).ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))
    }

    fn number(&self, kind: CK_ATTRIBUTE_TYPE) -> Result<Option<CK_ULONG>, Rv> {
        let read =
            |value: &[u8]| value.try_into().map(CK_ULONG::from_ne_bytes).map_err(|_| Rv(CKR_ATTRIBUTE_VALUE_INVALID));
        self.get(kind).map(read).transpose()
    }

    fn flag(&self, kind: CK_ATTRIBUTE_TYPE) -> bool {
        self.get(kind).is_some_and(|value| value.iter().any(|byte| *byte != 0))
    }

    fn label(&self) -> Result<Option<String>, Rv> {
        let read = |value: &[u8]| String::from_utf8(value.to_vec()).ok().filter(|text| text.len() <= MAX_NAME);
        self.get(CKA_LABEL).map(|value| read(value).ok_or(Rv(CKR_ATTRIBUTE_VALUE_INVALID))).transpose()
    }

    fn id(&self) -> Result<Option<Vec<u8>>, Rv> {
        let read = |value: &[u8]| Some(value.to_vec()).filter(|id| id.len() <= MAX_NAME);
        self.get(CKA_ID).map(|value| read(value).ok_or(Rv(CKR_ATTRIBUTE_VALUE_INVALID))).transpose()
    }
}

/// Makes a pair of keys: the public and the private object. Without `CKA_TOKEN` the service holds the key for this
/// process; else it is stored under the label.
pub(crate) fn pair(
    session: &mut Session,
    setup: &Setup,
    mechanism: &Mechanism,
    of_public: &Template<'_>,
    of_private: &Template<'_>,
) -> Result<(CK_OBJECT_HANDLE, CK_OBJECT_HANDLE), Rv> {
    let bits = of_public.number(CKA_MODULUS_BITS)?;
    let kind = mechanism.made(bits, of_public.get(CKA_EC_PARAMS))?;
    if of_public.get(CKA_PUBLIC_EXPONENT).is_some_and(|e| e.iter().skip_while(|byte| **byte == 0).ne(&EXPONENT)) {
        return Err(Rv(CKR_ATTRIBUTE_VALUE_INVALID));
    }
    let is_open = of_private.get(CKA_SENSITIVE).is_some() && !of_private.flag(CKA_SENSITIVE);
    if of_private.flag(CKA_EXTRACTABLE) || is_open {
        return Err(Rv(CKR_TEMPLATE_INCONSISTENT));
    }
    if of_private.flag(CKA_TOKEN) {
        if !session.writable {
            return Err(Rv(CKR_SESSION_READ_ONLY));
        }
        let label = of_private.label()?.or(of_public.label()?).ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))?;
        return store::generate(setup, &label, kind);
    }
    let (labels, ids) = ([of_public.label()?, of_private.label()?], [of_public.id()?, of_private.id()?]);
    let key = make(&setup.options, kind).map_err(|failure| told(setup, Doing::Asking, &failure, None))?;
    let own_id = id_of(&key.public, None);
    let pair = Arc::new(Pair::new(key, Usage::of_kind(kind), Vec::new(), true));
    let [public_label, private_label] = labels.map(Option::unwrap_or_default);
    let [public_id, private_id] = ids.map(|id| id.unwrap_or_else(|| own_id.clone()));
    session.has_objects = true;
    let public = own::add(session.handle, public_label, public_id, What::Public(Arc::clone(&pair)))?;
    let private = own::add(session.handle, private_label, private_id, What::Private(pair)).inspect_err(|_| {
        let _ = own::destroy(public);
    })?;
    Ok((public, private))
}

/// Creates a certificate or a public key in this process; with `CKA_TOKEN`, a certificate in the service.
pub(crate) fn create(session: &mut Session, setup: &Setup, template: &Template<'_>) -> Result<CK_OBJECT_HANDLE, Rv> {
    let class = template.number(CKA_CLASS)?.ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))?;
    let (what, own_id) = match class {
        CKO_CERTIFICATE | CKO_PUBLIC_KEY if template.flag(CKA_TOKEN) && !session.writable => {
            return Err(Rv(CKR_SESSION_READ_ONLY));
        }
        CKO_PUBLIC_KEY if template.flag(CKA_TOKEN) => return Err(Rv(CKR_TOKEN_WRITE_PROTECTED)),
        CKO_CERTIFICATE => {
            let read = Certificate::read(template.needed(CKA_VALUE)?);
            let certificate = read.ok_or(Rv(CKR_ATTRIBUTE_VALUE_INVALID))?;
            if template.flag(CKA_TOKEN) {
                let (label, id) = (template.label()?, template.id()?);
                return store::certify(setup, &certificate, label.as_deref(), id.as_deref());
            }
            let id = Public::from_spki(&certificate.spki).map(|public| id_of(&public, None)).unwrap_or_default();
            (What::Certificate(Arc::new(certificate)), id)
        }
        CKO_PUBLIC_KEY => {
            let public = public(template)?;
            let id = id_of(&public, None);
            let key = Key::new(public, Private::None);
            (What::Public(Arc::new(Pair::new(key, Usage::NONE, Vec::new(), false))), id)
        }
        CKO_PRIVATE_KEY | CKO_SECRET_KEY => return Err(Rv(CKR_TOKEN_WRITE_PROTECTED)),
        _ => return Err(Rv(CKR_ATTRIBUTE_VALUE_INVALID)),
    };
    session.has_objects = true;
    let id = template.id()?.unwrap_or(own_id);
    own::add(session.handle, template.label()?.unwrap_or_default(), id, what)
}

fn public(template: &Template<'_>) -> Result<Public, Rv> {
    let wrong = Rv(CKR_ATTRIBUTE_VALUE_INVALID);
    let public = match template.number(CKA_KEY_TYPE)?.ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))? {
        CKK_RSA => {
            let number = |kind| {
                let bytes = template.needed(kind)?;
                let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
                Ok(bytes[zeros..].to_vec())
            };
            Public::Rsa { n: number(CKA_MODULUS)?, e: number(CKA_PUBLIC_EXPONENT)? }
        }
        CKK_EC => {
            let curve = curve_of(template.needed(CKA_EC_PARAMS)?).ok_or(Rv(CKR_CURVE_NOT_SUPPORTED))?;
            let point = point(template.needed(CKA_EC_POINT)?);
            Public::Ec { curve, point: curve.point(point).ok_or(wrong)? }
        }
        CKK_EC_EDWARDS if is_ed25519(template.needed(CKA_EC_PARAMS)?) => {
            Public::Raw(Raw::Ed25519, point(template.needed(CKA_EC_POINT)?).to_vec())
        }
        CKK_EC_EDWARDS => return Err(Rv(CKR_CURVE_NOT_SUPPORTED)),
        CKK_ML_DSA => Public::Raw(Raw::MlDsa65, template.needed(CKA_VALUE)?.to_vec()),
        _ => return Err(wrong),
    };
    // A key that cannot be written and read is none.
    let spki = public.to_spki().map_err(|_| wrong)?;
    let is_rsa_in_range = !matches!(public, Public::Rsa { .. }) || (1024..=8192).contains(&public.bits());
    if is_rsa_in_range && Public::from_spki(&spki).is_ok_and(|read| read == public) { Ok(public) } else { Err(wrong) }
}

/// A point may stand in an octet string or alone.
fn point(bytes: &[u8]) -> &[u8] {
    <&OctetStringRef>::from_der(bytes).map_or(bytes, OctetStringRef::as_bytes)
}

/// Copies an object of this process, with `CKA_TOKEN` into the service. The service's are not copied.
pub(crate) fn copy(
    session: &mut Session,
    setup: &Setup,
    object: &Object,
    template: &Template<'_>,
) -> Result<CK_OBJECT_HANDLE, Rv> {
    if object.token {
        return Err(Rv(CKR_ACTION_PROHIBITED));
    }
    let (label, id) = changes(setup, object, template)?;
    if template.flag(CKA_TOKEN) {
        if !session.writable {
            return Err(Rv(CKR_SESSION_READ_ONLY));
        }
        return match &object.what {
            What::Private(pair) => store::keep(setup, pair, &name(object, label, id)?),
            What::Public(pair) => store::public(setup, pair),
            What::Certificate(certificate) => store::certify(setup, certificate, label.as_deref(), id.as_deref()),
        };
    }
    session.has_objects = true;
    let (label, id) = (label.unwrap_or_else(|| object.label.clone()), id.unwrap_or_else(|| object.id.clone()));
    own::add(session.handle, label, id, object.what.clone())
}

/// The name to store a key under. Java gives it as the identifier.
fn name(object: &Object, label: Option<String>, id: Option<Vec<u8>>) -> Result<String, Rv> {
    let given = [label, Some(object.label.clone())].into_iter().flatten().find(|label| !label.is_empty());
    given.or_else(|| String::from_utf8(id?).ok()).ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))
}

/// Changes label and identifier of an object of this process.
pub(crate) fn change(setup: &Setup, object: &Object, template: &Template<'_>) -> Result<(), Rv> {
    if object.token {
        return Err(Rv(CKR_ACTION_PROHIBITED));
    }
    if template.flag(CKA_TOKEN) {
        return Err(Rv(CKR_ATTRIBUTE_READ_ONLY));
    }
    let (label, id) = changes(setup, object, template)?;
    own::rename(object.handle, label, id)
}

/// The new label and identifier. Other attributes stay as they are.
fn changes(setup: &Setup, object: &Object, template: &Template<'_>) -> Result<(Option<String>, Option<Vec<u8>>), Rv> {
    let stays = |kind: CK_ATTRIBUTE_TYPE, value: &[u8]| object.has(setup, kind, value);
    let may = |(kind, value): &(_, Vec<u8>)| [CKA_LABEL, CKA_ID, CKA_TOKEN].contains(kind) || stays(*kind, value);
    if template.0.iter().all(may) { Ok((template.label()?, template.id()?)) } else { Err(Rv(CKR_ATTRIBUTE_READ_ONLY)) }
}
