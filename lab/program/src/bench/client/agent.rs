//! Signatures by ssh-agent's protocol (draft-ietf-sshm-ssh-agent), one after the other.

use super::signing::{INPUT, check, one_by_one};
use crate::bench::error::BenchError;
use sidecore_libcrypto::{Context, Digest};
use sidecore_measure::experiment::Measured;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const IDENTITIES: u8 = 11;
const THESE: u8 = 12;
const SIGN: u8 = 13;
const SIGNED: u8 = 14;
/// RSA with SHA-256.
const SHA_2_256: u32 = 2;
/// Largest message of an agent, bytes.
const MAX_MESSAGE: u32 = 256 << 10;
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks the last signature with OpenSSL.
pub(super) fn sign(socket: &Path, op: &str, pkcs8: &[u8], ns: u64) -> Result<Measured, BenchError> {
    let mut agent = UnixStream::connect(socket)?;
    agent.set_read_timeout(Some(PATIENCE))?;
    let is_rsa = op.starts_with("rsa-");
    let kind: &[u8] = if is_rsa { b"ssh-rsa" } else { b"ecdsa-sha2-nistp256" };
    let key = identity(&mut agent, kind)?;
    let flags = if is_rsa { SHA_2_256 } else { 0 };
    let mut request = vec![SIGN];
    put(&mut request, &key);
    put(&mut request, &INPUT);
    request.extend(flags.to_be_bytes());
    let mut reply = Vec::new();
    let measured = one_by_one((0, ns), || {
        reply = ask(&mut agent, &request, SIGNED)?;
        Ok(())
    })?;
    let mut rest = reply.as_slice();
    let mut signature = take(&mut rest)?;
    take(&mut signature)?;
    let bytes = take(&mut signature)?;
    let bytes = if is_rsa { bytes.to_vec() } else { in_der(bytes)? };
    let mut hash = [0; _];
    let length = Digest::new(&Context::system()?, "SHA256")?.digest(&INPUT, &mut hash)?;
    check(op, pkcs8, &hash[..length], &bytes)?;
    Ok(measured)
}

fn identity(agent: &mut UnixStream, kind: &[u8]) -> Result<Vec<u8>, BenchError> {
    let reply = ask(agent, &[IDENTITIES], THESE)?;
    let mut rest = reply.get(4..).ok_or(SHORT)?;
    while !rest.is_empty() {
        let blob = take(&mut rest)?;
        take(&mut rest)?;
        if take(&mut &*blob)? == kind {
            return Ok(blob.to_vec());
        }
    }
    Err(BenchError::State("the agent does not have the key"))
}

const SHORT: BenchError = BenchError::State("an agent's answer is too short");

fn ask(agent: &mut UnixStream, request: &[u8], wanted: u8) -> Result<Vec<u8>, BenchError> {
    let mut message = Vec::with_capacity(request.len() + 4);
    put(&mut message, request);
    agent.write_all(&message)?;
    let mut length = [0; 4];
    agent.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length == 0 || length > MAX_MESSAGE {
        return Err(BenchError::State("an agent's answer has no length that may be"));
    }
    let mut answer = vec![0; length as usize];
    agent.read_exact(&mut answer)?;
    if answer.remove(0) != wanted {
        return Err(BenchError::State("the agent refuses"));
    }
    Ok(answer)
}

fn put(message: &mut Vec<u8>, bytes: &[u8]) {
    message.extend((bytes.len() as u32).to_be_bytes());
    message.extend(bytes);
}

fn take<'m>(message: &mut &'m [u8]) -> Result<&'m [u8], BenchError> {
    let (length, rest) = message.split_first_chunk().ok_or(SHORT)?;
    let (taken, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or(SHORT)?;
    *message = rest;
    Ok(taken)
}

/// SSH's numbers have the bytes of DER's. Limit: curves of at most 256 bits.
fn in_der(mut numbers: &[u8]) -> Result<Vec<u8>, BenchError> {
    let mut body = Vec::new();
    for _ in 0..2 {
        let number = take(&mut numbers)?;
        body.extend([0x02, number.len() as u8]);
        body.extend(number);
    }
    Ok([&[0x30, body.len() as u8][..], &body].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_ends_too_early_is_an_error() {
        for bytes in [&[0, 0, 0][..], &[0, 0, 0, 2, 1], &[255; 4]] {
            assert!(take(&mut &*bytes).is_err());
        }
        let mut two = &[0, 0, 0, 1, 7, 0, 0, 0, 0][..];
        assert_eq!((take(&mut two).unwrap(), take(&mut two).unwrap()), (&[7][..], &[][..]));
        assert_eq!(in_der(&[0, 0, 0, 1, 5, 0, 0, 0, 2, 0, 0x80]).unwrap(), [0x30, 7, 0x02, 1, 5, 0x02, 2, 0, 0x80]);
    }
}
