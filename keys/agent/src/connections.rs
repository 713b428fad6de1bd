//! The open connections and their limits.
//!
//! Idle connections may stay, so they could take all places. A new connection takes the place of one that waits for a
//! request, or for the client to take its reply: of the user with most connections, the longest waiting one. A user has
//! a share of the places at most, so busy connections of one leave some for others.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most connections.
const MAX: usize = 64;
/// Most connections of one user.
const MAX_OF_USER: usize = 48;
/// Most threads: those of ended connections last a moment longer.
const MAX_THREADS: usize = 2 * MAX;
/// Longest wait for a thread to end. All threads beyond `MAX` have lost their connection.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// All connections.
#[derive(Default)]
pub(crate) struct Connections {
    table: Mutex<Table>,
    /// A connection's state or number has changed.
    changed: Condvar,
}

#[derive(Default)]
struct Table {
    open: BTreeMap<u64, Open>,
    next: u64,
    threads: usize,
    ending: bool,
}

struct Open {
    stream: Arc<UnixStream>,
    user: u32,
    state: State,
    since: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// For a request, or for the rest of one.
    Waits,
    Works,
    /// The reply, which the client has to take.
    Writes,
}

/// Why a connection has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// All places are taken, or all of this user.
    Full,
    /// The agent ends.
    Ending,
}

/// A place, given back on drop.
pub(crate) struct Place {
    connections: Arc<Connections>,
    number: u64,
}

impl Connections {
    fn table(&self) -> MutexGuard<'_, Table> {
        // No update under the lock can stop halfway.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the connection of this user a place.
    pub(crate) fn enter(self: &Arc<Self>, user: u32, stream: &Arc<UnixStream>) -> Result<Place, Refused> {
        let is_full = |table: &mut Table| table.threads == MAX_THREADS && !table.ending;
        let waited = self.changed.wait_timeout_while(self.table(), MAX_WAIT, is_full);
        let (mut table, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if table.ending {
            return Err(Refused::Ending);
        }
        if table.threads == MAX_THREADS || !table.make_room(user) {
            return Err(Refused::Full);
        }
        let number = table.next;
        table.next += 1;
        table.threads += 1;
        let open = Open { stream: Arc::clone(stream), user, state: State::Waits, since: Instant::now() };
        table.open.insert(number, open);
        Ok(Place { connections: Arc::clone(self), number })
    }

    /// Ends all connections. Replies to requests that have begun are awaited for this time.
    pub(crate) fn finish(&self, within: Duration) {
        let mut table = self.table();
        table.ending = true;
        table.open.values().filter(|open| open.state == State::Waits).for_each(Open::end);
        let is_busy = |table: &mut Table| table.open.values().any(|open| open.state != State::Waits);
        // At the end of the time the process ends without them.
        let _ = self.changed.wait_timeout_while(table, within, is_busy);
    }
}

impl Open {
    /// Wakes its thread from reading and writing.
    fn end(&self) {
        // The peer may have ended it.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Table {
    fn of_user(&self, user: u32) -> usize {
        self.open.values().filter(|open| open.user == user).count()
    }

    /// `false`: all connections in question are busy.
    fn make_room(&mut self, user: u32) -> bool {
        let exceeds = self.of_user(user) >= MAX_OF_USER;
        if !exceeds && self.open.len() < MAX {
            return true;
        }
        let idle = self.open.iter().filter(|(_, open)| open.state != State::Works && (!exceeds || open.user == user));
        let first = idle.min_by_key(|(_, open)| (Reverse(self.of_user(open.user)), open.since));
        let Some(number) = first.map(|(number, _)| *number) else { return false };
        if let Some(open) = self.open.remove(&number) {
            open.end();
        }
        true
    }
}

impl Place {
    /// `false`: the connection has lost its place, or the agent ends.
    pub(crate) fn goes_on(&self, state: State) -> bool {
        let mut table = self.connections.table();
        let ends = table.ending && state != State::Writes;
        let Some(open) = table.open.get_mut(&self.number) else { return false };
        (open.state, open.since) = (state, Instant::now());
        if ends {
            open.state = State::Waits;
        }
        drop(table);
        self.connections.changed.notify_all();
        !ends
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        table.open.remove(&self.number);
        table.threads -= 1;
        drop(table);
        self.connections.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn stream() -> (Arc<UnixStream>, UnixStream) {
        let (here, there) = UnixStream::pair().unwrap();
        there.set_nonblocking(true).unwrap();
        (Arc::new(here), there)
    }

    fn has_ended(mut peer: &UnixStream) -> bool {
        peer.read(&mut [0]).is_ok()
    }

    #[test]
    fn a_user_with_many_idle_connections_loses_the_oldest_and_another_user_none() {
        let connections = Arc::new(Connections::default());
        let (other, others_peer) = stream();
        let _other = connections.enter(1, &other).unwrap();
        let streams: Vec<_> = (0..100).map(|_| stream()).collect();
        let places: Vec<_> = streams.iter().map(|(stream, _)| connections.enter(2, stream).unwrap()).collect();
        assert!(!has_ended(&others_peer));
        let ended: Vec<bool> = streams.iter().map(|(_, peer)| has_ended(peer)).collect();
        assert_eq!(ended, [vec![true; 100 - MAX_OF_USER], vec![false; MAX_OF_USER]].concat());
        assert!(!places[0].goes_on(State::Works) && places[99].goes_on(State::Works));
    }

    #[test]
    fn busy_connections_of_one_user_leave_places_for_others() {
        let connections = Arc::new(Connections::default());
        let streams: Vec<_> = (0..MAX).map(|_| stream()).collect();
        let enter = |user: u32, number: usize| connections.enter(user, &streams[number].0);
        let places: Vec<_> = (0..MAX_OF_USER).map(|number| enter(2, number).unwrap()).collect();
        assert!(places.iter().all(|place| place.goes_on(State::Works)));
        assert_eq!(enter(2, 50).err(), Some(Refused::Full), "busy ones keep their places");
        let _others: Vec<_> = (0..MAX - MAX_OF_USER).map(|number| enter(3, 48 + number).unwrap()).collect();
        assert!(places[0].goes_on(State::Writes));
        assert!(enter(4, 63).is_ok(), "in the place of the one that does not take its reply");
        assert!(!places[0].goes_on(State::Waits) && places[1].goes_on(State::Waits));
    }

    #[test]
    fn connections_that_end_slowly_are_limited_too() {
        let connections = Arc::new(Connections::default());
        let (here, _there) = stream();
        let mut places: Vec<_> = (0..MAX_THREADS).map(|_| connections.enter(2, &here).unwrap()).collect();
        assert_eq!(connections.enter(2, &here).err(), Some(Refused::Full));
        places.pop();
        assert!(connections.enter(2, &here).is_ok());
    }

    #[test]
    fn the_end_waits_for_replies_and_for_nothing_else() {
        let connections = Arc::new(Connections::default());
        let ((idle, idle_peer), (busy, _there)) = (stream(), stream());
        let (idle, busy) = (connections.enter(1, &idle).unwrap(), connections.enter(1, &busy).unwrap());
        assert!(busy.goes_on(State::Works));
        std::thread::scope(|scope| {
            let finish = scope.spawn(|| connections.finish(Duration::from_secs(60)));
            while !has_ended(&idle_peer) {
                std::thread::yield_now();
            }
            assert!(!idle.goes_on(State::Works));
            assert!(!finish.is_finished());
            assert!(busy.goes_on(State::Writes) && !busy.goes_on(State::Waits));
            finish.join().unwrap();
        });
        assert_eq!(
            connections.enter(1, &stream().0).err(),
            Some(Refused::Ending),
            "that there is no room would be false"
        );
    }
}
