//! Keys as text, in the format of `openssl pkey -text`.

use sidecore_client::keyops::key::{Curve, Key, Private, Public, Raw};
use std::fmt::Write;

const WIDTH: usize = 15;

/// The location of the private part, and the public part in OpenSSL's format.
pub(crate) fn text(key: &Key) -> String {
    let place = match &key.private {
        Private::Stored(name) => format!("private key in sidecore as {name}"),
        Private::Imported(_) => "private key of this program, used in sidecore".to_owned(),
        Private::Made(_) => "private key in sidecore, made for this program".to_owned(),
        Private::Served(_) => "private key in sidecore, sealed for another service".to_owned(),
        Private::None => "no private key".to_owned(),
    };
    format!("{place}\n{}", public(&key.public))
}

fn public(public: &Public) -> String {
    let head = format!("Public-Key: ({} bit)\n", public.bits());
    match public {
        Public::Rsa { n, e } => format!("{head}{}{}", number("Modulus", n), number("Exponent", e)),
        Public::Ec { curve, point } => {
            let name = curve.name().to_string_lossy();
            format!("{head}{}ASN1 OID: {name}\nNIST CURVE: {}\n", bytes("pub", point), nist(*curve))
        }
        Public::Raw(raw, key) => {
            let label = if *raw == Raw::MlKem768 { "ek" } else { "pub" };
            format!("{} Public-Key:\n{}", public.family().name().to_string_lossy(), bytes(label, key))
        }
    }
}

fn nist(curve: Curve) -> &'static str {
    match curve {
        Curve::P256 => "P-256",
        Curve::P384 => "P-384",
        Curve::P521 => "P-521",
    }
}

/// Most significant byte first, with a leading zero if its top bit is set.
fn number(label: &str, big: &[u8]) -> String {
    if big.len() <= 8 {
        let value = big.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        return format!("{label}: {value} ({value:#x})\n");
    }
    let sign: &[u8] = if big[0] & 0x80 == 0 { &[] } else { &[0] };
    bytes(label, &[sign, big].concat())
}

fn bytes(label: &str, bytes: &[u8]) -> String {
    let mut text = format!("{label}:");
    for (place, byte) in bytes.iter().enumerate() {
        if place % WIDTH == 0 {
            text += "\n    ";
        }
        let end = if place + 1 == bytes.len() { "" } else { ":" };
        let _ = write!(text, "{byte:02x}{end}");
    }
    text + "\n"
}
