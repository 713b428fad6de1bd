//! Key generation for OpenSSL, e.g. for `openssl speed` and for programs that select providers by property. The
//! service makes and holds each key as long as the program holds its object. Such keys are not in the service's store;
//! `sidecore keys generate` makes those.

use sidecore_client::client::Options;
use sidecore_client::keyops::ask::make;
use sidecore_client::keyops::failure::Failure;
use sidecore_client::keyops::key::{Curve, Family, Key, Raw};
use sidecore_client::keys::Kind;

#[derive(Clone, Copy, Debug)]
pub(crate) struct GenerateRequest {
    pub(crate) family: Family,
    pub(crate) bits: usize,
    pub(crate) curve: Option<Curve>,
}

impl GenerateRequest {
    pub(crate) fn new(family: Family) -> Self {
        Self { family, bits: 2048, curve: None }
    }

    pub(crate) fn generate(self, options: &Options) -> Result<Key, Failure> {
        make(options, self.kind()?)
    }

    fn kind(self) -> Result<Kind, Failure> {
        match self.family {
            Family::Rsa => match self.bits {
                2048 => Ok(Kind::Rsa2048),
                3072 => Ok(Kind::Rsa3072),
                4096 => Ok(Kind::Rsa4096),
                bits => Err(Failure::unsupported(format!("making an RSA key of {bits} bits: use 2048, 3072 or 4096"))),
            },
            Family::Ec => match self.curve {
                Some(Curve::P256) => Ok(Kind::P256),
                Some(Curve::P384) => Ok(Kind::P384),
                Some(Curve::P521) => Ok(Kind::P521),
                None => Err(Failure::input("no curve: set prime256v1, secp384r1 or secp521r1")),
            },
            Family::Raw(raw @ (Raw::Ed25519 | Raw::MlDsa65)) => Ok(raw.kind()),
            Family::Raw(_) => {
                Err(Failure::unsupported("making keys of this type here: use OpenSSL's own code, or sidecore keys"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore::config::Config;
    use sidecore::service::Service;
    use sidecore_client::keyops::key::{Private, Public};

    #[test]
    fn keys_are_of_the_kind_that_was_wished_for_and_stay_in_the_service() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let _service = Service::start(Config { socket: socket.clone(), ..Config::default() }).unwrap();
        let options = Options { socket, ..Options::default() };
        let ec = |curve| GenerateRequest { curve: Some(curve), ..GenerateRequest::new(Family::Ec) };
        let plain = [Family::Rsa, Family::Raw(Raw::Ed25519), Family::Raw(Raw::MlDsa65)].map(GenerateRequest::new);
        for request in plain.into_iter().chain([ec(Curve::P256), ec(Curve::P384), ec(Curve::P521)]) {
            let key = request.generate(&options).unwrap();
            assert_eq!(key.public.family(), request.family);
            assert!(matches!(key.private, Private::Made(_)));
            let spki = key.public.to_spki().unwrap();
            assert_eq!(Public::from_spki(&spki).unwrap(), key.public);
        }
        assert!(GenerateRequest { bits: 1024, ..GenerateRequest::new(Family::Rsa) }.generate(&options).is_err());
        assert!(GenerateRequest::new(Family::Ec).generate(&options).is_err());
    }
}
