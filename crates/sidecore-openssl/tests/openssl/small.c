/* A program that keeps its private key in a file, and does something unusual: PART FILE. */
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static EVP_PKEY *load(const char *file) {
    FILE *from = fopen(file, "r");
    EVP_PKEY *key = from ? PEM_read_PrivateKey(from, NULL, NULL, NULL) : NULL;
    if (from)
        fclose(from);
    return key;
}

static int sign(EVP_PKEY *key) {
    unsigned char digest[32] = {7}, signature[512];
    size_t len = sizeof signature;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
    int done = context && EVP_PKEY_sign_init(context) > 0 &&
               EVP_PKEY_sign(context, signature, &len, digest, sizeof digest) > 0;
    EVP_PKEY_CTX_free(context);
    return done;
}

static void *load_and_sign(void *file) {
    EVP_PKEY *key = load(file);
    const char *said = key && sign(key) ? "signed" : NULL;
    EVP_PKEY_free(key);
    return (void *)said;
}

/* As small as the system allows. */
static void *on_a_small_stack(void *file) {
    pthread_attr_t attributes;
    pthread_t thread;
    void *said = NULL;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
    if (pthread_create(&thread, &attributes, load_and_sign, file) == 0)
        pthread_join(thread, &said);
    return said;
}

static void *freed_late(void *file) {
    EVP_PKEY *key = load(file);
    if (!key || !sign(key))
        return NULL;
    OPENSSL_cleanup();
    EVP_PKEY_free(key);
    return "freed";
}

int main(int count, char **arguments) {
    const char *said = NULL;
    if (count == 3 && !strcmp(arguments[1], "sign"))
        said = load_and_sign(arguments[2]);
    if (count == 3 && !strcmp(arguments[1], "small-stack"))
        said = on_a_small_stack(arguments[2]);
    if (count == 3 && !strcmp(arguments[1], "free-late"))
        said = freed_late(arguments[2]);
    if (!said) {
        ERR_print_errors_fp(stderr);
        return 1;
    }
    puts(said);
    return 0;
}
