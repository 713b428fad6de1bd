//! Ciphers and digests: who gets whose.

use crate::ffi::fetched_from;
use crate::site::{PREFERRED, REQUIRED, Site};

#[test]
fn ciphers_and_digests_are_openssls_own() {
    let algorithms = [("AES-256-GCM", true), ("AES-128-CBC", true), ("ChaCha20-Poly1305", true), ("SHA256", false)];
    // Also for a program that preferred those of this provider when it had some.
    let preferring = [None, Some(PREFERRED), Some("?sidecore.bulk=yes")];
    for providers in [["default", "sidecore"], ["sidecore", "default"]] {
        for default_properties in preferring {
            let site = Site::with(&providers, default_properties);
            for (name, is_cipher) in algorithms {
                let from = |properties| fetched_from(&site.context, name, properties, is_cipher);
                for properties in preferring {
                    assert_eq!(from(properties).as_deref(), Some("default"), "{name} {default_properties:?}");
                }
                assert_eq!(from(Some(REQUIRED)), None, "{name}");
            }
        }
    }
}
