/* Keys in files, and signatures of a text as if it were a digest. */
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>

static EVP_PKEY *load(const char *file) {
    FILE *from = fopen(file, "r");
    EVP_PKEY *key = from ? PEM_read_PrivateKey(from, NULL, NULL, NULL) : NULL;
    if (from)
        fclose(from);
    return key;
}

/* As long as a digest. */
static const unsigned char text[32] = {7};

static int sign_given(EVP_PKEY *key, unsigned char *signature, size_t *len) {
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
    int done = context && EVP_PKEY_sign_init(context) > 0 && EVP_PKEY_sign(context, signature, len, text, sizeof text) > 0;
    EVP_PKEY_CTX_free(context);
    return done;
}
