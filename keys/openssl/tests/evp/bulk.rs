//! Ciphers and digests: which provider a program gets them from.

use crate::site::{PREFERRED, REQUIRED, Site};

#[test]
fn ciphers_and_digests_are_openssls_own() {
    let algorithms = ["AES-256-GCM", "AES-128-CBC", "ChaCha20-Poly1305", "SHA256"];
    // Also for a program that preferred this provider's, in versions that had some.
    let preferring = ["", PREFERRED, "?sidecore.bulk=yes"];
    for providers in [["default", "sidecore"], ["sidecore", "default"]] {
        for default_properties in preferring {
            let site = Site::with(&providers, default_properties);
            for name in algorithms {
                let from = |properties| match name {
                    "SHA256" => site.context.provider_of_digest(name, properties),
                    _ => site.context.provider_of_cipher(name, properties),
                };
                for properties in preferring {
                    assert_eq!(from(properties).as_deref(), Some("default"), "{name} {default_properties:?}");
                }
                assert_eq!(from(REQUIRED), None, "{name}");
            }
        }
    }
}
