//! Signs standard input with a key that the service holds, and writes the signature to standard output.
//!
//! ```sh
//! sidecore keys import shop shop.pem
//! cargo run --example sign -- shop p-256 <order.txt >order.sig
//! openssl dgst -sha256 -verify shop.public.pem -signature order.sig order.txt
//! ```

use sidecore_client::client::{Client, Options};
use sidecore_client::spec::{Hash, KeyMaterial, Scheme, SessionSpec, SignaturePadding};
use sidecore_core::session::Op;
use std::error::Error;
use std::io::{self, Read, Write};

/// Bytes of the longest signature: RSA of 8,192 bits.
const ROOM: u32 = 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [key, kind] = &arguments[..] else { return Err("usage: sign KEY rsa|p-256".into()) };
    let scheme = match kind.as_str() {
        "rsa" => Scheme::RsaSignature { padding: SignaturePadding::Pkcs1, hash: Hash::Sha256 },
        "p-256" => Scheme::Ecdsa { hash: Hash::Sha256 },
        other => return Err(format!("no kind {other:?}: write rsa or p-256").into()),
    };
    let mut message = Vec::new();
    io::stdin().read_to_end(&mut message)?;
    let mut client = Client::connect(&Options::default())?;
    let session = client.open_session(&SessionSpec { scheme, key: KeyMaterial::Stored(key.clone()) })?;
    let signature = client.call(session, Op::Sign, 0, &message, ROOM)?;
    io::stdout().write_all(&signature)?;
    Ok(())
}
