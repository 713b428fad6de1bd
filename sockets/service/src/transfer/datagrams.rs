//! Transfers of datagrams: one call for a run of one length.

use super::{Life, Moved, PlaceRef, Stream};
use crate::meter::Meter;
use rustix::io::Errno;
use sidecore_core::words;
use sidecore_sockets::datagrams::Step;
use sidecore_streams::cursor::{Cursors, Fault};
use sidecore_streams::layout::{SHARED, TRANSFERS};

impl Stream {
    pub(super) fn move_datagrams(&mut self, at: PlaceRef<'_>, meter: &mut Meter, cursors: &Cursors) -> Moved {
        let Some(mover) = &mut self.datagrams else { return Moved::Most };
        match mover.step(&self.socket, at.memory, at.place, cursors) {
            Ok(Step::Moved(bytes)) => {
                words::add(at.word(SHARED, TRANSFERS), 1);
                meter.moved(bytes);
                self.moved = bytes;
                if bytes < cursors.waiting() { Moved::Most } else { Moved::All }
            }
            Ok(Step::Again) => Moved::Most,
            Ok(Step::Noted(error)) => {
                self.note(at, error);
                Moved::Most
            }
            Ok(Step::Blocked) => Moved::Blocked,
            Err(Fault) => Moved::Failed(Errno::PROTO),
        }
    }

    /// Notes the error for the program, whose next call finds the bell shut. Its sent datagrams are moved all the
    /// same, and then the stream ends. From there the program reports its kernel's errors itself.
    fn note(&mut self, at: PlaceRef<'_>, error: Errno) {
        at.note_error(error);
        at.memory.bell(at.place).shut();
        if self.life == Life::Open {
            self.life = Life::Ending;
        }
    }
}
