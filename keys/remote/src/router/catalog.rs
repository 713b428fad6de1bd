//! Offered keys as kinds of events. Each has a number, which another key may get once this one is unused.

use sidecore_client::gateway::{MAX_OFFERS, Offer};
use sidecore_core::session::Class;
use sidecore_core::time::Nanos;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A key stays offered for this time after the loss of its last key server, ns, and longer if that is far away: most
/// return quickly.
const LINGER: Nanos = 60_000_000;

#[derive(Debug)]
pub(super) struct KeyCatalog {
    kinds: Vec<Option<Kind>>,
    /// Public parts of keys as the service knows them.
    known: BTreeMap<String, Vec<u8>>,
}

#[derive(Debug)]
struct Kind {
    key: Rc<str>,
    public: Rc<[u8]>,
    servers: u32,
    requests: u32,
    /// Its last key server is gone: requests wait until then for another offer.
    until: Option<Nanos>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum OfferRefusal {
    /// Others offer another key of this name.
    Another,
    /// The service knows another key of this name.
    Unknown,
    /// The gateway has no number left.
    TooMany,
}

impl KeyCatalog {
    pub(super) fn new() -> Self {
        Self { kinds: (0..Class::COUNT).map(|_| None).collect(), known: BTreeMap::new() }
    }

    /// The public part of the service's key of this name; `None`: the service has no such key. Returns the kind of event
    /// that is another key.
    pub(super) fn knows(&mut self, key: &str, public: Option<&[u8]>) -> Option<Class> {
        let Some(public) = public else {
            self.known.remove(key);
            return None;
        };
        if self.known.len() < MAX_OFFERS || self.known.contains_key(key) {
            self.known.insert(key.to_owned(), public.to_vec());
        }
        let is_another = |kind: &Option<Kind>| {
            kind.as_ref().is_some_and(|kind| !kind.is_free() && *kind.key == *key && *kind.public != *public)
        };
        self.place(is_another).map(|(class, _)| class)
    }

    /// Adds a key server's offer. The flag: it is the first one.
    pub(super) fn offer(&mut self, offer: &Offer<'_>) -> Result<(Class, bool), OfferRefusal> {
        if self.known.get(offer.key).is_some_and(|known| *known != *offer.public) {
            return Err(OfferRefusal::Unknown);
        }
        let known = self.place(|kind| kind.as_ref().is_some_and(|kind| *kind.key == *offer.key));
        let (class, kind) = match known {
            Some((class, Some(kind))) if *kind.public == *offer.public || kind.may_change() => (class, kind),
            Some(_) => return Err(OfferRefusal::Another),
            None => {
                let (class, free) = self.place(Option::is_none).ok_or(OfferRefusal::TooMany)?;
                let public = offer.public.into();
                (class, free.insert(Kind { key: offer.key.into(), public, servers: 0, requests: 0, until: None }))
            }
        };
        let first = kind.is_free() || *kind.public != *offer.public;
        if first {
            kind.public = offer.public.into();
        }
        kind.until = None;
        kind.servers += 1;
        Ok((class, first))
    }

    pub(super) fn is_offered(&self, key: &str) -> bool {
        self.kinds.iter().flatten().any(|kind| *kind.key == *key && kind.servers > 0)
    }

    /// `delay`: how much longer than others the key server's messages may be under way.
    pub(super) fn withdraw(&mut self, now: Nanos, class: Class, delay: Nanos) {
        if let Some(kind) = &mut self.kinds[class.index()] {
            kind.servers -= 1;
            kind.until = (kind.servers == 0).then(|| now.saturating_add(LINGER).saturating_add(delay));
        }
    }

    pub(super) fn expire(&mut self, key: &str) {
        let is_it = |kind: &&mut Kind| *kind.key == *key && kind.servers == 0;
        if let Some(kind) = self.kinds.iter_mut().flatten().find(is_it) {
            kind.until = Some(0);
        }
    }

    pub(super) fn next_gone(&mut self, now: Nanos) -> Option<(Class, Rc<str>)> {
        let is_gone = |kind: &Option<Kind>| kind.as_ref().and_then(|kind| kind.until).is_some_and(|until| until <= now);
        let (class, kind) = self.place(is_gone)?;
        let kind = kind.as_mut()?;
        kind.until = None;
        let key = kind.key.clone();
        self.tidy(class);
        Some((class, key))
    }

    pub(super) fn lingers(&self, class: Class) -> bool {
        self.kinds[class.index()].as_ref().is_some_and(|kind| kind.until.is_some())
    }

    pub(super) fn request(&mut self, key: &str) -> Option<Class> {
        let is_it = |kind: &Option<Kind>| kind.as_ref().is_some_and(|kind| !kind.is_free() && *kind.key == *key);
        let (class, kind) = self.place(is_it)?;
        kind.as_mut()?.requests += 1;
        Some(class)
    }

    pub(super) fn done(&mut self, class: Class) {
        if let Some(kind) = &mut self.kinds[class.index()] {
            kind.requests -= 1;
        }
        self.tidy(class);
    }

    pub(super) fn key(&self, class: Class) -> Option<(Rc<str>, Rc<[u8]>)> {
        self.kinds[class.index()].as_ref().map(|kind| (kind.key.clone(), kind.public.clone()))
    }

    fn place(&mut self, is_it: impl Fn(&Option<Kind>) -> bool) -> Option<(Class, &mut Option<Kind>)> {
        Class::all().zip(&mut self.kinds).find(|(_, kind)| is_it(kind))
    }

    fn tidy(&mut self, class: Class) {
        let place = &mut self.kinds[class.index()];
        if place.as_ref().is_some_and(|kind| kind.is_free() && kind.requests == 0) {
            *place = None;
        }
    }
}

impl Kind {
    /// Whether it may become another key of its name: nobody offers it, and no request waits for it.
    fn may_change(&self) -> bool {
        self.is_free() || self.servers == 0 && self.requests == 0
    }

    fn is_free(&self) -> bool {
        self.servers == 0 && self.until.is_none()
    }
}
