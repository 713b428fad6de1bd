//! Objects that the program stores in the service: pairs of keys, and certificates of keys that are there. Those who may:
//! administrators, and members of `keys.creators` for keys of their own.

use crate::certificate::Certificate;
use crate::config::Setup;
use crate::life;
use crate::log::{Doing, refused, told};
use crate::objects::snapshot::{self, Snapshot};
use crate::objects::{Object, Pair, What, own};
use crate::rv::Rv;
use cryptoki_sys::{
    CK_OBJECT_HANDLE, CKR_ATTRIBUTE_VALUE_INVALID, CKR_FUNCTION_FAILED, CKR_TEMPLATE_INCONSISTENT,
    CKR_TOKEN_WRITE_PROTECTED,
};
use sidecore_client::client::{Admin, Error};
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::key::{Family, Private, Public};
use sidecore_client::keyops::large_stack::on_large_stack;
use sidecore_client::keys::{Acl, KeyCommand, Kind, MAX_CERTIFICATE, MAX_ID, Terms, Usage, check_name};
use std::sync::Arc;

/// Has the service make and store a key: its public and its private object.
pub(crate) fn generate(
    setup: &Setup,
    name: &str,
    (kind, family): (Kind, Family),
    terms: Terms,
) -> Result<(CK_OBJECT_HANDLE, CK_OBJECT_HANDLE), Rv> {
    check(setup, name, family, &terms)?;
    let (name_of_key, acl) = (name.to_owned(), Acl::default());
    let command = if terms == Terms::default() {
        // Older services know it, too.
        KeyCommand::Generate { name: name_of_key, kind, acl }
    } else {
        KeyCommand::GenerateWith { name: name_of_key, kind, acl, terms }
    };
    let snapshot = change(setup, vec![command])?;
    let of = |is: fn(&What) -> bool| find(&snapshot, |object| object.label == name && is(&object.what));
    Ok((of(|what| matches!(what, What::Public(_)))?, of(|what| matches!(what, What::Private(_)))?))
}

/// Has the service store a key that it made for this program. Its objects are those of the stored key afterwards.
pub(crate) fn keep(setup: &Setup, pair: &Arc<Pair>, name: &str, id: Vec<u8>) -> Result<CK_OBJECT_HANDLE, Rv> {
    let is_all = pair.usage == all_of(&pair.public.public);
    let terms = Terms { usage: if is_all { Usage::ALL } else { pair.usage }, id };
    check(setup, name, pair.public.public.family(), &terms)?;
    let Some(Private::Made(made)) = pair.private.as_ref().map(|key| &key.private) else {
        return Err(Rv(CKR_TOKEN_WRITE_PROTECTED));
    };
    let (token, name_of_key) = (*made.token(), name.to_owned());
    let command = if terms == Terms::default() {
        KeyCommand::KeepMade { token, name: name_of_key }
    } else {
        KeyCommand::KeepMadeWith { token, name: name_of_key, terms }
    };
    let snapshot = change(setup, vec![command])?;
    let kept = snapshot.all().find_map(|object| match &object.what {
        What::Private(stored) if object.label == name => Some((object.handle, stored)),
        _ => None,
    });
    let (handle, stored) = kept.ok_or(Rv(CKR_FUNCTION_FAILED))?;
    own::now_stored(pair, stored)?;
    Ok(handle)
}

/// The stored public object of this key, which is there with the private one. It has that one's label and identifier.
pub(crate) fn public(
    setup: &Setup,
    pair: &Pair,
    label: Option<&str>,
    id: Option<&[u8]>,
) -> Result<CK_OBJECT_HANDLE, Rv> {
    let snapshot = snapshot::fresh(setup)?;
    let is_stored = |object: &&Arc<Object>| matches!(&object.what, What::Public(stored) if stored.public.public == pair.public.public);
    let mut stored = snapshot.all().filter(is_stored).peekable();
    if stored.peek().is_none() {
        return Err(Rv(CKR_TOKEN_WRITE_PROTECTED));
    }
    let named = stored.find(|object| is_named(object, label, id)).map(|object| object.handle);
    named.ok_or_else(|| refused(setup, OTHER_NAME, Rv(CKR_TEMPLATE_INCONSISTENT)))
}

const OTHER_NAME: &str =
    "a public key or certificate has its private key's label and identifier: give these, or leave them out";

/// Whether label and identifier, as far as they are given, are the object's. Java gives the label as the identifier.
fn is_named(object: &Object, label: Option<&str>, id: Option<&[u8]>) -> bool {
    let has_label = label.is_none_or(|label| label.is_empty() || label == object.label);
    has_label && id.is_none_or(|id| id.is_empty() || id == object.id || id == object.label.as_bytes())
}

/// All that keys of its kind do.
fn all_of(public: &Public) -> Usage {
    match public {
        Public::Rsa { .. } => Usage::SIGN.with(Usage::DECRYPT),
        Public::Ec { .. } => Usage::SIGN.with(Usage::DERIVE),
        Public::Raw(raw, _) => Usage::of_kind(raw.kind()),
    }
}

/// Stores a certificate: in the place of all that its key has, or behind those whose issuer it is. `label` and `id` choose
/// among several names of one key.
pub(crate) fn certify(
    setup: &Setup,
    certificate: &Certificate,
    label: Option<&str>,
    id: Option<&[u8]>,
) -> Result<CK_OBJECT_HANDLE, Rv> {
    if certificate.der.len() > MAX_CERTIFICATE {
        return Err(Rv(CKR_ATTRIBUTE_VALUE_INVALID));
    }
    let is_it = |object: &Object| matches!(&object.what, What::Certificate(stored) if stored.der == certificate.der);
    // What is written back is not older than this call.
    snapshot::forget(life::process()?);
    let snapshot = snapshot::fresh(setup)?;
    let public = Public::from_spki(&certificate.spki).ok();
    let mut of_key = keys(&snapshot, |pair| Some(&pair.public.public) == public.as_ref());
    if of_key.len() > 1 {
        of_key.retain(|(object, _)| label == Some(object.label.as_str()) || id == Some(object.id.as_slice()));
    }
    if let [(object, _)] = of_key[..]
        && !is_named(object, label, id)
    {
        return Err(refused(setup, OTHER_NAME, Rv(CKR_TEMPLATE_INCONSISTENT)));
    }
    let chains = match of_key[..] {
        [(object, _)] => vec![(&object.label, vec![certificate.der.clone()])],
        [] if public.is_none() || keys(&snapshot, |pair| Some(&pair.public.public) == public.as_ref()).is_empty() => {
            let issued = keys(&snapshot, |pair| pair.certificates.last().is_some_and(|last| certificate.issued(last)));
            if [label.map(str::as_bytes), id].into_iter().flatten().any(|given| !given.is_empty()) {
                let why = "an issuer's certificate gets label and identifier from the service: leave them out";
                return Err(refused(setup, why, Rv(CKR_TEMPLATE_INCONSISTENT)));
            }
            if issued.is_empty() {
                // It ends a chain already.
                return find(&snapshot, is_it).map_err(|_| Rv(CKR_TEMPLATE_INCONSISTENT));
            }
            let with = |pair: &Pair| {
                let chain = pair.certificates.iter().map(|it| &it.der);
                chain.chain([&certificate.der]).cloned().collect()
            };
            issued.into_iter().map(|(object, pair)| (&object.label, with(pair))).collect()
        }
        _ => Vec::new(),
    };
    if chains.is_empty() {
        return Err(Rv(CKR_TEMPLATE_INCONSISTENT));
    }
    let commands = chains.into_iter().flat_map(|(name, chain)| add(name, chain)).collect();
    find(&*change(setup, commands)?, is_it)
}

fn add(name: &str, chain: Vec<Vec<u8>>) -> impl Iterator<Item = KeyCommand> {
    let last = chain.len() - 1;
    let name = name.to_owned();
    chain.into_iter().enumerate().map(move |(place, certificate)| KeyCommand::AddCertificate {
        name: name.clone(),
        certificate,
        more: place < last,
    })
}

fn keys(snapshot: &Snapshot, fits: impl Fn(&Pair) -> bool) -> Vec<(&Object, &Pair)> {
    let private = snapshot.all().filter_map(|object| match &object.what {
        What::Private(pair) => Some((&**object, &**pair)),
        _ => None,
    });
    private.filter(|(_, pair)| fits(pair)).collect()
}

fn find(snapshot: &Snapshot, is: impl Fn(&Object) -> bool) -> Result<CK_OBJECT_HANDLE, Rv> {
    snapshot.all().find(|object| is(object)).map(|object| object.handle).ok_or(Rv(CKR_FUNCTION_FAILED))
}

/// Before a key is stored that these settings would not show.
fn check(setup: &Setup, name: &str, family: Family, terms: &Terms) -> Result<(), Rv> {
    let invalid = |why: &str| refused(setup, why, Rv(CKR_ATTRIBUTE_VALUE_INVALID));
    check_name(name).map_err(|error| invalid(&error.to_string()))?;
    if terms.id.len() > MAX_ID {
        return Err(invalid(&format!("a stored key's identifier has at most {MAX_ID} bytes")));
    }
    if !setup.shows(name, family, false) {
        return Err(invalid(&format!(
            "the settings keys and families hide a key {name:?} of this type: change them first"
        )));
    }
    Ok(())
}

/// Has the service change its keys. Its objects afterwards.
fn change(setup: &Setup, commands: Vec<KeyCommand>) -> Result<Arc<Snapshot>, Rv> {
    let done = on_large_stack(|| {
        let mut admin = Admin::connect(&setup.options)?;
        commands.into_iter().try_for_each(|command| match admin.keys(command) {
            Ok(_) => Ok(()),
            Err(Error::Service(refused)) => Err(Failure::refused(Reason::Key, &refused)),
            Err(other) => Err(Failure::new(Reason::Service, other.to_string())),
        })
    });
    done.map_err(|failure: Failure| {
        let rv = told(setup, Doing::Asking, &failure, None);
        match failure.reason {
            Reason::NotAllowed => Rv(CKR_TOKEN_WRITE_PROTECTED),
            Reason::Key => Rv(CKR_FUNCTION_FAILED),
            _ => rv,
        }
    })?;
    snapshot::forget(life::process()?);
    snapshot::fresh(setup)
}
