//! Takes connections of permitted users, each on a thread of its own.

use crate::answer::answer;
use crate::binding::Bindings;
use crate::connections::{Connections, Place, Refused, State};
use crate::frame;
use crate::log::{Event, Log};
use crate::services::Services;
use sidecore_ipc::sys::peer;
use std::io::{self, ErrorKind};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Between attempts while the system gives no connection, e.g. for lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Server {
    pub(crate) services: Services,
    /// Numbers of the users who may connect.
    pub(crate) allowed: Vec<u32>,
    pub(crate) log: Log,
    pub(crate) connections: Arc<Connections>,
}

impl Server {
    /// Takes connections from now on, until the process ends.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn start(listener: UnixListener, server: Self) -> io::Result<Arc<Self>> {
        let server = Arc::new(server);
        let accepting = Arc::clone(&server);
        thread::Builder::new().name("accept".to_owned()).spawn(move || accepting.accept(&listener))?;
        Ok(server)
    }

    fn accept(self: Arc<Self>, listener: &UnixListener) {
        loop {
            let taken = listener.accept().and_then(|(stream, _)| self.admit(stream));
            match taken {
                Err(error) if !matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {
                    self.log.tell(
                        Event::System,
                        format_args!("no connection: {error}; raise the limits on files and threads"),
                    );
                    thread::sleep(PAUSE);
                }
                _ => {}
            }
        }
    }

    fn admit(self: &Arc<Self>, stream: UnixStream) -> io::Result<()> {
        let user = peer::credentials(&stream)?.uid;
        if !self.allowed.contains(&user) {
            let text = format_args!("user {user} may not use this agent: permit it with --allow-uid {user}");
            self.log.tell(Event::Stranger(user), text);
            return Ok(());
        }
        let stream = Arc::new(stream);
        let place = match self.connections.enter(user, &stream) {
            Ok(place) => place,
            Err(Refused::Full) => {
                self.log.tell(Event::Full(user), format_args!("user {user} has too many connections in use"));
                return Ok(());
            }
            // The client sees the end of the connection, as of those that were open.
            Err(Refused::Ending) => return Ok(()),
        };
        let server = Arc::clone(self);
        thread::Builder::new().name("client".to_owned()).spawn(move || server.serve(&stream, &place)).map(drop)
    }

    fn serve(&self, stream: &UnixStream, place: &Place) {
        let mut bindings = Bindings::default();
        while place.goes_on(State::Waits) {
            // A client that breaks the rules of messages, or is too slow, loses its connection.
            let Ok(Some(request)) = frame::read(stream) else { return };
            if !place.goes_on(State::Works) {
                return;
            }
            let reply = answer(&self.services, &self.log, &mut bindings, &request);
            if !place.goes_on(State::Writes) || frame::write(stream, &reply).is_err() {
                return;
            }
        }
    }
}
