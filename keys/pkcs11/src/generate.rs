//! Objects that the program makes: pairs of keys in the service, certificates and public keys in this process.

use crate::certificate::Certificate;
use crate::config::Setup;
use crate::log::{Doing, refused, told};
use crate::mechanism::{self, Mechanism, curve_of, is_ed25519};
use crate::objects::{Object, Pair, What, id_of, own};
use crate::rules::{self, Wanted};
use crate::rv::Rv;
use crate::session::Session;
use crate::store;
use crate::template::{Rule, Template};
use cryptoki_sys::{
    CK_OBJECT_HANDLE, CKA_CLASS, CKA_EC_PARAMS, CKA_EC_POINT, CKA_ENCRYPT, CKA_ID, CKA_KEY_TYPE, CKA_LABEL,
    CKA_MODULUS, CKA_MODULUS_BITS, CKA_PUBLIC_EXPONENT, CKA_TOKEN, CKA_VALUE, CKA_VERIFY, CKK_EC, CKK_EC_EDWARDS,
    CKK_ML_DSA, CKK_RSA, CKO_CERTIFICATE, CKO_PRIVATE_KEY, CKO_PUBLIC_KEY, CKO_SECRET_KEY, CKR_ACTION_PROHIBITED,
    CKR_ATTRIBUTE_READ_ONLY, CKR_ATTRIBUTE_VALUE_INVALID, CKR_CURVE_NOT_SUPPORTED, CKR_SESSION_READ_ONLY,
    CKR_TEMPLATE_INCOMPLETE, CKR_TEMPLATE_INCONSISTENT, CKR_TOKEN_WRITE_PROTECTED,
};
use der::Decode;
use der::asn1::OctetStringRef;
use sidecore_client::keyops::ask::make;
use sidecore_client::keyops::key::{Family, Key, Private, Public, Raw};
use sidecore_client::keys::{Kind, Terms, Usage};
use std::sync::Arc;

/// The public exponent of all RSA keys.
const EXPONENT: [u8; 3] = [1, 0, 1];

/// Makes a pair of keys: the public and the private object. Without `CKA_TOKEN` the service holds the key for this
/// process; else it is stored under the label.
pub(crate) fn pair(
    session: &mut Session,
    setup: &Setup,
    mechanism: &Mechanism,
    of_public: &Template<'_>,
    of_private: &Template<'_>,
) -> Result<(CK_OBJECT_HANDLE, CK_OBJECT_HANDLE), Rv> {
    let curve = of_public.get(CKA_EC_PARAMS);
    let (kind, family) = mechanism.made(of_public.number(CKA_MODULUS_BITS)?, curve)?;
    mechanism::offered(setup, mechanism.kind)?;
    let token = of_private.flag(CKA_TOKEN);
    let contradicts =
        "the templates of the pair want operations that exclude each other, or that keys of its kind never do";
    let usage = rules::usage(kind, of_public, of_private);
    // Names what is wrong with one attribute before what is wrong with several.
    let wanted = Wanted { family, token, usage: usage.unwrap_or_default(), curve };
    of_public.check(setup, |kind| wanted.public(kind))?;
    of_private.check(setup, |kind| wanted.private(kind))?;
    let usage = usage.ok_or_else(|| refused(setup, contradicts, Rv(CKR_TEMPLATE_INCONSISTENT)))?;
    if of_public.get(CKA_PUBLIC_EXPONENT).is_some_and(|e| e.iter().skip_while(|byte| **byte == 0).ne(&EXPONENT)) {
        return Err(refused(setup, "the public exponent of RSA keys is 65537", Rv(CKR_ATTRIBUTE_VALUE_INVALID)));
    }
    let (labels, ids) = ([of_public.label()?, of_private.label()?], [of_public.id()?, of_private.id()?]);
    if token {
        if !session.writable {
            return Err(Rv(CKR_SESSION_READ_ONLY));
        }
        let differ = "a stored pair has one label and one identifier";
        let differ = || refused(setup, differ, Rv(CKR_TEMPLATE_INCONSISTENT));
        let label = one(labels).map_err(|Differ| differ())?.ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))?;
        let id = one(ids).map_err(|Differ| differ())?.unwrap_or_default();
        return store::generate(setup, &label, (kind, family), terms(kind, usage, id));
    }
    let key = make(&setup.options, kind).map_err(|failure| told(setup, Doing::Asking, &failure, None))?;
    let own_id = id_of(&key.public, None);
    let pair = Arc::new(Pair::new(key, usage, Vec::new(), Some(mechanism.kind)));
    let [public_label, private_label] = labels.map(Option::unwrap_or_default);
    let [public_id, private_id] = ids.map(|id| id.unwrap_or_else(|| own_id.clone()));
    session.has_objects = true;
    let public = own::add(session.handle, public_label, public_id, What::Public(Arc::clone(&pair)))?;
    let private = own::add(session.handle, private_label, private_id, What::Private(pair)).inspect_err(|_| {
        let _ = own::destroy(public);
    })?;
    Ok((public, private))
}

/// Two values are given for what has one.
struct Differ;

/// The one value that is given, perhaps twice.
fn one<T: PartialEq>([first, second]: [Option<T>; 2]) -> Result<Option<T>, Differ> {
    match (first, second) {
        (Some(first), Some(second)) if first != second => Err(Differ),
        (first, second) => Ok(first.or(second)),
    }
}

/// Terms of a key that is stored.
fn terms(kind: Kind, usage: Usage, id: Vec<u8>) -> Terms {
    // A key without a restriction stays without one when another kind of key replaces it.
    Terms { usage: if usage == Usage::of_kind(kind) { Usage::ALL } else { usage }, id }
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
            template.check(setup, |kind| rules::certificate(&certificate, template.flag(CKA_TOKEN), kind))?;
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
            let usage = public_usage(&key, template)?;
            let what = What::Public(Arc::new(Pair::new(key, usage, Vec::new(), None)));
            let object = Object { handle: 0, token: false, label: String::new(), id: Vec::new(), what: what.clone() };
            template.check(setup, |kind| rules::public_key(&object, setup, kind))?;
            (what, id)
        }
        CKO_PRIVATE_KEY | CKO_SECRET_KEY => return Err(Rv(CKR_TOKEN_WRITE_PROTECTED)),
        _ => return Err(Rv(CKR_ATTRIBUTE_VALUE_INVALID)),
    };
    session.has_objects = true;
    let id = template.id()?.unwrap_or(own_id);
    own::add(session.handle, template.label()?.unwrap_or_default(), id, what)
}

/// What a public key of a program does: all that keys of its type do, unless the program restricts it.
fn public_usage(key: &Key, template: &Template<'_>) -> Result<Usage, Rv> {
    let does = match key.public.family() {
        Family::Rsa => Usage::SIGN.with(Usage::DECRYPT),
        Family::Ec | Family::Raw(_) => Usage::SIGN,
    };
    [(CKA_VERIFY, Usage::SIGN), (CKA_ENCRYPT, Usage::DECRYPT)].into_iter().try_fold(does, |usage, (attribute, one)| {
        match template.choice(attribute) {
            Some(true) if !does.contains(one) => Err(Rv(CKR_TEMPLATE_INCONSISTENT)),
            Some(false) => Ok(usage.without(one)),
            _ => Ok(usage),
        }
    })
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
            What::Private(pair) => {
                // The identifier that a program chose goes along.
                let chosen = Some(object.id.clone()).filter(|own| *own != id_of(&pair.public.public, None));
                store::keep(setup, pair, &name(object, label, id.clone())?, id.or(chosen).unwrap_or_default())
            }
            What::Public(pair) => store::public(setup, pair, label.as_deref(), id.as_deref()),
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
    template.check(setup, |kind| {
        if [CKA_LABEL, CKA_ID, CKA_TOKEN].contains(&kind) {
            return Some(Rule::Applied);
        }
        let is_same = template.get(kind).is_some_and(|value| object.has(setup, kind, value));
        Some(if is_same { Rule::Applied } else { Rule::ReadOnly })
    })?;
    Ok((template.label()?, template.id()?))
}
