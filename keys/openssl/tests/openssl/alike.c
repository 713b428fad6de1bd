/* What a program sees of a key in rare uses: FILE PUBLIC OTHER..., a private key, its public part, and public keys of other
   types. The output is the same for a key in a file and for one in the service. */
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/encoder.h>
#include <openssl/err.h>
#include <string.h>
#include "keyfile.h"

static const unsigned char words[] = "onetwothree";

static EVP_PKEY *load_public(const char *file) {
    FILE *from = fopen(file, "r");
    EVP_PKEY *key = from ? PEM_read_PUBKEY(from, NULL, NULL, NULL) : NULL;
    if (from)
        fclose(from);
    return key;
}

/* The part of `words` that was signed. */
static void say_signed(EVP_PKEY *public, const unsigned char *signature, size_t len) {
    const char *digest = EVP_PKEY_is_a(public, "ED25519") ? NULL : "SHA256";
    for (int from = 0; from < 11; from++)
        for (int to = from + 1; to <= 11; to++) {
            EVP_MD_CTX *context = EVP_MD_CTX_new();
            if (EVP_DigestVerifyInit_ex(context, NULL, digest, NULL, NULL, public, NULL) > 0 &&
                EVP_DigestVerify(context, signature, len, words + from, to - from) == 1)
                printf(" signed %.*s\n", to - from, (const char *)words + from);
            EVP_MD_CTX_free(context);
        }
}

static void one_shots(EVP_PKEY *key, EVP_PKEY *public) {
    const char *digest = EVP_PKEY_is_a(key, "ED25519") ? NULL : "SHA256";
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    unsigned char signature[1024];
    if (EVP_DigestSignInit_ex(context, NULL, digest, NULL, NULL, key, NULL) > 0)
        for (int round = 0; round < 3; round++) {
            size_t len = 0;
            printf("length %d", EVP_DigestSign(context, NULL, &len, words + 3 * round, 3));
            len = sizeof signature;
            int done = EVP_DigestSign(context, signature, &len, words + 3 * round, 3);
            printf(" one-shot %d", done);
            if (done == 1)
                say_signed(public, signature, len);
            else
                puts("");
        }
    EVP_MD_CTX_free(context);
    /* What was signed at once is verified at once, twice. */
    size_t len = sizeof signature;
    context = EVP_MD_CTX_new();
    if (EVP_DigestSignInit_ex(context, NULL, digest, NULL, NULL, key, NULL) > 0 &&
        EVP_DigestSign(context, signature, &len, words, 3) == 1) {
        EVP_MD_CTX_free(context);
        context = EVP_MD_CTX_new();
        if (EVP_DigestVerifyInit_ex(context, NULL, digest, NULL, NULL, key, NULL) > 0)
            for (int round = 0; round < 2; round++)
                printf("verified %d\n", EVP_DigestVerify(context, signature, len, words, 3));
    }
    EVP_MD_CTX_free(context);
}

static void agreement(EVP_PKEY *key, EVP_PKEY *public, int count, char **others) {
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
    if (EVP_PKEY_derive_init(context) > 0) {
        printf("own type %d\n", EVP_PKEY_derive_set_peer(context, public));
        for (int other = 0; other < count; other++) {
            EVP_PKEY *peer = load_public(others[other]);
            printf("other type %d %d\n", peer != NULL, EVP_PKEY_derive_set_peer(context, peer) > 0);
            EVP_PKEY_free(peer);
        }
        if (EVP_PKEY_is_a(key, "EC")) {
            int modes[] = {1, 0, -1, 1, 2};
            printf("cofactor %d\n", EVP_PKEY_CTX_get_ecdh_cofactor_mode(context));
            for (int at = 0; at < 5; at++) {
                int set = EVP_PKEY_CTX_set_ecdh_cofactor_mode(context, modes[at]) > 0;
                printf("set %d %d, is %d\n", modes[at], set, EVP_PKEY_CTX_get_ecdh_cofactor_mode(context));
            }
        }
    }
    EVP_PKEY_CTX_free(context);
}

static void parameters(EVP_PKEY *key) {
    BIO *out = BIO_new_fp(stdout, BIO_NOCLOSE);
    /* Only EC keys have parameters. For the others OpenSSL's own code prints numbers, and the service's refuses. */
    int has = EVP_PKEY_is_a(key, "EC");
    BIO *nowhere = BIO_new(BIO_s_null());
    int printed = EVP_PKEY_print_params(has ? out : nowhere, key, 0, NULL);
    printf("print %d\n", has ? printed : 1);
    BIO_free(nowhere);
    printf("public %d\n", EVP_PKEY_print_public(out, key, 0, NULL));
    int selections[] = {EVP_PKEY_KEY_PARAMETERS, EVP_PKEY_PUBLIC_KEY, OSSL_KEYMGMT_SELECT_OTHER_PARAMETERS};
    const char *forms[][2] = {{"TEXT", NULL}, {"DER", "type-specific"}, {"PEM", "SubjectPublicKeyInfo"}, {"MSBLOB", NULL}};
    for (int at = 0; at < 3; at++)
        for (int form = 0; form < 4; form++) {
            OSSL_ENCODER_CTX *encoder = OSSL_ENCODER_CTX_new_for_pkey(key, selections[at], forms[form][0], forms[form][1], NULL);
            unsigned char *data = NULL;
            size_t len = 0;
            /* Whether it succeeds may differ; the program goes on. */
            OSSL_ENCODER_to_data(encoder, &data, &len);
            OPENSSL_free(data);
            OSSL_ENCODER_CTX_free(encoder);
        }
    BIO_free(out);
}

int main(int count, char **arguments) {
    EVP_PKEY *key = count > 2 ? load(arguments[1]) : NULL, *public = count > 2 ? load_public(arguments[2]) : NULL;
    if (!key || !public) {
        ERR_print_errors_fp(stderr);
        return 1;
    }
    if (!EVP_PKEY_is_a(key, "X25519"))
        one_shots(key, public);
    if (!EVP_PKEY_is_a(key, "RSA") && !EVP_PKEY_is_a(key, "ED25519"))
        agreement(key, public, count - 3, arguments + 3);
    parameters(key);
    EVP_PKEY_free(key);
    EVP_PKEY_free(public);
    return 0;
}
