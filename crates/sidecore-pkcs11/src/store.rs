//! Objects that the program stores in the service: pairs of keys, and certificates of keys that are there. Those who may:
//! administrators, and members of `keys.creators` for keys of their own.

use crate::certificate::Certificate;
use crate::config::Setup;
use crate::life;
use crate::objects::snapshot::{self, Snapshot};
use crate::objects::{Object, Pair, What, own};
use crate::rv::{Doing, Rv, told};
use cryptoki_sys::{
    CK_OBJECT_HANDLE, CKR_ATTRIBUTE_VALUE_INVALID, CKR_FUNCTION_FAILED, CKR_TEMPLATE_INCONSISTENT,
    CKR_TOKEN_WRITE_PROTECTED,
};
use sidecore_client::client::{Admin, Error};
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::key::{Private, Public};
use sidecore_client::keyops::large_stack::on_large_stack;
use sidecore_client::keys::{Acl, KeyCommand, Kind, MAX_CERTIFICATE, check_name};
use std::sync::Arc;

/// Has the service make and store a key: its public and its private object.
pub(crate) fn generate(setup: &Setup, name: &str, kind: Kind) -> Result<(CK_OBJECT_HANDLE, CK_OBJECT_HANDLE), Rv> {
    check(name)?;
    let snapshot = change(setup, vec![KeyCommand::Generate { name: name.to_owned(), kind, acl: Acl::default() }])?;
    let of = |is: fn(&What) -> bool| find(&snapshot, |object| object.label == name && is(&object.what));
    Ok((of(|what| matches!(what, What::Public(_)))?, of(|what| matches!(what, What::Private(_)))?))
}

/// Has the service store a key that it made for this program. Its objects are those of the stored key afterwards.
pub(crate) fn keep(setup: &Setup, pair: &Arc<Pair>, name: &str) -> Result<CK_OBJECT_HANDLE, Rv> {
    check(name)?;
    let Some(Private::Made(made)) = pair.private.as_ref().map(|key| &key.private) else {
        return Err(Rv(CKR_TOKEN_WRITE_PROTECTED));
    };
    let snapshot = change(setup, vec![KeyCommand::KeepMade { token: *made.token(), name: name.to_owned() }])?;
    let kept = snapshot.all().find_map(|object| match &object.what {
        What::Private(stored) if object.label == name => Some((object.handle, stored)),
        _ => None,
    });
    let (handle, stored) = kept.ok_or(Rv(CKR_FUNCTION_FAILED))?;
    own::now_stored(pair, stored)?;
    Ok(handle)
}

/// The stored public object of this key, which is there with the private one.
pub(crate) fn public(setup: &Setup, pair: &Pair) -> Result<CK_OBJECT_HANDLE, Rv> {
    let is =
        |object: &Object| matches!(&object.what, What::Public(stored) if stored.public.public == pair.public.public);
    find(&*snapshot::fresh(setup)?, is).map_err(|_| Rv(CKR_TOKEN_WRITE_PROTECTED))
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
    let chains = match of_key[..] {
        [(object, _)] => vec![(&object.label, vec![certificate.der.clone()])],
        [] if public.is_none() || keys(&snapshot, |pair| Some(&pair.public.public) == public.as_ref()).is_empty() => {
            let issued = keys(&snapshot, |pair| pair.certificates.last().is_some_and(|last| certificate.issued(last)));
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

fn check(name: &str) -> Result<(), Rv> {
    check_name(name).map_err(|_| Rv(CKR_ATTRIBUTE_VALUE_INVALID))
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
