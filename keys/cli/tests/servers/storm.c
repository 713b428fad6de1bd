/* Signs once, then forks COUNT children that sign, all at a time: once, or ROUNDS times, each time when all have signed or
 * been refused. Checks every child's last signature with OpenSSL's own code. Says how many signed, how many were refused
 * and how many signatures are wrong.
 *
 * storm KEY.pem CERTIFICATE.pem COUNT ROUNDS */
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONGEST = 512, SECONDS = 50 };

struct signature {
    size_t length;
    unsigned char bytes[LONGEST];
};

static int give_up(const char *what) {
    fprintf(stderr, "%s\n", what);
    ERR_print_errors_fp(stderr);
    return 1;
}

static int sign(EVP_PKEY *key, int number, struct signature *out) {
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    size_t length = LONGEST;
    int good = EVP_DigestSignInit_ex(context, NULL, "SHA256", NULL, NULL, key, NULL) == 1 &&
               EVP_DigestSign(context, out->bytes, &length, (unsigned char *)&number, sizeof number) == 1;
    EVP_MD_CTX_free(context);
    if (good)
        out->length = length;
    return good;
}

static int is_right(EVP_PKEY *public, int number, const struct signature *signature) {
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int right = EVP_DigestVerifyInit_ex(context, NULL, "SHA256", NULL, "provider=default", public, NULL) == 1 &&
                EVP_DigestVerify(context, signature->bytes, signature->length, (unsigned char *)&number,
                                 sizeof number) == 1;
    EVP_MD_CTX_free(context);
    return right;
}

/* Signs in each round, and stays until all others have, with its lane as far as it is left to it. */
static int child(EVP_PKEY *key, int number, int count, int rounds, atomic_int *attempts, struct signature *out) {
    int refused = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(SECONDS);
    ERR_clear_error();
    for (int round = 1; round <= rounds; round++) {
        if (!refused && !sign(key, number, out)) {
            refused = give_up("refused");
            out->length = 0;
        }
        atomic_fetch_add(attempts, 1);
        while (round < rounds && atomic_load(attempts) < round * count)
            usleep(1000);
    }
    return refused;
}

int main(int count_of_words, char **words) {
    if (count_of_words != 5)
        return give_up("storm KEY.pem CERTIFICATE.pem COUNT ROUNDS");
    int count = atoi(words[3]), rounds = atoi(words[4]);
    BIO *file = BIO_new_file(words[1], "r");
    EVP_PKEY *key = file ? PEM_read_bio_PrivateKey(file, NULL, NULL, NULL) : NULL;
    if (!key)
        return give_up("no key");
    BIO *certificate_file = BIO_new_file(words[2], "r");
    X509 *certificate = certificate_file ? PEM_read_bio_X509(certificate_file, NULL, NULL, NULL) : NULL;
    EVP_PKEY *public = certificate ? X509_get_pubkey(certificate) : NULL;
    if (!public)
        return give_up("no certificate");
    size_t bytes = ((size_t)count + 1) * sizeof(struct signature) + sizeof(atomic_int);
    struct signature *signatures = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    atomic_int *attempts = (atomic_int *)(signatures + count + 1);
    if (signatures == MAP_FAILED || !sign(key, count, &signatures[count]))
        return give_up("the parent cannot sign");

    int forked = 0, failed = 0, refused = 0, wrong = 0, status;
    for (; forked < count; forked++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(child(key, forked, count, rounds, attempts, &signatures[forked]));
        if (pid < 0)
            break;
    }
    while (wait(&status) > 0)
        failed += !(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
    for (int number = 0; number <= count; number++) {
        refused += signatures[number].length == 0;
        wrong += signatures[number].length != 0 && !is_right(public, number, &signatures[number]);
    }
    printf("forked %d, crashed %d, refused %d, wrong %d\n", forked, failed, refused, wrong);
    return 0;
}
