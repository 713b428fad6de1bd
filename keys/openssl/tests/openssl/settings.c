/* Sets every parameter of any version of OpenSSL, and all settable parameters of providers, to several values, in each
 * operation with the key at a URI. Prints a line for each: operation, parameter, value, and
 *   refused   the provider's own reason is in the error queue
 *   done      it was accepted, and OpenSSL's own code verifies or decrypts the result with the same setting
 *   SILENT    it was refused without a reason of the provider
 *   IGNORED   it was accepted, and OpenSSL's own code, which accepts it too, gives another result
 * Then signatures of whole messages, where OpenSSL has them. */
#include <dlfcn.h>
#include <openssl/encoder.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/store.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const NUMBERS[] = {"saltlen", "pad-mode", "digest-size", "nonce-type", "kat", "message-encoding",
    "deterministic", "mu", "bits", "primes", "pubexp", "use-cofactor-flag", "ecdh-cofactor-mode", "kdf-outlen",
    "implicit-rejection", "tls-client-version", "tls-negotiated-version", "key-check", "digest-check", NULL};
static const char *const TEXTS[] = {"digest", "properties", "pad-mode", "saltlen", "mgf1-digest", "mgf1-properties",
    "instance", "group", "encoding", "point-format", "kdf-type", "kdf-digest", "kdf-digest-props", "digest-props", NULL};
static const char *const BYTES[] = {"context-string", "test-entropy", "seed", "dhkem-ikm", "ikme", "kdf-ukm", "oaep-label", NULL};
static const int VALUES[] = {0, 1, 2, 7, 20, 65537, -1};
static const char *const WORDS[] = {"", "SHA256", "SHA1", "SHAKE256", "nonsense", "pss", "none", "x931", "oaep", "fips=yes",
    "Ed25519ph", "compressed", "explicit", "X963KDF", "max"};
static const unsigned char DIGEST[32] = {1, 2, 3};

static EVP_PKEY *ours, *theirs, *other;
static const char *operation;

static EVP_PKEY *load(const char *uri) {
    OSSL_STORE_CTX *store = OSSL_STORE_open(uri, NULL, NULL, NULL, NULL);
    EVP_PKEY *key = NULL;
    while (key == NULL && store != NULL && !OSSL_STORE_eof(store)) {
        OSSL_STORE_INFO *info = OSSL_STORE_load(store);
        if (info != NULL) {
            int type = OSSL_STORE_INFO_get_type(info);
            key = type == OSSL_STORE_INFO_PUBKEY ? OSSL_STORE_INFO_get1_PUBKEY(info) : OSSL_STORE_INFO_get1_PKEY(info);
            OSSL_STORE_INFO_free(info);
        }
    }
    OSSL_STORE_close(store);
    return key;
}

/* Whether a reason of the provider is in the error queue; empties it. */
static int named(void) {
    int found = 0;
    unsigned long code;
    while ((code = ERR_get_error()) != 0) {
        const char *library = ERR_lib_error_string(code);
        found |= library != NULL && strcmp(library, "sidecore") == 0;
    }
    return found;
}

static void say(const OSSL_PARAM *param, const char *value, const char *what) {
    printf("%s %s=%s %s\n", operation, param->key, value, what);
}

/* An operation on a key; `theirs`: by OpenSSL's own code. */
typedef EVP_PKEY_CTX *begin_function(int theirs, void **message);
/* Whether OpenSSL's own code accepts the provider's result. */
typedef int check_function(EVP_PKEY_CTX *ctx, void *message, EVP_PKEY_CTX *their_ctx, void *their_message);

static const char *by(int their_own) { return their_own ? "provider=default" : NULL; }

static EVP_PKEY_CTX *begin_sign(int their_own, void **message) {
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, their_own ? theirs : ours, by(their_own));
    *message = NULL;
    if ((their_own ? EVP_PKEY_verify_init(ctx) : EVP_PKEY_sign_init(ctx)) > 0)
        return ctx;
    EVP_PKEY_CTX_free(ctx);
    return NULL;
}

static int check_sign(EVP_PKEY_CTX *ctx, void *message, EVP_PKEY_CTX *their_ctx, void *their_message) {
    unsigned char signature[8192];
    size_t len = sizeof signature;
    (void)message, (void)their_message;
    return EVP_PKEY_sign(ctx, signature, &len, DIGEST, 32) <= 0 || EVP_PKEY_verify(their_ctx, signature, len, DIGEST, 32) > 0;
}

static EVP_PKEY_CTX *begin_message(int their_own, void **message) {
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    EVP_PKEY_CTX *ctx = NULL;
    const char *digest = EVP_PKEY_is_a(ours, "RSA") || EVP_PKEY_is_a(ours, "EC") ? "SHA256" : NULL;
    *message = md;
    if ((their_own ? EVP_DigestVerifyInit_ex(md, &ctx, digest, NULL, by(1), theirs, NULL)
                   : EVP_DigestSignInit_ex(md, &ctx, digest, NULL, NULL, ours, NULL)) > 0)
        return ctx;
    EVP_MD_CTX_free(md);
    return NULL;
}

static int check_message(EVP_PKEY_CTX *ctx, void *message, EVP_PKEY_CTX *their_ctx, void *their_message) {
    unsigned char signature[8192];
    size_t len = sizeof signature;
    (void)ctx, (void)their_ctx;
    return EVP_DigestSign(message, signature, &len, DIGEST, 32) <= 0 || EVP_DigestVerify(their_message, signature, len, DIGEST, 32) > 0;
}

static EVP_PKEY_CTX *begin_decrypt(int their_own, void **message) {
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, their_own ? theirs : ours, by(their_own));
    *message = NULL;
    if ((their_own ? EVP_PKEY_encrypt_init(ctx) : EVP_PKEY_decrypt_init(ctx)) > 0)
        return ctx;
    EVP_PKEY_CTX_free(ctx);
    return NULL;
}

static int check_decrypt(EVP_PKEY_CTX *ctx, void *message, EVP_PKEY_CTX *their_ctx, void *their_message) {
    unsigned char sealed[1024], text[1024];
    size_t sealed_len = sizeof sealed, len = sizeof text;
    (void)message, (void)their_message;
    if (EVP_PKEY_encrypt(their_ctx, sealed, &sealed_len, DIGEST, 32) <= 0)
        return 1;
    /* A failure shows that the setting differs, and the program sees it. */
    return EVP_PKEY_decrypt(ctx, text, &len, sealed, sealed_len) <= 0 || (len == 32 && memcmp(text, DIGEST, 32) == 0);
}

static EVP_PKEY_CTX *begin_derive(int their_own, void **message) {
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, their_own ? other : ours, by(their_own));
    *message = NULL;
    if (EVP_PKEY_derive_init(ctx) > 0 && EVP_PKEY_derive_set_peer(ctx, their_own ? theirs : other) > 0)
        return ctx;
    EVP_PKEY_CTX_free(ctx);
    return NULL;
}

static int check_derive(EVP_PKEY_CTX *ctx, void *message, EVP_PKEY_CTX *their_ctx, void *their_message) {
    unsigned char one[1024], two[1024];
    size_t one_len = sizeof one, two_len = sizeof two;
    (void)message, (void)their_message;
    return EVP_PKEY_derive(ctx, one, &one_len) <= 0 || EVP_PKEY_derive(their_ctx, two, &two_len) <= 0 ||
           (one_len == two_len && memcmp(one, two, one_len) == 0);
}

static EVP_PKEY_CTX *begin_generate(int their_own, void **message) {
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, EVP_PKEY_get0_type_name(ours), their_own ? by(1) : "provider=sidecore");
    *message = NULL;
    if (ctx != NULL && EVP_PKEY_keygen_init(ctx) > 0)
        return ctx;
    EVP_PKEY_CTX_free(ctx);
    return NULL;
}

/* The test's expectations check the properties of a generated key. */
static int check_generate(EVP_PKEY_CTX *ctx, void *message, EVP_PKEY_CTX *their_ctx, void *their_message) {
    (void)ctx, (void)message, (void)their_ctx, (void)their_message;
    return 1;
}

static void end(EVP_PKEY_CTX *ctx, void *message) {
    if (message != NULL)
        EVP_MD_CTX_free(message);
    else
        EVP_PKEY_CTX_free(ctx);
}

static void try_one(begin_function *begin, check_function *check, OSSL_PARAM param, const char *value) {
    OSSL_PARAM params[] = {param, OSSL_PARAM_END};
    void *message, *their_message;
    EVP_PKEY_CTX *ctx = begin(0, &message), *their_ctx;
    ERR_clear_error();
    if (ctx == NULL)
        return;
    if (EVP_PKEY_CTX_set_params(ctx, params) <= 0) {
        say(&param, value, named() ? "refused" : "SILENT");
    } else {
        their_ctx = begin(1, &their_message);
        if (their_ctx != NULL && EVP_PKEY_CTX_set_params(their_ctx, params) > 0)
            say(&param, value, check(ctx, message, their_ctx, their_message) ? "done" : "IGNORED");
        else
            say(&param, value, "done");
        if (their_ctx != NULL)
            end(their_ctx, their_message);
    }
    end(ctx, message);
}

static void try_values(begin_function *begin, check_function *check, const char *name, unsigned type) {
    char text[16];
    if (type == OSSL_PARAM_INTEGER || type == OSSL_PARAM_UNSIGNED_INTEGER)
        for (size_t at = 0; at < sizeof VALUES / sizeof *VALUES; at++) {
            int number = VALUES[at];
            snprintf(text, sizeof text, "%d", number);
            try_one(begin, check, OSSL_PARAM_construct_int(name, &number), text);
        }
    else if (type == OSSL_PARAM_UTF8_STRING)
        for (size_t at = 0; at < sizeof WORDS / sizeof *WORDS; at++)
            try_one(begin, check, OSSL_PARAM_construct_utf8_string(name, (char *)WORDS[at], 0), WORDS[at]);
    else if (type == OSSL_PARAM_OCTET_STRING) {
        try_one(begin, check, OSSL_PARAM_construct_octet_string(name, "", 0), "");
        try_one(begin, check, OSSL_PARAM_construct_octet_string(name, "abc", 3), "abc");
    }
}

/* A parameter that was accepted on the key itself must then be reported by the key. */
static void try_key(void) {
    static const char *const WAYS[] = {"named_curve", "explicit", "uncompressed", "compressed", "hybrid", "default", "named", ""};
    static const char *const NAMES[] = {"encoding", "point-format", "group-check", "nonsense"};
    char now[64];
    size_t len;
    operation = "key";
    for (size_t name = 0; name < sizeof NAMES / sizeof *NAMES; name++)
        for (size_t way = 0; way < sizeof WAYS / sizeof *WAYS; way++) {
            OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(NAMES[name], (char *)WAYS[way], 0), OSSL_PARAM_END};
            ERR_clear_error();
            if (EVP_PKEY_set_params(ours, params) <= 0)
                say(params, WAYS[way], named() ? "refused" : "SILENT");
            else if (EVP_PKEY_get_utf8_string_param(ours, NAMES[name], now, sizeof now, &len) > 0 && strcmp(now, WAYS[way]) != 0)
                say(params, WAYS[way], "IGNORED");
            else
                say(params, WAYS[way], "done");
        }
}

static int is_in(const char *const *list, const char *name) {
    while (*list != NULL && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

static void try_all(const char *called, begin_function *begin, check_function *check) {
    void *message;
    EVP_PKEY_CTX *ctx;
    operation = called;
    if ((ctx = begin(0, &message)) == NULL) {
        printf("%s cannot be begun %s\n", called, named() ? "refused" : "SILENT");
        return;
    }
    end(ctx, message);
    for (const char *const *name = NUMBERS; *name != NULL; name++)
        try_values(begin, check, *name, OSSL_PARAM_INTEGER);
    for (const char *const *name = TEXTS; *name != NULL; name++)
        try_values(begin, check, *name, OSSL_PARAM_UTF8_STRING);
    for (const char *const *name = BYTES; *name != NULL; name++)
        try_values(begin, check, *name, OSSL_PARAM_OCTET_STRING);
    /* All other parameters of this version of OpenSSL and of the provider. */
    for (int their_own = 0; their_own < 2; their_own++) {
        const OSSL_PARAM *known;
        if ((ctx = begin(their_own, &message)) == NULL)
            continue;
        for (known = EVP_PKEY_CTX_settable_params(ctx); known != NULL && known->key != NULL; known++)
            if (!is_in(NUMBERS, known->key) && !is_in(TEXTS, known->key) && !is_in(BYTES, known->key) && strcmp(known->key, "signature"))
                try_values(begin, check, known->key, known->data_type);
        end(ctx, message);
    }
}

typedef int init_function(EVP_PKEY_CTX *, EVP_SIGNATURE *, const OSSL_PARAM *);
typedef int update_function(EVP_PKEY_CTX *, const unsigned char *, size_t);
typedef int final_function(EVP_PKEY_CTX *, unsigned char *, size_t *);
typedef int set_function(EVP_PKEY_CTX *, const unsigned char *, size_t);
typedef int check_final_function(EVP_PKEY_CTX *);

/* Signs a message whole and in pieces; OpenSSL's own code and the provider verify it in both ways. */
static void whole_message(const char *algorithm) {
    init_function *sign_init = (init_function *)dlsym(RTLD_DEFAULT, "EVP_PKEY_sign_message_init");
    init_function *verify_init = (init_function *)dlsym(RTLD_DEFAULT, "EVP_PKEY_verify_message_init");
    update_function *update = (update_function *)dlsym(RTLD_DEFAULT, "EVP_PKEY_sign_message_update");
    update_function *verify_update = (update_function *)dlsym(RTLD_DEFAULT, "EVP_PKEY_verify_message_update");
    final_function *final = (final_function *)dlsym(RTLD_DEFAULT, "EVP_PKEY_sign_message_final");
    check_final_function *verify_final = (check_final_function *)dlsym(RTLD_DEFAULT, "EVP_PKEY_verify_message_final");
    set_function *set = (set_function *)dlsym(RTLD_DEFAULT, "EVP_PKEY_CTX_set_signature");
    unsigned char signature[8192];
    size_t len;
    int right = 1;
    if (sign_init == NULL)
        return;
    EVP_SIGNATURE *own = EVP_SIGNATURE_fetch(NULL, algorithm, "provider=sidecore");
    EVP_SIGNATURE *their = EVP_SIGNATURE_fetch(NULL, algorithm, "provider=default");
    for (int pieces = 0; pieces < 2 && right; pieces++) {
        EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, ours, NULL);
        len = sizeof signature;
        right = own != NULL && sign_init(ctx, own, NULL) > 0;
        if (pieces)
            right = right && update(ctx, DIGEST, 3) > 0 && update(ctx, DIGEST + 3, 29) > 0 && final(ctx, signature, &len) > 0;
        else
            right = right && EVP_PKEY_sign(ctx, signature, &len, DIGEST, 32) > 0;
        EVP_PKEY_CTX_free(ctx);
        for (int who = 0; who < 4 && right; who++) {
            EVP_PKEY_CTX *verify = EVP_PKEY_CTX_new_from_pkey(NULL, who & 1 ? theirs : ours, NULL);
            right = verify_init(verify, who & 1 ? their : own, NULL) > 0;
            if (who & 2 && (who & 1) == 0)
                right = right && set(verify, signature, len) > 0 && verify_update(verify, DIGEST, 30) > 0 &&
                        verify_update(verify, DIGEST + 30, 2) > 0 && verify_final(verify) > 0;
            else
                right = right && EVP_PKEY_verify(verify, signature, len, DIGEST, 32) > 0;
            EVP_PKEY_CTX_free(verify);
        }
    }
    if (!right)
        ERR_print_errors_fp(stderr);
    printf("message %s %s\n", algorithm, right ? "done" : "WRONG");
    EVP_SIGNATURE_free(own);
    EVP_SIGNATURE_free(their);
}

int main(int argc, char **argv) {
    if (argc != 3 || (ours = load(argv[1])) == NULL || (theirs = load(argv[2])) == NULL) {
        ERR_print_errors_fp(stderr);
        return 1;
    }
    int rsa = EVP_PKEY_is_a(ours, "RSA"), ec = EVP_PKEY_is_a(ours, "EC"), x25519 = EVP_PKEY_is_a(ours, "X25519");
    EVP_PKEY_CTX *made = EVP_PKEY_CTX_new_from_pkey(NULL, theirs, by(1));
    if (made != NULL && EVP_PKEY_keygen_init(made) > 0)
        EVP_PKEY_generate(made, &other);
    EVP_PKEY_CTX_free(made);
    try_key();
    if (rsa || ec)
        try_all("sign", begin_sign, check_sign);
    if (!x25519)
        try_all("message", begin_message, check_message);
    if (rsa)
        try_all("decrypt", begin_decrypt, check_decrypt);
    if (ec || x25519)
        try_all("derive", begin_derive, check_derive);
    if (!x25519)
        try_all("generate", begin_generate, check_generate);
    static const char *const RSA_ROWS[] = {"RSA-SHA2-256", "RSA-SHA384", "1.2.840.113549.1.1.13", NULL};
    static const char *const EC_ROWS[] = {"ECDSA-SHA2-256", "ecdsa-with-SHA384", "ECDSA-SHA512", NULL};
    const char *const own[] = {EVP_PKEY_get0_type_name(ours), NULL};
    for (const char *const *row = rsa ? RSA_ROWS : ec ? EC_ROWS : own; !x25519 && *row != NULL; row++)
        whole_message(*row);
    return 0;
}
