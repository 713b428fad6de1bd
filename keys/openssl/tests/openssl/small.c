/* A program that keeps its private key in a file, and does something unusual: PART FILE. */
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <pthread.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "keyfile.h"

static int sign(EVP_PKEY *key) {
    unsigned char signature[512];
    size_t len = sizeof signature;
    return sign_given(key, signature, &len);
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

static int sign_message(EVP_MD_CTX *context, EVP_PKEY *key, const char *digest, unsigned char *signature, size_t *len) {
    return EVP_DigestSignInit_ex(context, NULL, digest, NULL, NULL, key, NULL) > 0 &&
           EVP_DigestSign(context, signature, len, text, sizeof text) > 0;
}

/* Continues after a failed initialisation: the text must not be signed, neither in a new context nor in a used one. */
static void *after_failures(void *file) {
    /* Known to OpenSSL, not to the provider. */
    const char *unknown = "BLAKE2S-256";
    unsigned char signature[512], other[512];
    size_t len = sizeof signature;
    EVP_PKEY *key = load(file);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int whole = key && EVP_PKEY_is_a(key, "ED25519");
    const char *digest = whole ? NULL : "SHA256";
    int held = key && context;
    if (held)
        held = whole ? sign_message(context, key, digest, signature, &len) : sign_given(key, signature, &len);
    EVP_MD_CTX_reset(context);
    for (int round = 0; held && round < 2; round++) {
        size_t room = sizeof other;
        held = EVP_DigestSignInit_ex(context, NULL, unknown, NULL, NULL, key, NULL) <= 0 &&
               EVP_DigestSign(context, other, &room, text, sizeof text) <= 0 &&
               EVP_DigestVerifyInit_ex(context, NULL, unknown, NULL, NULL, key, NULL) <= 0 &&
               EVP_DigestVerify(context, signature, len, text, sizeof text) <= 0;
        room = sizeof other;
        held = held && sign_message(context, key, digest, other, &room) &&
               EVP_DigestVerifyInit_ex(context, NULL, digest, NULL, NULL, key, NULL) > 0 &&
               EVP_DigestVerify(context, other, room, text, sizeof text) > 0;
    }
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    return held ? "refused" : NULL;
}

/* As in a unit whose RestrictAddressFamilies= lacks AF_UNIX: forbids further sockets of that family. */
static int without_sockets(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1 /* AF_UNIX */, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* As a daemon that changes its root, or loses access to sockets, after it has loaded its key. */
static void *cut_off(void *file, const char *root) {
    EVP_PKEY *key = load(file);
    int cut = root ? chroot(root) == 0 && chdir("/") == 0 : without_sockets();
    return key && cut && sign(key) ? "signed" : NULL;
}

int main(int count, char **arguments) {
    const char *said = NULL;
    if (count == 3 && !strcmp(arguments[1], "sign"))
        said = load_and_sign(arguments[2]);
    if (count == 3 && !strcmp(arguments[1], "small-stack"))
        said = on_a_small_stack(arguments[2]);
    if (count == 3 && !strcmp(arguments[1], "free-late"))
        said = freed_late(arguments[2]);
    if (count == 3 && !strcmp(arguments[1], "after-failures"))
        said = after_failures(arguments[2]);
    if (count == 3 && !strcmp(arguments[1], "without-sockets"))
        said = cut_off(arguments[2], NULL);
    if (count == 4 && !strcmp(arguments[1], "in-a-root"))
        said = cut_off(arguments[2], arguments[3]);
    if (!said) {
        ERR_print_errors_fp(stderr);
        return 1;
    }
    puts(said);
    return 0;
}
