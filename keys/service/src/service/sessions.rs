//! Sessions of one lane by handle. Control thread and sidecore keep one table each, of the same handles.

use crate::engine::crypto::Session;
use std::sync::Arc;

/// A handle is a place and its generation, so that a closed session's handle matches nothing.
const PLACE_BITS: u32 = 16;
const PLACE_MASK: u32 = (1 << PLACE_BITS) - 1;

#[derive(Clone, Debug, Default)]
struct SessionSlot {
    generation: u16,
    session: Option<Arc<Session>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Sessions(Vec<SessionSlot>);

impl Sessions {
    pub(super) fn open(&mut self, session: Arc<Session>, limit: u32) -> Option<u32> {
        let free = self.0.iter().position(|place| place.session.is_none());
        let index = free.or_else(|| {
            (self.0.len() < limit.min(PLACE_MASK) as usize).then(|| {
                self.0.push(SessionSlot::default());
                self.0.len() - 1
            })
        })?;
        let place = &mut self.0[index];
        place.generation = place.generation.wrapping_add(1);
        place.session = Some(session);
        Some(index as u32 | u32::from(place.generation) << PLACE_BITS)
    }

    /// Enters a session under a handle of the other table.
    pub(super) fn insert(&mut self, handle: u32, session: Arc<Session>) {
        let index = (handle & PLACE_MASK) as usize;
        if self.0.len() <= index {
            self.0.resize_with(index + 1, SessionSlot::default);
        }
        self.0[index] = SessionSlot { generation: (handle >> PLACE_BITS) as u16, session: Some(session) };
    }

    pub(super) fn get(&self, handle: u32) -> Option<&Arc<Session>> {
        self.find(handle).map(|(_, session)| session)
    }

    /// The session of a handle, and its place, which is valid for [`Sessions::at`] until the next open or close.
    #[inline]
    pub(super) fn find(&self, handle: u32) -> Option<(u32, &Arc<Session>)> {
        let number = handle & PLACE_MASK;
        let place = self.0.get(number as usize)?;
        let session = place.session.as_ref().filter(|_| u32::from(place.generation) == handle >> PLACE_BITS);
        Some((number, session?))
    }

    #[inline]
    pub(super) fn at(&self, place: u32) -> Option<&Arc<Session>> {
        self.0.get(place as usize)?.session.as_ref()
    }

    pub(super) fn close(&mut self, handle: u32) -> Option<Arc<Session>> {
        self.get(handle)?;
        self.0[(handle & PLACE_MASK) as usize].session.take()
    }

    pub(super) fn count(&self) -> usize {
        self.0.iter().filter(|place| place.session.is_some()).count()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (u32, Arc<Session>)> + '_ {
        self.0.iter().enumerate().filter_map(|(index, place)| {
            let handle = index as u32 | u32::from(place.generation) << PLACE_BITS;
            Some((handle, place.session.clone()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::crypto::sample::sample;
    use sidecore_core::session::Class;

    fn session() -> Arc<Session> {
        Arc::new(Session::open(&sample(Class::NOOP, 0, 0).spec).unwrap())
    }

    #[test]
    fn a_closed_handle_finds_nothing_even_when_its_place_is_taken_again() {
        let mut table = Sessions::default();
        let first = table.open(session(), 8).unwrap();
        assert!(table.close(first).is_some() && table.close(first).is_none());
        let second = table.open(session(), 8).unwrap();
        assert_ne!(first, second);
        assert!(table.get(first).is_none() && table.get(second).is_some());
        assert!(table.get(u32::MAX).is_none());
    }

    #[test]
    fn two_tables_agree_on_handles() {
        let (mut control, mut sidecore) = (Sessions::default(), Sessions::default());
        for _ in 0..3 {
            let handle = control.open(session(), 8).unwrap();
            control.close(handle);
            let handle = control.open(session(), 8).unwrap();
            sidecore.insert(handle, session());
            assert!(sidecore.get(handle).is_some());
        }
        let handles = |table: &Sessions| table.all().map(|(handle, _)| handle).collect::<Vec<_>>();
        assert_eq!(handles(&control), handles(&sidecore));
    }

    #[test]
    fn the_limit_holds() {
        let mut table = Sessions::default();
        assert!((0..3).all(|_| table.open(session(), 3).is_some()));
        assert_eq!(table.open(session(), 3), None);
    }
}
