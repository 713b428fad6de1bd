//! How a stored key is named outside: `sidecore:NAME`, and the PEM file with it that servers take for a private key.
//!
//! The file has the label [`PEM_LABEL`]; inside is `SEQUENCE { UTF8String VERSION, UTF8String uri }` in DER. It is no
//! secret: it names a key and gives nothing of it. Reading is total: any bytes are a URI or an error in words.

use super::check_name;
use der::asn1::Utf8StringRef;
use der::pem::{LineEnding, PemLabel};
use der::{Decode, DecodePem, Encode, EncodePem, Sequence};
use std::fmt;
use std::str::FromStr;

/// What a URI begins with.
pub const SCHEME: &str = "sidecore:";
/// What stands behind `BEGIN` and `END` of the file.
pub const PEM_LABEL: &str = "SIDECORE KEY URI";
/// What the file says that it is.
pub const VERSION: &str = "sidecore key uri v1";

/// The name of a stored key as a URI.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Uri {
    name: String,
}

/// What is no URI of a key, or no file with one: says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriError(String);

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UriError {}

/// The file's body.
#[derive(Sequence)]
struct Body<'a> {
    version: Utf8StringRef<'a>,
    uri: Utf8StringRef<'a>,
}

/// The same, owned, as the PEM reader wants it.
#[derive(Sequence)]
struct OwnedBody {
    version: String,
    uri: String,
}

impl PemLabel for Body<'_> {
    const PEM_LABEL: &'static str = PEM_LABEL;
}

impl PemLabel for OwnedBody {
    const PEM_LABEL: &'static str = PEM_LABEL;
}

impl Uri {
    /// The URI of the key of this name.
    ///
    /// # Errors
    /// No key can have this name.
    pub fn new(name: &str) -> Result<Self, UriError> {
        check_name(name).map_err(|error| UriError(error.to_string()))?;
        Ok(Self { name: name.to_owned() })
    }

    /// Reads `sidecore:NAME`.
    ///
    /// # Errors
    /// Another scheme, or a name that no key can have.
    pub fn parse(text: &str) -> Result<Self, UriError> {
        let name = text.strip_prefix(SCHEME).ok_or_else(|| {
            let text: String = text.chars().take(80).collect();
            UriError(format!("{text:?} is no URI of a key: write {SCHEME}NAME"))
        })?;
        Self::new(name)
    }

    /// The key's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file's body: DER.
    pub fn to_der(&self) -> Vec<u8> {
        self.with_body(|body| body.to_der())
    }

    /// Reads the file's body, which fills `der`.
    ///
    /// # Errors
    /// Another structure, version or scheme, bytes behind it, or a name that no key can have.
    pub fn from_der(der: &[u8]) -> Result<Self, UriError> {
        let body = Body::from_der(der).map_err(unreadable)?;
        Self::from_body(body.version.as_str(), body.uri.as_str())
    }

    /// The file.
    pub fn to_pem(&self) -> String {
        self.with_body(|body| body.to_pem(LineEnding::LF))
    }

    /// Reads the file.
    ///
    /// # Errors
    /// No PEM, another label, or as for [`Uri::from_der`].
    pub fn from_pem(pem: &str) -> Result<Self, UriError> {
        let body = OwnedBody::from_pem(pem).map_err(unreadable)?;
        Self::from_body(&body.version, &body.uri)
    }

    fn from_body(version: &str, uri: &str) -> Result<Self, UriError> {
        if version != VERSION {
            let version: String = version.chars().take(80).collect();
            return Err(UriError(format!("a file of the kind {version:?}: this version reads {VERSION:?}")));
        }
        Self::parse(uri)
    }

    fn with_body<T>(&self, encode: impl FnOnce(&Body<'_>) -> der::Result<T>) -> T {
        let uri = self.to_string();
        let string = |text| Utf8StringRef::new(text);
        let encoded = string(VERSION).and_then(|version| encode(&Body { version, uri: string(&uri)? }));
        encoded.expect("two short strings have an encoding")
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.name)
    }
}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        Self::parse(text)
    }
}

fn unreadable(error: der::Error) -> UriError {
    UriError(format!("no file of `sidecore keys pem`: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::MAX_NAME;
    use proptest::prelude::*;

    #[test]
    fn the_file_is_what_it_is_documented_to_be() {
        let uri = Uri::new("www.example.org").unwrap();
        assert_eq!(uri.to_string(), "sidecore:www.example.org");
        let mut der = vec![0x30, 47, 0x0c, 19];
        der.extend(b"sidecore key uri v1");
        der.extend([0x0c, 24]);
        der.extend(b"sidecore:www.example.org");
        assert_eq!(uri.to_der(), der);
        let pem = uri.to_pem();
        assert!(pem.starts_with("-----BEGIN SIDECORE KEY URI-----\n"), "{pem}");
        assert!(pem.ends_with("\n-----END SIDECORE KEY URI-----\n"), "{pem}");
    }

    #[test]
    fn what_is_no_uri_is_refused_in_words() {
        for bad in
            ["", "sidecore", "sidecore:", "sidecore:a/b", "sidecore://a", "pkcs11:a", "sidecore:a\0", "SIDECORE:a"]
        {
            assert!(!Uri::parse(bad).unwrap_err().to_string().is_empty(), "{bad}");
        }
        let other = Body { version: Utf8StringRef::new("v2").unwrap(), uri: Utf8StringRef::new("sidecore:a").unwrap() };
        assert!(Uri::from_der(&other.to_der().unwrap()).unwrap_err().to_string().contains("v2"));
        let mut tail = Uri::new("a").unwrap().to_der();
        tail.push(0);
        assert!(Uri::from_der(&tail).is_err());
        let label = Uri::new("a").unwrap().to_pem().replace("SIDECORE KEY URI", "PRIVATE KEY");
        assert!(Uri::from_pem(&label).is_err());
    }

    #[test]
    fn the_longest_name_has_its_file() {
        let uri = Uri::new(&"x".repeat(MAX_NAME)).unwrap();
        assert_eq!(Uri::from_der(&uri.to_der()), Ok(uri.clone()));
        assert_eq!(Uri::from_pem(&uri.to_pem()), Ok(uri));
    }

    proptest! {
        #[test]
        fn each_name_survives_uri_der_and_pem(name in "[A-Za-z0-9][-_.A-Za-z0-9]{0,63}") {
            let uri = Uri::new(&name).unwrap();
            prop_assert_eq!(uri.name(), &name);
            prop_assert_eq!(&Uri::parse(&uri.to_string()).unwrap(), &uri);
            prop_assert_eq!(&Uri::from_der(&uri.to_der()).unwrap(), &uri);
            prop_assert_eq!(&Uri::from_pem(&uri.to_pem()).unwrap(), &uri);
        }

        #[test]
        fn any_bytes_are_a_uri_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in ".{0,100}") {
            let _ = Uri::from_der(&bytes);
            let _ = Uri::from_pem(&text);
            let _ = Uri::parse(&text);
        }

        #[test]
        fn one_changed_byte_is_another_uri_or_an_error(at in 0..60_usize, value: u8) {
            let uri = Uri::new("www.example.org").unwrap();
            let mut der = uri.to_der();
            let place = at % der.len();
            der[place] = value;
            if let Ok(read) = Uri::from_der(&der) {
                prop_assert_eq!(read.to_der(), der);
            }
        }
    }
}
