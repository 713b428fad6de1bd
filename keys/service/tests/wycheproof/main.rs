//! Wycheproof's vectors against the crypto engine, alone and behind a lane.

mod lane;
mod vectors;

use sidecore::engine::crypto::{Session, SessionSpec};
use sidecore_core::session::Op;
use vectors::Failure;

fn execute(spec: &SessionSpec, op: Op, head_len: usize, input: &[u8]) -> Result<Vec<u8>, Failure> {
    let session = Session::open(spec).map_err(|error| Failure::NotOpened(error.to_string()))?;
    let mut output = vec![0; session.output_len(op, head_len, input.len()).map_err(Failure::Refused)?];
    let len = session.run(op, head_len, input, &mut output).map_err(Failure::Refused)?;
    output.truncate(len);
    Ok(output)
}

#[test]
fn sessions_agree_with_wycheproof() {
    vectors::are_complete(&vectors::run_all(&mut execute));
}
