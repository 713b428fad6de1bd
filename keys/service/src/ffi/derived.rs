//! Private keys from numbers that are given: for requests to measure with, whose keys anyone may know.

use std::ptr::{NonNull, null_mut};

use aws_lc_sys as sys;
use sidecore_batch::rsa::EXPONENT;
use sidecore_core::session::Algorithm;

use super::owned;
use super::pkey::PKey;

impl PKey {
    /// The RSA key of these two primes, big-endian. `None` where the library refuses it; it does not check that they are
    /// primes.
    pub(crate) fn of_primes(primes: [&[u8]; 2]) -> Option<Self> {
        let context = Context::new()?;
        let [first, second] = primes.map(Number::new);
        let (first, second, public) = (first?, second?, Number::new(&EXPONENT.to_be_bytes())?);
        let (first_less, second_less) = (first.minus_one()?, second.minus_one()?);
        let modulus = first.times(&second, &context)?;
        let private = public.inverse(&first_less.times(&second_less, &context)?, &context)?;
        let of_first = public.inverse(&first_less, &context)?;
        let of_second = public.inverse(&second_less, &context)?;
        let coefficient = second.inverse(&first, &context)?;
        // SAFETY: the numbers live until this function ends, and are copied. The RSA key is owned or null; the other key
        // takes a reference of its own, and this one is given back once.
        unsafe {
            let rsa = sys::RSA_new_private_key(
                modulus.as_ptr(),
                public.as_ptr(),
                private.as_ptr(),
                first.as_ptr(),
                second.as_ptr(),
                of_first.as_ptr(),
                of_second.as_ptr(),
                coefficient.as_ptr(),
            );
            let key = Self::from_owned(sys::EVP_PKEY_new());
            let key = key.filter(|key| !rsa.is_null() && sys::EVP_PKEY_set1_RSA(key.as_ptr(), rsa) == 1);
            sys::RSA_free(rsa);
            key
        }
    }

    /// The key on a curve that follows from these bytes. `None` for other algorithms.
    pub(crate) fn of_curve(curve: Algorithm, bytes: &[u8]) -> Option<Self> {
        let curve = match curve {
            Algorithm::P256 => sys::NID_X9_62_prime256v1,
            Algorithm::P384 => sys::NID_secp384r1,
            Algorithm::P521 => sys::NID_secp521r1,
            _ => return None,
        };
        // SAFETY: groups of named curves live forever; the bytes are readable for their length. The EC key is owned or
        // null; the other key takes a reference of its own, and this one is given back once.
        unsafe {
            let group = sys::EC_GROUP_new_by_curve_name(curve);
            let ec = sys::EC_KEY_derive_from_secret(group, bytes.as_ptr(), bytes.len());
            let key = Self::from_owned(sys::EVP_PKEY_new());
            let key = key.filter(|key| !ec.is_null() && sys::EVP_PKEY_set1_EC_KEY(key.as_ptr(), ec) == 1);
            sys::EC_KEY_free(ec);
            key
        }
    }
}

/// Memory of the library for its arithmetic.
struct Context(NonNull<sys::BN_CTX>);

impl Context {
    fn new() -> Option<Self> {
        // SAFETY: the result is owned or null.
        owned(unsafe { sys::BN_CTX_new() }).map(Self)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it is owned and given back once.
        unsafe { sys::BN_CTX_free(self.0.as_ptr()) };
    }
}

struct Number(NonNull<sys::BIGNUM>);

impl Number {
    fn new(bytes: &[u8]) -> Option<Self> {
        // SAFETY: the bytes are readable for their length; the result is owned or null.
        owned(unsafe { sys::BN_bin2bn(bytes.as_ptr(), bytes.len(), null_mut()) }).map(Self)
    }

    fn as_ptr(&self) -> *mut sys::BIGNUM {
        self.0.as_ptr()
    }

    fn minus_one(&self) -> Option<Self> {
        let result = Self::new(&[])?;
        // SAFETY: all three numbers live; the library's one is constant.
        let code = unsafe { sys::BN_sub(result.as_ptr(), self.as_ptr(), sys::BN_value_one()) };
        (code == 1).then_some(result)
    }

    fn times(&self, other: &Self, context: &Context) -> Option<Self> {
        let result = Self::new(&[])?;
        // SAFETY: numbers and context live, and the result is none of the factors.
        let code = unsafe { sys::BN_mul(result.as_ptr(), self.as_ptr(), other.as_ptr(), context.0.as_ptr()) };
        (code == 1).then_some(result)
    }

    /// `None` where both have a common factor.
    fn inverse(&self, modulus: &Self, context: &Context) -> Option<Self> {
        // SAFETY: numbers and context live; the result is owned or null.
        owned(unsafe { sys::BN_mod_inverse(null_mut(), self.as_ptr(), modulus.as_ptr(), context.0.as_ptr()) }).map(Self)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        // SAFETY: it is owned and given back once.
        unsafe { sys::BN_free(self.0.as_ptr()) };
    }
}
