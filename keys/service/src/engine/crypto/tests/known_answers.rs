//! Spot checks against published answers.

use super::super::{Cipher, DecryptionPadding, Hash};
use super::*;

#[test]
fn sha2_of_abc() {
    // FIPS 180-4 examples.
    let cases = [
        (Hash::Sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            Hash::Sha384,
            "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed\
             8086072ba1e7cc2358baeca134c825a7",
        ),
        (
            Hash::Sha512,
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
    ];
    for (hash, digest) in cases {
        let session = open(Scheme::Digest(hash), KeyMaterial::None);
        assert_eq!(run(&session, Op::Digest, 0, b"abc"), Ok(hex(digest)));
    }
}

#[test]
fn hmac_of_rfc_4231_case_2() {
    let session = open(Scheme::Hmac(Hash::Sha256), symmetric(b"Jefe"));
    let tag = hex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    assert_eq!(run(&session, Op::Sign, 0, b"what do ya want for nothing?"), Ok(tag));
}

#[test]
fn aes_modes_of_sp_800_38a() {
    let plaintext = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
    let key = hex("2b7e151628aed2a6abf7158809cf4f3c");
    let cases = [
        (
            Cipher::Aes128Cbc,
            "000102030405060708090a0b0c0d0e0f",
            "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2",
        ),
        (
            Cipher::Aes128Ctr,
            "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
            "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff",
        ),
    ];
    for (cipher, iv, ciphertext) in cases {
        let session = open(Scheme::Cipher(cipher), symmetric(&key));
        assert_eq!(run(&session, Op::Encrypt, 0, &[hex(iv), plaintext.clone()].concat()), Ok(hex(ciphertext)));
    }
}

#[test]
fn triple_des_with_equal_keys_is_des() {
    // The classic single-DES example of the FIPS 46 era: key 133457799BBCDFF1.
    let key = hex("133457799bbcdff1").repeat(3);
    let session = open(Scheme::Cipher(Cipher::TripleDesCbc), symmetric(&key));
    let input = [vec![0; 8], hex("0123456789abcdef")].concat();
    assert_eq!(run(&session, Op::Encrypt, 0, &input), Ok(hex("85e813540f0ab405")));
}

#[test]
fn gcm_of_the_original_paper() {
    // McGrew and Viega, test case 14: all zeros.
    let session = open(Scheme::Cipher(Cipher::Aes256Gcm), symmetric(&[0; 32]));
    let sealed = hex("cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919");
    assert_eq!(run(&session, Op::Encrypt, 0, &[0; 28]), Ok(sealed));
}

/// OpenSSL's `test/recipes/30-test_evp_data/evppkey_rsa_common.txt`, key RSA-2048-2.
mod implicit_rejection {
    use super::*;

    fn decrypt(ciphertext: &str) -> Vec<u8> {
        let key = private(include_bytes!("../keys/test-openssl-rsa-2048-2.pkcs8.der"));
        let session = open(Scheme::RsaDecryption { padding: DecryptionPadding::Pkcs1 }, key);
        run(&session, Op::Decrypt, 0, &hex(ciphertext)).expect("never refused for its padding")
    }

    const GOOD: &str = "8bfe264e85d3bdeaa6b8851b8e3b956ee3d226fd3f69063a86880173a273d9f283b2eebdd1ed35f7e02d91c571981b67 \
             37d5320bd8396b0f3ad5b019daec1b0aab3cbbc026395f4fd14f13673f2dfc81f9b660ec26ac381e6db3299b4e460b43 \
             fab9955df2b3cfaa20e900e19c856238fd371899c2bf2ce8c868b76754e5db3b036533fd603746be13c10d4e3e6022eb \
             c905d20c2a7f32b215a4cd53b3f44ca1c327d2c2b651145821c08396c89071f665349c25e44d2733cd9305985ceef643 \
             0c3cf57af5fa224089221218fa34737c79c446d28a94c41c96e4e92ac53fbcf384dea8419ea089f8784445a492c812eb \
             0d409467f75afd7d4d1078886205a066";

    #[test]
    fn good_padding_gives_the_message() {
        assert_eq!(decrypt(GOOD), hex("6c6f72656d20697073756d20646f6c6f722073697420616d6574"));
    }

    const BAD: &str = "20aaa8adbbc593a924ba1c5c7990b5c2242ae4b99d0fe636a19a4cf754edbcee774e472fe028160ed42634f8864900cb \
             514006da642cae6ae8c7d087caebcfa6dad1551301e130344989a1d462d4164505f6393933450c67bc6d39d8f5160907 \
             cabc251b737925a1cf21e5c6aa5781b7769f6a2a583d97cce008c0f8b6add5f0b2bd80bee60237aa39bb20719fe75749 \
             f4bc4e42466ef5a861ae3a92395c7d858d430bfe38040f445ea93fa2958b503539800ffa5ce5f8cf51fa8171a91f36cb \
             4f4575e8de6b4d3f096ee140b938fd2f50ee13f0d050222e2a72b0a3069ff3a6738e82c87090caa5aed4fcbe882c4964 \
             6aa250b98f12f83c8d528113614a29e7";

    #[test]
    fn bad_padding_may_give_nothing() {
        assert_eq!(decrypt(BAD), hex(""));
    }

    #[test]
    fn bad_padding_is_refused_where_the_administrator_has_it_so() {
        let key = private(include_bytes!("../keys/test-openssl-rsa-2048-2.pkcs8.der"));
        let session = open(Scheme::RsaDecryption { padding: DecryptionPadding::Pkcs1 }, key).with_explicit_errors();
        assert_eq!(run(&session, Op::Decrypt, 0, &hex(BAD)), Err(Refusal::Authentication));
        assert!(run(&session, Op::Decrypt, 0, &hex(GOOD)).is_ok());
    }

    #[test]
    fn bad_padding_may_give_the_longest_message() {
        let ciphertext = "48cceab10f39a4db32f60074feea473cbcdb7accf92e150417f76b44756b190e843e79ec12aa85083a21f5437e7bad0a \
             60482e601198f9d86923239c8786ee728285afd0937f7dde12717f28389843d7375912b07b991f4fdb0190fced8ba665 \
             314367e8c5f9d2981d0f5128feeb46cb50fc237e64438a86df198dd0209364ae3a842d77532b66b7ef263b83b1541ed6 \
             71b120dfd660462e2107a4ee7b964e734a7bd68d90dda61770658a3c242948532da32648687e0318286473f675b412d6 \
             468f013f14d760a358dfcad3cda2afeec5e268a37d250c37f722f468a70dfd92d7294c3c1ee1e7f8843b7d16f9f37ef3 \
             5748c3ae93aa155cdcdfeb4e78567303";
        assert_eq!(
            decrypt(ciphertext),
            hex("22d850137b9eebe092b24f602dc5bb7918c16bd89ddbf20467b119d205f9c2e4bd7d2592cf1e532106e0f33557565923 \
             c73a02d4f09c0c22bea89148183e60317f7028b3aa1f261f91c979393101d7e15f4067e63979b32751658ef769610fe9 \
             7cf9cef3278b3117d384051c3b1d82c251c2305418c8f6840530e631aad63e70e20e025bcd8efb54c92ec6d3b106a2f8 \
             e64eeff7d38495b0fc50c97138af4b1c0a67a1c4e27b077b8439332edfa8608dfeae653cd6a628ac550395f7e74390e4 \
             2c11682234870925eeaa1fa71b76cf1f2ee3bda69f6717033ff8b7c95c9799e7a3bea5e7e4a1c359772fb6b1c6e6c516 \
             661dfe30c3")
        );
    }

    #[test]
    fn the_length_may_be_the_second_to_last_candidate() {
        let ciphertext = "1439e08c3f84c1a7fec74ce07614b20e01f6fa4e8c2a6cffdc3520d8889e5d9a950c6425798f85d4be38d300ea5695f1 \
             3ecd4cb389d1ff5b82484b494d6280ab7fa78e645933981cb934cce8bfcd114cc0e6811eefa47aae20af638a1cd163d2 \
             d3366186d0a07df0c81f6c9f3171cf3561472e98a6006bf75ddb457bed036dcce199369de7d94ef2c68e8467ee0604ee \
             a2b3009479162a7891ba5c40cab17f49e1c438cb6eaea4f76ce23cce0e483ff0e96fa790ea15be67671814342d0a23f4 \
             a20262b6182e72f3a67cd289711503c85516a9ed225422f98b116f1ab080a80abd6f0216df88d8cfd67c139243be8dd7 \
             8502a7aaf6bc99d7da71bcdf627e7354";
        assert_eq!(decrypt(ciphertext), hex("0f9b"));
    }

    #[test]
    fn a_wrong_first_byte_is_rejected() {
        let ciphertext = "9b2ec9c0c917c98f1ad3d0119aec6be51ae3106e9af1914d48600ab6a2c0c0c8ae02a2dc3039906ff3aac904af32ec79 \
             8fd65f3ad1afa2e69400e7c1de81f5728f3b3291f38263bc7a90a0563e43ce7a0d4ee9c0d8a716621ca5d3d081188769 \
             ce1b131af7d35b13dea99153579c86db31fe07d5a2c14d621b77854e48a8df41b5798563af489a291e417b6a334c6322 \
             2627376118c02c53b6e86310f728734ffc86ef9d7c8bf56c0c841b24b82b59f51aee4526ba1c4268506d301e4ebc498c \
             6aebb6fd5258c876bf900bac8ca4d309dd522f6a6343599a8bc3760f422c10c72d0ad527ce4af1874124ace3d99bb74d \
             b8d69d2528db22c3a37644640f95c05f";
        assert_eq!(decrypt(ciphertext), hex("a1f8c9255c35cfba403ccc"));
    }

    #[test]
    fn a_wrong_second_byte_is_rejected() {
        let ciphertext = "782c2b59a21a511243820acedd567c136f6d3090c115232a82a5efb0b178285f55b5ec2d2bac96bf00d6592ea7cdc334 \
             1610c8fb07e527e5e2d20cfaf2c7f23e375431f45e998929a02f25fd95354c33838090bca838502259e92d86d568bc2c \
             db132fab2a399593ca60a015dc2bb1afcd64fef8a3834e17e5358d822980dc446e845b3ab4702b1ee41fe5db716d9234 \
             8d5091c15d35a110555a35deb4650a5a1d2c98025d42d4544f8b32aa6a5e02dc02deaed9a7313b73b49b0d4772a3768b \
             0ea0db5846ace6569cae677bf67fb0acf3c255dc01ec8400c963b6e49b1067728b4e563d7e1e1515664347b92ee64db7 \
             efb5452357a02fff7fcb7437abc2e579";
        assert_eq!(decrypt(ciphertext), hex("e6d700309ca0ed62452254"));
    }

    #[test]
    fn leading_zeros_of_the_ciphertext_count() {
        let ciphertext = "0000587cccc6b264bdfe0dc2149a988047fa921801f3502ea64624c510c6033d2f427e3f136c26e88ea9f6519e86a542 \
             cec96aad1e5e9013c3cc203b6de15a69183050813af5c9ad79703136d4b92f50ce171eefc6aa7988ecf02f319ffc5eaf \
             d6ee7a137f8fce64b255bb1b8dd19cfe767d64fdb468b9b2e9e7a0c24dae03239c8c714d3f40b7ee9c4e59ac15b17e4d \
             328f1100756bce17133e8e7493b54e5006c3cbcdacd134130c5132a1edebdbd01a0c41452d16ed7a0788003c34730d08 \
             08e7e14c797a21f2b45a8aa1644357fd5e988f99b017d9df37563a354c788dc0e2f9466045622fa3f3e17db63414d277 \
             61f57392623a2bef6467501c63e8d645";
        assert_eq!(decrypt(ciphertext), hex("d5cf555b1d6151029a429a"));
    }
}
