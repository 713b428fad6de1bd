//! Names of stored keys outside the service: `sidecore:NAME`, and the PEM file that servers load in place of a private
//! key.
//!
//! The file has the label [`PEM_LABEL`]. It holds `SEQUENCE { UTF8String version, UTF8String uri }` in DER, followed
//! by the key's `SubjectPublicKeyInfo` if the version is [`VERSION_WITH_PUBLIC`]; then programs can load the key
//! without a service. The file is no secret: it reveals nothing of the private part. Reading is total: any bytes are a
//! URI or an error in words.
//!
//! Some programs search a file for the label of private keys, and read nothing else. For them there is a second form:
//! PKCS#8 with the key's algorithm, and the body above in place of the private key.

use super::pem::{first_block, looks_like_uri};
use super::{NameError, check_name};
use der::asn1::{AnyRef, Utf8StringRef};
use der::pem::{self, LineEnding};
use der::{Decode, Encode, Sequence, Tag, Tagged};
use std::fmt;
use zeroize::Zeroizing;

/// Prefix of a URI.
pub const SCHEME: &str = "sidecore:";
/// Label in the `BEGIN` and `END` lines of the file.
pub const PEM_LABEL: &str = "SIDECORE KEY URI";
/// Label of private keys in PKCS#8, for the second form.
const PKCS8_LABEL: &str = "PRIVATE KEY";
/// Version text of a file without the public part.
pub const VERSION: &str = "sidecore key uri v1";
/// Version text of a file with the public part.
pub const VERSION_WITH_PUBLIC: &str = "sidecore key uri v2";
/// Longest public part of a file, bytes; that of ML-DSA-65 has 1974.
pub const MAX_PUBLIC: usize = 2500;

/// The name of a stored key as a URI, optionally with the key's public part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Uri {
    name: String,
    public: Option<Vec<u8>>,
}

#[derive(Sequence)]
struct Body<'a> {
    version: Utf8StringRef<'a>,
    uri: Utf8StringRef<'a>,
    public: Option<AnyRef<'a>>,
}

/// The second form.
#[derive(Sequence)]
struct Pkcs8<'a> {
    version: u8,
    algorithm: AnyRef<'a>,
    body: AnyRef<'a>,
}

/// A `SubjectPublicKeyInfo`.
#[derive(Sequence)]
struct PublicPart<'a> {
    algorithm: AnyRef<'a>,
    key: AnyRef<'a>,
}

impl Uri {
    /// The URI of the key of this name.
    ///
    /// # Errors
    /// No key can have this name.
    pub fn new(name: &str) -> Result<Self, NameError> {
        check_name(name)?;
        Ok(Self { name: name.to_owned(), public: None })
    }

    /// Reads `sidecore:NAME`.
    ///
    /// # Errors
    /// Another scheme, or a name that no key can have.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let name = text.strip_prefix(SCHEME).ok_or_else(|| {
            let text: String = text.chars().take(80).collect();
            NameError(format!("{text:?} is no URI of a key: write {SCHEME}NAME"))
        })?;
        Self::new(name)
    }

    /// The key's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds the key's public part, as the service sends it: a `SubjectPublicKeyInfo` in DER.
    ///
    /// # Errors
    /// It is no `SubjectPublicKeyInfo`, or exceeds [`MAX_PUBLIC`] bytes.
    pub fn with_public(self, public: Vec<u8>) -> Result<Self, NameError> {
        check_public(AnyRef::from_der(&public).map_err(unreadable)?)?;
        Ok(Self { public: Some(public), ..self })
    }

    /// The public part, if it is known: a `SubjectPublicKeyInfo`; only its outermost structure was checked.
    pub fn public(&self) -> Option<&[u8]> {
        self.public.as_deref()
    }

    /// The file's body: DER.
    pub fn to_der(&self) -> Vec<u8> {
        self.encoded().expect("two short strings and a checked structure have an encoding")
    }

    /// Reads the file's body, which fills `der`.
    ///
    /// # Errors
    /// Another structure, version or scheme, trailing bytes, or a name that no key can have.
    pub fn from_der(der: &[u8]) -> Result<Self, NameError> {
        let Body { version, uri, public } = Body::from_der(der).map_err(unreadable)?;
        let uri = Self::parse(uri.as_str())?;
        match (version.as_str(), public) {
            (VERSION, None) => Ok(uri),
            (VERSION_WITH_PUBLIC, Some(public)) => {
                check_public(public)?;
                Ok(Self { public: Some(public.to_der().map_err(unreadable)?), ..uri })
            }
            (VERSION, Some(_)) => Err(NameError(format!("{VERSION:?} has nothing behind the URI"))),
            (VERSION_WITH_PUBLIC, None) => {
                Err(NameError(format!("{VERSION_WITH_PUBLIC:?} has a public key behind the URI")))
            }
            (other, _) => {
                let other: String = other.chars().take(80).collect();
                let known = format!("{VERSION:?} and {VERSION_WITH_PUBLIC:?}");
                Err(NameError(format!("a file of the kind {other:?}: this version reads {known}")))
            }
        }
    }

    /// The file's text.
    pub fn to_pem(&self) -> String {
        pem::encode_string(PEM_LABEL, LineEnding::LF, &self.to_der()).expect("a short file")
    }

    /// The file's text in the second form.
    ///
    /// # Errors
    /// The public part, which has the algorithm, is missing or unreadable.
    pub fn to_pkcs8_pem(&self) -> Result<String, NameError> {
        let public = self.public().ok_or_else(|| NameError("the public part of the key is missing".to_owned()))?;
        let PublicPart { algorithm, .. } = PublicPart::from_der(public).map_err(unreadable)?;
        let body = self.to_der();
        let body = AnyRef::new(Tag::OctetString, &body).map_err(unreadable)?;
        let der = Pkcs8 { version: 0, algorithm, body }.to_der().map_err(unreadable)?;
        pem::encode_string(PKCS8_LABEL, LineEnding::LF, &der).map_err(|error| unreadable(error.into()))
    }

    /// The file's body in PKCS#8 of the second form. `None`: it is another private key.
    pub fn body_in_pkcs8(der: &[u8]) -> Option<&[u8]> {
        let Pkcs8 { version, body, .. } = Pkcs8::from_der(der).ok()?;
        (version == 0 && body.tag() == Tag::OctetString && looks_like_uri(body.value())).then(|| body.value())
    }

    /// Reads the file in either form. It may contain other blocks.
    ///
    /// # Errors
    /// No block with our label, or as for [`Uri::from_der`].
    pub fn from_pem(file: &[u8]) -> Result<Self, NameError> {
        let other = || first_block(file, |label| label == PKCS8_LABEL.as_bytes());
        if let Some(block) = other()
            && let Ok((_, der)) = pem::decode_vec(&block)
            && let Some(body) = Self::body_in_pkcs8(&Zeroizing::new(der))
        {
            return Self::from_der(body);
        }
        let block = first_block(file, |label| label == PEM_LABEL.as_bytes()).ok_or_else(|| {
            NameError(
                "no key of the service is named in it: write it with `sidecore keys pem NAME --output FILE`".into(),
            )
        })?;
        let (_, der) = pem::decode_vec(&block).map_err(|error| unreadable(error.into()))?;
        Self::from_der(&der)
    }

    fn encoded(&self) -> der::Result<Vec<u8>> {
        let (version, public) = match &self.public {
            Some(public) => (VERSION_WITH_PUBLIC, Some(AnyRef::from_der(public)?)),
            None => (VERSION, None),
        };
        let uri = self.to_string();
        Body { version: Utf8StringRef::new(version)?, uri: Utf8StringRef::new(&uri)?, public }.to_der()
    }
}

fn check_public(public: AnyRef<'_>) -> Result<(), NameError> {
    if public.tag() != Tag::Sequence {
        return Err(NameError("what stands behind the URI is no public key".to_owned()));
    }
    if public.value().len() > MAX_PUBLIC {
        return Err(NameError(format!("the public key has more than {MAX_PUBLIC} bytes")));
    }
    Ok(())
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.name)
    }
}

fn unreadable(error: der::Error) -> NameError {
    NameError(format!("no file of `sidecore keys pem`: {error}"))
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
        let [v1, v2, v3] = ["v1", "v2", "v3"].map(|number| format!("sidecore key uri {number}"));
        let public = AnyRef::new(Tag::Sequence, &[]).unwrap();
        let number = AnyRef::new(Tag::Integer, &[1]).unwrap();
        for (version, public, why) in [
            (&v1, Some(public), "nothing behind"),
            (&v2, None, "has a public key"),
            (&v2, Some(number), "no public key"),
            (&v3, None, "v3"),
            (&v3, Some(public), "v3"),
        ] {
            let (version, uri) = (Utf8StringRef::new(version).unwrap(), Utf8StringRef::new("sidecore:a").unwrap());
            let said = Uri::from_der(&Body { version, uri, public }.to_der().unwrap()).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
        for bad in [&[][..], &[0x30], &[0x30, 1], &[0x30, 0, 0], &[2, 1, 1], &vec![0x30; 5000]] {
            assert!(Uri::new("a").unwrap().with_public(bad.to_vec()).is_err(), "{bad:?}");
        }
        let mut tail = Uri::new("a").unwrap().to_der();
        tail.push(0);
        assert!(Uri::from_der(&tail).is_err());
        let label = Uri::new("a").unwrap().to_pem().replace("SIDECORE KEY URI", "PRIVATE KEY");
        assert!(Uri::from_pem(label.as_bytes()).is_err());
    }

    #[test]
    fn the_longest_name_has_its_file() {
        let uri = Uri::new(&"x".repeat(MAX_NAME)).unwrap();
        assert_eq!(Uri::from_der(&uri.to_der()), Ok(uri.clone()));
        assert_eq!(Uri::from_pem(uri.to_pem().as_bytes()), Ok(uri));
    }

    #[test]
    fn the_public_part_stands_behind_the_uri() {
        let public = vec![0x30, 3, 2, 1, 7];
        let uri = Uri::new("www").unwrap().with_public(public.clone()).unwrap();
        assert_eq!(uri.to_string(), "sidecore:www");
        let mut der = vec![0x30, 40, 0x0c, 19];
        der.extend(b"sidecore key uri v2");
        der.extend([0x0c, 12]);
        der.extend(b"sidecore:www");
        der.extend(&public);
        assert_eq!(uri.to_der(), der);
        for read in [Uri::from_der(&der).unwrap(), Uri::from_pem(uri.to_pem().as_bytes()).unwrap()] {
            assert_eq!(read.public(), Some(&*public));
            assert_eq!(read, uri);
        }
        assert_eq!(Uri::parse("sidecore:www").unwrap().public(), None);
    }

    #[test]
    fn the_second_form_is_pkcs8_with_the_algorithm_of_the_key() {
        // Ed25519: its public part, and what its private key would be.
        let public = [&[0x30, 42, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 33, 0][..], &[7; 32]].concat();
        let uri = Uri::new("www").unwrap().with_public(public).unwrap();
        let pem = uri.to_pkcs8_pem().unwrap();
        assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----\n"), "{pem}");
        assert_eq!(Uri::from_pem(pem.as_bytes()), Ok(uri.clone()));
        let (_, der) = pem::decode_vec(pem.as_bytes()).unwrap();
        assert!(der.starts_with(&[0x30, 93, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 81]), "{der:02x?}");
        assert_eq!(Uri::body_in_pkcs8(&der), Some(&*uri.to_der()));
        let key = [&[0x30, 46, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 34, 4, 32][..], &[7; 32]].concat();
        assert_eq!(Uri::body_in_pkcs8(&key), None);
        assert!(Uri::new("www").unwrap().to_pkcs8_pem().is_err());
    }

    proptest! {
        #[test]
        fn each_name_survives_uri_der_and_pem(name in "[A-Za-z0-9][-_.A-Za-z0-9]{0,63}") {
            let uri = Uri::new(&name).unwrap();
            prop_assert_eq!(uri.name(), &name);
            prop_assert_eq!(&Uri::parse(&uri.to_string()).unwrap(), &uri);
            prop_assert_eq!(&Uri::from_der(&uri.to_der()).unwrap(), &uri);
            prop_assert_eq!(&Uri::from_pem(uri.to_pem().as_bytes()).unwrap(), &uri);
        }

        #[test]
        fn any_bytes_are_a_uri_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in ".{0,100}") {
            let _ = Uri::from_der(&bytes);
            let _ = Uri::from_pem(text.as_bytes());
            let _ = Uri::parse(&text);
        }

        #[test]
        fn one_changed_byte_is_another_uri_or_an_error(at in 0..60_usize, value: u8, public: bool) {
            let name = Uri::new("www.example.org").unwrap();
            let uri = if public { name.with_public(vec![0x30, 3, 2, 1, 7]).unwrap() } else { name };
            let mut der = uri.to_der();
            let place = at % der.len();
            der[place] = value;
            if let Ok(read) = Uri::from_der(&der) {
                prop_assert_eq!(read.to_der(), der);
            }
        }
    }
}
