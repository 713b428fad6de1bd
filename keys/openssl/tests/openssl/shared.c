/* A program whose processes share libcrypto's memory, as Kamailio's do: OWN OTHER. One process loads the key of the file OTHER;
   the next one loads that of OWN, and signs with the first one's. */
#define _GNU_SOURCE
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "keyfile.h"

enum { BYTES = 64 << 20, HEAD = 16 };

struct shared {
    size_t used;
    EVP_PKEY *key;
    char data[];
};

static struct shared *shared;

static void *allocate(size_t size, const char *file, int line) {
    size_t room = (HEAD + size + 15) & ~(size_t)15;
    (void)file, (void)line;
    /* Memory is never reused, so freed memory keeps its content. */
    char *place = shared->data + __sync_fetch_and_add(&shared->used, room);
    if (place + room > (char *)shared + BYTES)
        return NULL;
    *(size_t *)place = size;
    return place + HEAD;
}

static void leave(void *place, const char *file, int line) { (void)place, (void)file, (void)line; }

static void *reallocate(void *old, size_t size, const char *file, int line) {
    void *place = size ? allocate(size, file, line) : NULL;
    size_t before = old ? *(size_t *)((char *)old - HEAD) : 0;
    if (place && old)
        memcpy(place, old, before < size ? before : size);
    return place;
}

static int verifies(EVP_PKEY *key, const unsigned char *signature, size_t len) {
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
    int right = EVP_PKEY_verify_init(context) > 0 && EVP_PKEY_verify(context, signature, len, text, sizeof text) == 1;
    EVP_PKEY_CTX_free(context);
    return right;
}

static int load_for_another(const char *file) {
    shared->key = load(file);
    return !shared->key;
}

/* Finds the key of the shared key's signature, while this process has a key of its own in memory. */
static int sign_with_anothers(const char *file, const char *others) {
    unsigned char signature[512];
    size_t len = sizeof signature;
    EVP_PKEY *own = load(file);
    int signed_at_all = own && sign_given(shared->key, signature, &len);
    FILE *from = fopen(others, "r");
    EVP_PKEY *public = from ? PEM_read_PUBKEY(from, NULL, NULL, NULL) : NULL;
    if (!own || !public) {
        ERR_print_errors_fp(stderr);
        return 1;
    }
    if (!signed_at_all) {
        ERR_print_errors_fp(stdout);
        return 0;
    }
    puts(verifies(public, signature, len) ? "right" : verifies(own, signature, len) ? "wrong" : "none");
    len = sizeof signature;
    puts(sign_given(own, signature, &len) && verifies(own, signature, len) ? "own" : "not own");
    EVP_PKEY_free(shared->key);
    EVP_PKEY_free(own);
    return 0;
}

/* Returns 0 if the process exited with 0. */
static int status_of(pid_t child) {
    int status;
    return waitpid(child, &status, 0) != child || status;
}

int main(int count, char **arguments) {
    shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (count != 4 || shared == MAP_FAILED || !CRYPTO_set_mem_functions(allocate, reallocate, leave))
        return 2;
    /* Loads the provider, and OpenSSL's objects of first use, before there are other processes. */
    unsigned char signature[512];
    size_t len = sizeof signature;
    EVP_PKEY *first = load(arguments[1]);
    if (!first || !sign_given(first, signature, &len))
        return 2;
    EVP_PKEY_free(first);
    pid_t child = fork();
    if (child == 0)
        _exit(load_for_another(arguments[2]));
    if (status_of(child))
        return 3;
    child = fork();
    if (child == 0) {
        int failed = sign_with_anothers(arguments[1], arguments[3]);
        fflush(stdout);
        _exit(failed);
    }
    return status_of(child) ? 4 : 0;
}
