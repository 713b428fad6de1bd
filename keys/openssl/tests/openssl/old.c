/* A program that signs through OpenSSL's objects of the old kind: PART FILE [MODULE]. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/ec.h>
#include <openssl/ecdh.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/provider.h>
#include <openssl/rsa.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "keyfile.h"

#define CHECK(what) check((what) ? 1 : 0, #what, __LINE__)

static void check(int is_so, const char *what, int line) {
    if (is_so)
        return;
    fprintf(stderr, "old.c:%d: not so: %s\n", line, what);
    ERR_print_errors_fp(stderr);
    exit(1);
}

/* The first error in the queue, which is then empty. */
static const char *error(void) {
    static char said[1024];
    const char *details = "";
    unsigned long code = ERR_peek_error_all(NULL, NULL, NULL, &details, NULL);
    const char *reason = code ? ERR_reason_error_string(code) : NULL, *library = code ? ERR_lib_error_string(code) : NULL;
    snprintf(said, sizeof said, "%s: %s: %s", library ? library : "?", reason ? reason : "no reason", details);
    ERR_clear_error();
    return said;
}

static int is_ours(const char *said) {
    return strstr(said, "sidecore") != NULL;
}

static RSA *rsa_of(EVP_PKEY *key) {
    RSA *rsa = EVP_PKEY_get1_RSA(key);
    CHECK(rsa);
    return rsa;
}

static EC_KEY *ec_of(EVP_PKEY *key) {
    EC_KEY *ec = EVP_PKEY_get1_EC_KEY(key);
    CHECK(ec);
    return ec;
}

static int evp_signs(EVP_PKEY *key, int padding) {
    unsigned char signature[1024];
    size_t len = sizeof signature;
    EVP_PKEY_CTX *how = NULL;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int done = EVP_DigestSignInit(context, &how, EVP_sha256(), NULL, key) > 0 &&
               (!padding || EVP_PKEY_CTX_set_rsa_padding(how, padding) > 0) &&
               EVP_DigestSign(context, signature, &len, text, sizeof text) > 0;
    EVP_MD_CTX_free(context);
    return done;
}

static int rsa_signs(RSA *rsa) {
    unsigned char signature[1024];
    unsigned len = 0;
    return RSA_sign(NID_sha256, text, sizeof text, signature, &len, rsa) == 1 &&
           RSA_verify(NID_sha256, text, sizeof text, signature, len, rsa) == 1;
}

static int ec_signs(EC_KEY *ec) {
    unsigned char signature[256];
    unsigned len = 0;
    return ECDSA_sign(0, text, sizeof text, signature, &len, ec) == 1 && (int)len <= ECDSA_size(ec) &&
           ECDSA_verify(0, text, sizeof text, signature, len, ec) == 1;
}

static int signs(EVP_PKEY *key) {
    int is_rsa = EVP_PKEY_is_a(key, "RSA");
    RSA *rsa = is_rsa ? EVP_PKEY_get1_RSA(key) : NULL;
    EC_KEY *ec = is_rsa ? NULL : EVP_PKEY_get1_EC_KEY(key);
    int done = is_rsa ? rsa && rsa_signs(rsa) : ec && ec_signs(ec);
    RSA_free(rsa);
    EC_KEY_free(ec);
    return done;
}

static void rsa_decrypts(RSA *rsa) {
    unsigned char sealed[1024], opened[1024];
    int paddings[] = {RSA_PKCS1_PADDING, RSA_PKCS1_OAEP_PADDING}, place, len;
    for (place = 0; place < 2; place++) {
        len = RSA_public_encrypt(sizeof text, text, sealed, rsa, paddings[place]);
        CHECK(len == RSA_size(rsa));
        CHECK(RSA_private_decrypt(len, sealed, opened, rsa, paddings[place]) == sizeof text);
        CHECK(memcmp(opened, text, sizeof text) == 0);
    }
    CHECK(RSA_private_decrypt(len, sealed, opened, rsa, RSA_NO_PADDING) == -1 && is_ours(error()));
}

/* Each way to copy the numbers ends in an error, none in a signature. */
static void no_copy_of_rsa_signs(const RSA *rsa) {
    unsigned char signature[1024], *der = NULL;
    const BIGNUM *n, *e, *d, *p, *q, *dp, *dq, *coefficient;
    const unsigned char *from;
    RSA *copy = RSA_new();
    EVP_PKEY *key;
    unsigned len = 0;
    int size;
    RSA_get0_key(rsa, &n, &e, &d);
    RSA_get0_factors(rsa, &p, &q);
    RSA_get0_crt_params(rsa, &dp, &dq, &coefficient);
    CHECK(d && p && q && dp && dq && coefficient);
    CHECK(BN_is_zero(d) && BN_is_zero(p) && BN_is_zero(q) && BN_is_zero(dp) && BN_is_zero(dq) && BN_is_zero(coefficient));
    CHECK(RSA_set0_key(copy, BN_dup(n), BN_dup(e), BN_dup(d)) && RSA_set0_factors(copy, BN_dup(p), BN_dup(q)));
    CHECK(RSA_set0_crt_params(copy, BN_dup(dp), BN_dup(dq), BN_dup(coefficient)));
    CHECK(RSA_sign(NID_sha256, text, sizeof text, signature, &len, copy) != 1);
    CHECK(RSA_check_key(copy) != 1);
    RSA_free(copy);
    if ((copy = RSAPrivateKey_dup(rsa)) != NULL)
        CHECK(RSA_sign(NID_sha256, text, sizeof text, signature, &len, copy) != 1);
    RSA_free(copy);
    if ((size = i2d_RSAPrivateKey(rsa, &der)) > 0) {
        from = der;
        if ((key = d2i_AutoPrivateKey(NULL, &from, size)) != NULL)
            CHECK(!evp_signs(key, 0) && !evp_signs(key, RSA_PKCS1_PSS_PADDING));
        EVP_PKEY_free(key);
        OPENSSL_free(der);
    }
    ERR_clear_error();
}

static void rsa_is_the_services(EVP_PKEY *key) {
    RSA *rsa = rsa_of(key);
    EVP_PKEY *other = EVP_PKEY_new();
    unsigned char bytes[1024] = {1}, out[1024];
    CHECK(rsa_signs(rsa));
    CHECK(RSA_blinding_on(rsa, NULL) && rsa_signs(rsa));
    CHECK(RSA_private_encrypt(sizeof text, text, out, rsa, RSA_PKCS1_PADDING) == RSA_size(rsa));
    CHECK(RSA_public_decrypt(RSA_size(rsa), out, bytes, rsa, RSA_PKCS1_PADDING) == sizeof text);
    CHECK(RSA_private_encrypt(RSA_size(rsa), bytes, out, rsa, RSA_NO_PADDING) == -1 && is_ours(error()));
    CHECK(RSA_private_encrypt(sizeof text, text, out, rsa, RSA_X931_PADDING) == -1 && is_ours(error()));
    rsa_decrypts(rsa);
    /* EVP on the object itself: OpenSSL pads PSS and wants the rest of us. */
    CHECK(EVP_PKEY_set1_RSA(other, rsa) && evp_signs(other, 0));
    CHECK(!evp_signs(other, RSA_PKCS1_PSS_PADDING) && is_ours(error()));
    EVP_PKEY_free(other);
    no_copy_of_rsa_signs(rsa);
    /* The object stays after its key. */
    EVP_PKEY_free(key);
    CHECK(rsa_signs(rsa));
    /* With another modulus it is no object of the key. */
    CHECK(RSA_set0_key(rsa, BN_dup(RSA_get0_e(rsa)), BN_dup(RSA_get0_e(rsa)), NULL));
    CHECK(RSA_private_encrypt(1, text, out, rsa, RSA_PKCS1_PADDING) == -1 && is_ours(error()));
    RSA_free(rsa);
}

static void ec_agrees(const EC_KEY *ec) {
    unsigned char one[66], other[66];
    EC_KEY *peer = EC_KEY_new();
    CHECK(EC_KEY_set_group(peer, EC_KEY_get0_group(ec)) && EC_KEY_generate_key(peer));
    int len = ECDH_compute_key(one, sizeof one, EC_KEY_get0_public_key(peer), ec, NULL);
    CHECK(len > 0 && ECDH_compute_key(other, sizeof other, EC_KEY_get0_public_key(ec), peer, NULL) == len);
    CHECK(memcmp(one, other, len) == 0);
    EC_KEY_free(peer);
}

/* The number is present, and no key: what checks it refuses it, and a file of the object is none of a key. */
static void no_copy_of_ec_passes(EC_KEY *ec) {
    unsigned char *der = NULL;
    const unsigned char *from;
    EC_KEY *copy = EC_KEY_new();
    int len;
    CHECK(EC_KEY_get0_private_key(ec) && BN_is_zero(EC_KEY_get0_private_key(ec)));
    CHECK(EC_KEY_set_group(copy, EC_KEY_get0_group(ec)) && EC_KEY_set_public_key(copy, EC_KEY_get0_public_key(ec)));
    CHECK(EC_KEY_check_key(copy) == 1);
    EC_KEY_set_private_key(copy, EC_KEY_get0_private_key(ec));
    CHECK(EC_KEY_check_key(copy) != 1);
    EC_KEY_free(copy);
    if ((len = i2d_ECPrivateKey(ec, &der)) > 0) {
        from = der;
        CHECK(d2i_AutoPrivateKey(NULL, &from, len) == NULL);
        from = der;
        CHECK(d2i_ECPrivateKey(NULL, &from, len) == NULL);
        OPENSSL_free(der);
    }
    ERR_clear_error();
}

static void ec_is_the_services(EVP_PKEY *key) {
    EC_KEY *ec = ec_of(key), *again;
    EVP_PKEY *other = EVP_PKEY_new();
    unsigned char signature[256];
    unsigned len = 0;
    ECDSA_SIG *sig;
    BIGNUM *kinv = NULL, *r = NULL;
    CHECK(ec_signs(ec));
    CHECK(ECDSA_sign(0, text, sizeof text, NULL, &len, ec) == 1 && (int)len >= ECDSA_size(ec));
    CHECK((sig = ECDSA_do_sign(text, sizeof text, ec)) != NULL);
    CHECK(ECDSA_do_verify(text, sizeof text, sig, ec) == 1);
    ECDSA_SIG_free(sig);
    CHECK(ECDSA_sign_setup(ec, NULL, &kinv, &r) != 1 && is_ours(error()));
    CHECK(ECDSA_sign_ex(0, text, sizeof text, signature, &len, BN_value_one(), BN_value_one(), ec) != 1 && is_ours(error()));
    ec_agrees(ec);
    CHECK(EVP_PKEY_set1_EC_KEY(other, ec) && evp_signs(other, 0));
    EVP_PKEY_free(other);
    no_copy_of_ec_passes(ec);
    /* A copy of the whole object is one of the key as well, and outlives the first. */
    CHECK((again = EC_KEY_dup(ec)) != NULL);
    EVP_PKEY_free(key);
    EC_KEY_free(ec);
    CHECK(ec_signs(again));
    CHECK((ec = EC_KEY_new_by_curve_name(NID_X9_62_prime256v1)) && EC_KEY_generate_key(ec));
    CHECK(EC_KEY_set_group(again, EC_KEY_get0_group(ec)) && EC_KEY_set_public_key(again, EC_KEY_get0_public_key(ec)));
    CHECK(ECDSA_sign(0, text, sizeof text, signature, &len, again) != 1 && is_ours(error()));
    CHECK(EC_KEY_copy(again, ec) && ec_signs(again));
    EC_KEY_free(again);
    EC_KEY_free(ec);
}

static void *signs_often(void *key) {
    int times = 0;
    while (times < 25 && signs(key))
        times++;
    return times == 25 ? key : NULL;
}

static void threads_and_children(EVP_PKEY *key) {
    pthread_t threads[8];
    int place, status;
    pid_t child;
    void *done;
    for (place = 0; place < 8; place++)
        CHECK(pthread_create(&threads[place], NULL, signs_often, key) == 0);
    for (place = 0; place < 8; place++) {
        if ((child = fork()) == 0) {
            alarm(60);
            _exit(signs(key) ? 0 : 1);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    for (place = 0; place < 8; place++)
        CHECK(pthread_join(threads[place], &done) == 0 && done == key);
    EVP_PKEY_free(key);
}

/* By a provider in a library context that ends before the object. */
static void unloaded(const char *file, const char *module) {
    OSSL_LIB_CTX *context = OSSL_LIB_CTX_new();
    unsigned char signature[1024];
    unsigned len = 0;
    RSA *rsa = NULL;
    EC_KEY *ec = NULL;
    FILE *from = fopen(file, "r");
    OSSL_PROVIDER *openssls = OSSL_PROVIDER_load(context, "default"), *provider = OSSL_PROVIDER_load(context, module);
    CHECK(from && openssls && provider);
    EVP_PKEY *key = PEM_read_PrivateKey_ex(from, NULL, NULL, NULL, context, NULL);
    fclose(from);
    CHECK(key && signs(key));
    if (EVP_PKEY_is_a(key, "RSA"))
        rsa = rsa_of(key);
    else
        ec = ec_of(key);
    EVP_PKEY_free(key);
    CHECK(OSSL_PROVIDER_unload(provider) && OSSL_PROVIDER_unload(openssls));
    OSSL_LIB_CTX_free(context);
    CHECK(rsa ? RSA_sign(NID_sha256, text, sizeof text, signature, &len, rsa) != 1
              : ECDSA_sign(0, text, sizeof text, signature, &len, ec) != 1);
    RSA_free(rsa);
    EC_KEY_free(ec);
}

int main(int count, char **arguments) {
    if (count < 3)
        return 2;
    const char *part = arguments[1], *file = arguments[2];
    if (strcmp(part, "unloaded") == 0) {
        CHECK(count == 4);
        unloaded(file, arguments[3]);
        return 0;
    }
    EVP_PKEY *key = load(file);
    CHECK(key);
    if (strcmp(part, "whole") == 0) {
        if (EVP_PKEY_is_a(key, "RSA"))
            rsa_is_the_services(key);
        else
            ec_is_the_services(key);
        /* Successes leave nothing in the queue. */
        CHECK(ERR_peek_error() == 0);
    } else if (strcmp(part, "threads") == 0) {
        threads_and_children(key);
    } else if (strcmp(part, "late") == 0) {
        RSA *rsa = EVP_PKEY_is_a(key, "RSA") ? rsa_of(key) : NULL;
        EC_KEY *ec = rsa ? NULL : ec_of(key);
        CHECK(signs(key));
        OPENSSL_cleanup();
        RSA_free(rsa);
        EC_KEY_free(ec);
        EVP_PKEY_free(key);
    } else if (strcmp(part, "fails") == 0) {
        CHECK(!signs(key));
        puts(error());
        EVP_PKEY_free(key);
    } else {
        return 2;
    }
    puts("done");
    return 0;
}
