//! The plain example: signatures of many lines under `poll`.

use crate::site::{KEYS, Site};
use std::io::Write;
use std::process::Stdio;

#[test]
fn lines_are_signed_in_their_order_by_each_kind_of_key() {
    let names = KEYS.map(|(name, _)| name);
    let site = Site::with(&names);
    let program = site.build("examples/queue.c", &[]);
    let lines: Vec<String> = (0..50).map(|line| format!("line {line}")).collect();
    for name in names {
        let mut command = site.command(&program, &[name]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{name}: {}", output.status);
        let signatures: Vec<Vec<u8>> = String::from_utf8(output.stdout).unwrap().lines().map(bytes).collect();
        assert_eq!(signatures.len(), lines.len(), "{name}");
        let options: &[&str] = match name {
            "rsa2048" => &["-digest", "sha512", "-pkeyopt", "rsa_padding_mode:pss", "-pkeyopt", "rsa_pss_saltlen:64"],
            "p256" => &["-digest", "sha256"],
            "p384" => &["-digest", "sha384"],
            "ed25519" => &[],
            // OpenSSL 3.0 has no ML-DSA; its signatures have one length.
            _ => {
                assert!(signatures.iter().all(|signature| signature.len() == 3309));
                continue;
            }
        };
        for (line, signature) in lines.iter().zip(&signatures).step_by(17) {
            assert!(site.verifies(name, options, line.as_bytes(), signature), "{name}: {line}");
            assert!(!site.verifies(name, options, b"another line", signature), "{name}: {line}");
        }
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes().chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}
