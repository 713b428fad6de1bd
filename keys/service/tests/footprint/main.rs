//! The charge of sessions covers their memory. A process of its own, without other allocations.

mod sys;

use sidecore::core::session::Class;
use sidecore::engine::crypto::sample::sample;
use sidecore::engine::crypto::{Session, SessionSpec};
use sys::allocated;

const SESSIONS: usize = 64;

/// Memory of one open session after its first use, and its charge, bytes.
fn taken(class: Class) -> (u64, u64) {
    let sample = sample(class, 64, 1);
    let open = |spec: &SessionSpec| {
        let session = Box::new(Session::open(spec).unwrap());
        let mut output = vec![0; session.output_len(sample.op, sample.head_len as usize, sample.input.len()).unwrap()];
        session.run(sample.op, sample.head_len as usize, &sample.input, &mut output).unwrap();
        session
    };
    // The library's data of its first use is not a session's.
    drop(open(&sample.spec));
    let mut sessions = Vec::with_capacity(SESSIONS);
    let before = allocated();
    sessions.extend((0..SESSIONS).map(|_| open(&sample.spec)));
    let each = (allocated() - before) / SESSIONS as u64;
    (each, sessions[0].heap_bytes())
}

#[test]
fn sessions_are_charged_for_what_they_take() {
    let mut wrong = Vec::new();
    for class in Class::all() {
        let (taken, charged) = taken(class);
        println!("{:26} takes {taken:6}, is charged {charged:6}", class.name());
        // The charge is an upper bound, so that no limit is exceeded, and a close one, so that limits stay reachable.
        if charged < taken || charged > 8 * taken + 1024 {
            wrong.push((class.name(), taken, charged));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
