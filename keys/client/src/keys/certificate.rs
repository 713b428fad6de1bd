//! What is read in an X.509 certificate: its names and dates. Signatures are not verified.
//!
//! A renewal that installs a certificate of yesterday takes a server down as surely as a wrong key does, so every way
//! by which certificates come in asks [`Certificate::check_dates`] first. The caller brings the time.

use der::asn1::{AnyRef, GeneralizedTime, UtcTime};
use der::{DateTime, Decode, Encode, Header, SliceReader, Tag, TagNumber, Tagged};
use std::fmt;
use std::time::Duration;

/// Seconds since 1970, shown as a date in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match DateTime::from_unix_duration(Duration::from_secs(self.0)) {
            Ok(date) => date.fmt(f),
            // Only years up to 9999 have a date.
            Err(_) => write!(f, "{} s after 1970", self.0),
        }
    }
}

/// Names and dates of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The issuer's name, DER.
    pub issuer: Vec<u8>,
    /// The owner's name, DER.
    pub subject: Vec<u8>,
    /// First moment at which it is valid.
    pub begins: Moment,
    /// Last moment at which it is valid.
    pub ends: Moment,
}

/// A certificate that is not taken because of its dates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DateError {
    /// It has expired.
    #[error(
        "the certificate was valid until {ends}, and it is {now} now: give one that is valid now, or take this one with --allow-expired"
    )]
    Expired {
        /// Its last moment.
        ends: Moment,
        /// The time of the check.
        now: Moment,
    },
    /// It is not valid yet.
    #[error(
        "the certificate is valid from {begins}, and it is {now} now: see whether this machine's clock is right, and give one that \
         is valid now, or take this one with --allow-expired"
    )]
    NotYet {
        /// Its first moment.
        begins: Moment,
        /// The time of the check.
        now: Moment,
    },
    /// A later one of the same issuer is in its place.
    #[error(
        "the certificate is valid from {begins}, and the present one from {present}: give a later one than the present, or take this \
         one with --allow-expired"
    )]
    Older {
        /// Its first moment.
        begins: Moment,
        /// First moment of the present certificate.
        present: Moment,
    },
}

impl Certificate {
    /// `None`: the bytes are no X.509 certificate in DER.
    ///
    /// RFC 5280: the signed part begins with version, serial number, algorithm, issuer, validity, subject and public key.
    pub fn read(certificate: &[u8]) -> Option<Self> {
        let whole = AnyRef::from_der(certificate).ok().filter(|whole| whole.tag() == Tag::Sequence)?;
        let mut outer = SliceReader::new(whole.value()).ok()?;
        let signed = AnyRef::decode(&mut outer).ok().filter(|signed| signed.tag() == Tag::Sequence)?;
        let mut signed = SliceReader::new(signed.value()).ok()?;
        let version = Tag::ContextSpecific { constructed: true, number: TagNumber(0) };
        if Header::peek(&signed).ok()?.tag() == version {
            AnyRef::decode(&mut signed).ok()?;
        }
        let mut next = |tag| AnyRef::decode(&mut signed).ok().filter(|part| part.tag() == tag);
        next(Tag::Integer)?;
        next(Tag::Sequence)?;
        let issuer = next(Tag::Sequence)?.to_der().ok()?;
        let validity = next(Tag::Sequence)?;
        let mut dates = SliceReader::new(validity.value()).ok()?;
        let begins = moment(AnyRef::decode(&mut dates).ok()?)?;
        let ends = moment(AnyRef::decode(&mut dates).ok()?)?;
        let subject = next(Tag::Sequence)?.to_der().ok()?;
        next(Tag::Sequence)?;
        Some(Self { issuer, subject, begins, ends })
    }

    /// Checks that it is valid now, and that it does not begin before the certificate in whose place it is put, if that is
    /// of the same issuer: others date their certificates back by other times.
    ///
    /// # Errors
    /// It has expired, is not valid yet, or is older than the present one.
    pub fn check_dates(&self, present: Option<&Self>, now: Moment) -> Result<(), DateError> {
        let Self { begins, ends, .. } = *self;
        if now > ends {
            return Err(DateError::Expired { ends, now });
        }
        if now < begins {
            return Err(DateError::NotYet { begins, now });
        }
        let present = present.filter(|present| present.issuer == self.issuer).map(|present| present.begins);
        match present.filter(|present| begins < *present) {
            Some(present) => Err(DateError::Older { begins, present }),
            None => Ok(()),
        }
    }
}

fn moment(time: AnyRef<'_>) -> Option<Moment> {
    let since = match time.tag() {
        Tag::UtcTime => time.decode_as::<UtcTime>().ok()?.to_unix_duration(),
        Tag::GeneralizedTime => time.decode_as::<GeneralizedTime>().ok()?.to_unix_duration(),
        _ => return None,
    };
    Some(Moment(since.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(begins: u64, ends: u64) -> Certificate {
        Certificate { issuer: Vec::new(), subject: Vec::new(), begins: Moment(begins), ends: Moment(ends) }
    }

    #[test]
    fn a_certificate_is_taken_from_its_first_moment_to_its_last_and_not_before_the_present_one() {
        let check = |present: Option<u64>, now| {
            let present = present.map(|begins| certificate(begins, 1));
            certificate(1000, 2000).check_dates(present.as_ref(), Moment(now))
        };
        for now in [1000, 1500, 2000] {
            for present in [None, Some(0), Some(1000)] {
                assert_eq!(check(present, now), Ok(()), "{present:?} {now}");
            }
            assert_eq!(check(Some(1001), now), Err(DateError::Older { begins: Moment(1000), present: Moment(1001) }));
        }
        // A certificate that the key signed itself gives way to one of an authority, which dates it back by an hour.
        let own = Certificate { issuer: b"own".to_vec(), ..certificate(1500, 9999) };
        assert_eq!(certificate(1000, 2000).check_dates(Some(&own), Moment(1600)), Ok(()));
        assert_eq!(check(None, 2001), Err(DateError::Expired { ends: Moment(2000), now: Moment(2001) }));
        assert_eq!(check(None, 999), Err(DateError::NotYet { begins: Moment(1000), now: Moment(999) }));
    }

    #[test]
    fn a_refusal_has_the_dates_and_the_option() {
        let ended = certificate(0, 1_609_459_200).check_dates(None, Moment(1_800_000_000)).unwrap_err().to_string();
        for part in ["until 2021-01-01T00:00:00Z", "it is 2027-01-15T08:00:00Z", "--allow-expired"] {
            assert!(ended.contains(part), "{ended}");
        }
        assert_eq!(Moment(u64::MAX).to_string(), "18446744073709551615 s after 1970");
    }
}
