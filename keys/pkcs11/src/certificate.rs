//! Fields of certificates.

use der::asn1::AnyRef;
use der::{Decode, Encode, Reader, SliceReader, Tag, TagNumber, Tagged};
use sidecore_client::keyops::key::Public;
use sidecore_client::keys::UsableKey;

/// Fields of a certificate, each in DER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(crate) der: Vec<u8>,
    pub(crate) serial: Vec<u8>,
    pub(crate) issuer: Vec<u8>,
    pub(crate) subject: Vec<u8>,
    /// The key: a `SubjectPublicKeyInfo`.
    pub(crate) spki: Vec<u8>,
}

impl Certificate {
    /// `None`: the bytes are no certificate.
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        let outer = sequence(der)?;
        let body = SliceReader::new(outer).ok()?.tlv_bytes().ok()?;
        let mut fields = SliceReader::new(sequence(body)?).ok()?;
        let version = Tag::ContextSpecific { constructed: true, number: TagNumber(0) };
        if Tag::peek(&fields).ok()? == version {
            fields.tlv_bytes().ok()?;
        }
        let mut field = || fields.tlv_bytes().ok().map(<[u8]>::to_vec);
        let (serial, _algorithm, issuer) = (field()?, field()?, field()?);
        let (_validity, subject, spki) = (field()?, field()?, field()?);
        let tags =
            [(&serial, Tag::Integer), (&issuer, Tag::Sequence), (&subject, Tag::Sequence), (&spki, Tag::Sequence)];
        let fits = |(field, tag): &(&Vec<u8>, Tag)| AnyRef::from_der(field).is_ok_and(|field| field.tag() == *tag);
        tags.iter().all(fits).then(|| Self { der: der.to_vec(), serial, issuer, subject, spki })
    }
}

impl Certificate {
    /// Whether it is for this key.
    pub(crate) fn is_of(&self, key: &UsableKey) -> bool {
        let public = |spki: &[u8]| Public::from_spki(spki).ok();
        public(&self.spki).is_some_and(|own| Some(own) == public(&key.public))
    }

    /// The serial number without tag and length.
    pub(crate) fn serial_bytes(&self) -> &[u8] {
        AnyRef::from_der(&self.serial).map_or(&[], |serial| serial.value())
    }

    /// Whether it is of the issuer that the other one names.
    pub(crate) fn issued(&self, other: &Self) -> bool {
        self.subject == other.issuer && other.issuer != other.subject
    }
}

fn sequence(der: &[u8]) -> Option<&[u8]> {
    Some(AnyRef::from_der(der).ok().filter(|any| any.tag() == Tag::Sequence)?.value())
}

/// An octet string in DER.
pub(crate) fn octets(bytes: &[u8]) -> Vec<u8> {
    AnyRef::new(Tag::OctetString, bytes).and_then(|any| any.to_der()).unwrap_or_default()
}
