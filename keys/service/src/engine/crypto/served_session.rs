//! Sessions of other services: requests and answers are sealed between that service and this one.
//!
//! Such a session stands for one operation with one key, and is of that operation's class, so that dispatch, shares and
//! counters take its requests for what they are. The process that opened it carries bytes that it cannot read.

use super::mechanism::{Mechanism, Written, check_input};
use super::{ENTRIES, Session};
use crate::channel::{Grant, OVERHEAD};
use sidecore_client::channel::MAX_ANSWER;
use sidecore_client::gateway::MAX_INPUT;
use sidecore_core::session::{Op, Refusal};
use sidecore_core::work::KeyLocation;
use sidecore_ipc::sys::clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use zeroize::Zeroizing;

struct Sealed {
    session: Arc<Session>,
    grant: Arc<Grant>,
}

impl Session {
    /// A session for another service on the key of this one.
    pub(crate) fn served(session: Arc<Self>, grant: Grant) -> Self {
        let op = grant.operation.op();
        let mut classes = [None; Op::COUNT];
        classes[op as usize] = session.class(op);
        let grant = Arc::new(grant);
        Self {
            owner: None,
            wrong: AtomicU32::new(0),
            algorithm: session.algorithm,
            classes,
            key: AtomicU32::new(session.key.load(Ordering::Relaxed)),
            usage: session.usage,
            // That of the key is asked once the request is open, so that the answer tells of it under the seal.
            limiter: None,
            key_location: [KeyLocation::LOCAL; Op::COUNT],
            remote: None,
            grant: Some(grant.clone()),
            heap_bytes: ENTRIES + session.heap_bytes,
            mechanism: Box::new(Sealed { session, grant }),
        }
    }

    /// The other service's right to it, if it is one of another service.
    pub(crate) fn grant(&self) -> Option<&Grant> {
        self.grant.as_deref()
    }
}

impl Sealed {
    fn done(&self, op: Op, (user, input): (u32, &[u8])) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        let is_permitted = self.session.limiter(op).is_none_or(|limiter| limiter.admits(clock::now()));
        if !is_permitted || !self.grant.admits(user, clock::now) {
            return Err(Refusal::KeyLimit);
        }
        let mut result = Zeroizing::new(vec![0; self.session.output_len(op, 0, input.len())?]);
        let len = self.session.run_sized(op, 0, input, &mut result)?;
        result.truncate(len);
        Ok(result)
    }
}

impl Mechanism for Sealed {
    fn output_len(&self, _op: Op, head_len: usize, input_len: usize) -> Written {
        check_input(head_len == 0 && input_len <= MAX_INPUT + OVERHEAD)?;
        Ok(MAX_ANSWER)
    }

    fn run(&self, op: Op, _head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        let taken = self.grant.take(input)?;
        let done = self.done(op, taken.work().ok_or(Refusal::Authentication)?);
        let answer = self.grant.seal(&taken, done.as_ref().map(|result| &result[..]).map_err(|refusal| *refusal));
        let answer = answer.ok_or(Refusal::Internal)?;
        output.get_mut(..answer.len()).ok_or(Refusal::OutputLength)?.copy_from_slice(&answer);
        Ok(answer.len())
    }
}
