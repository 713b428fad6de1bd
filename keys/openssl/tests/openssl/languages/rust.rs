//! Keys of the crate `openssl`: signatures of `PKey`, `Rsa` and `EcKey`, and their numbers. DIRECTORY

use openssl::bn::BigNumRef;
use openssl::ecdsa::EcdsaSig;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private, Public};
use openssl::rsa::{Padding, Rsa};
use openssl::sign::{Signer, Verifier};
use std::error::Error;

fn signs(key: &PKey<Private>, public: &PKey<Public>) -> Result<bool, Box<dyn Error>> {
    let mut signer = Signer::new(MessageDigest::sha256(), key)?;
    let signature = signer.sign_oneshot_to_vec(b"data")?;
    Ok(Verifier::new(MessageDigest::sha256(), public)?.verify_oneshot(&signature, b"data")?)
}

fn length(number: Option<&BigNumRef>) -> i32 {
    number.map_or(-1, BigNumRef::num_bits)
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("no directory")?;
    let read = |name: &str| std::fs::read(format!("{directory}/{name}"));
    let (key, public) = (PKey::private_key_from_pem(&read("rsa2048.pem")?)?, PKey::public_key_from_pem(&read("rsa2048.pub")?)?);
    println!("rsa {}", signs(&key, &public)?);
    let rsa = key.rsa()?;
    let (mut sealed, mut opened) = (vec![0; 256], vec![0; 256]);
    public.rsa()?.public_encrypt(b"data", &mut sealed, Padding::PKCS1_OAEP)?;
    let len = rsa.private_decrypt(&sealed, &mut opened, Padding::PKCS1_OAEP)?;
    println!("decrypted {}", &opened[..len] == b"data");
    println!("numbers {} {} {}", length(Some(rsa.d())), length(rsa.p()), length(rsa.dmp1()));
    let own = |number: &BigNumRef| number.to_owned();
    let (p, q) = (rsa.p().ok_or("no p")?, rsa.q().ok_or("no q")?);
    let (dp, dq, coefficient) = (rsa.dmp1().ok_or("no dp")?, rsa.dmq1().ok_or("no dq")?, rsa.iqmp().ok_or("no iqmp")?);
    let copy = Rsa::from_private_components(
        own(rsa.n())?, own(rsa.e())?, own(rsa.d())?, own(p)?, own(q)?, own(dp)?, own(dq)?, own(coefficient)?,
    );
    let signed = copy.and_then(PKey::from_rsa).map_err(Into::into).and_then(|copy| signs(&copy, &public));
    println!("a copy signs {}", signed.is_ok());

    let (key, public) = (PKey::private_key_from_pem(&read("p256.pem")?)?, PKey::public_key_from_pem(&read("p256.pub")?)?);
    println!("ec {}", signs(&key, &public)?);
    let ec = key.ec_key()?;
    println!("ecdsa {}", EcdsaSig::sign(&[7; 32], &ec)?.verify(&[7; 32], &*public.ec_key()?)?);
    println!("number {}", length(Some(ec.private_key())));
    println!("checked {}", ec.check_key().is_ok());
    Ok(())
}
