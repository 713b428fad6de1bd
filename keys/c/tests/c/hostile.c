/* A program that uses the library wrongly, or under rare conditions: PART [ARGUMENT...]. It prints what it saw, and a
 * line with BAD for what must not be. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <sidecore.h>

#define IS(expected, call)                                                                                            \
    do {                                                                                                              \
        int got_ = (call);                                                                                            \
        if (got_ != (expected)) printf("BAD line %d: %d, %s\n", __LINE__, got_, sidecore_error_text()), bad = 1;      \
    } while (0)
#define HOLDS(what)                                                                                                   \
    do {                                                                                                              \
        if (!(what)) printf("BAD line %d: %s\n", __LINE__, #what), bad = 1;                                           \
    } while (0)

enum { RESULTS = 8, THREADS = 8 };

static int bad;
static sidecore *service;
static const uint8_t MESSAGE[] = "a message";

static uint16_t scheme_of(const sidecore_key *key) {
    uint16_t schemes[8] = {0};
    size_t count = 8;
    IS(SIDECORE_OK, sidecore_key_schemes(key, schemes, &count));
    return schemes[0];
}

static sidecore_key *loaded(const char *name) {
    sidecore_key *key = NULL;
    IS(SIDECORE_OK, sidecore_key_load(service, name, &key));
    if (!key) exit(1);
    return key;
}

static int signs(const sidecore_key *key) {
    uint8_t out[SIDECORE_MAX_SIGNATURE];
    size_t len = sizeof out;
    return sidecore_sign(key, scheme_of(key), MESSAGE, sizeof MESSAGE, out, &len);
}

/* All results that come within ten seconds, until there are that many. */
static size_t complete(sidecore_queue *queue, sidecore_result *results, size_t wanted) {
    size_t done = 0;
    while (done < wanted) {
        size_t count;
        IS(SIDECORE_OK, sidecore_queue_complete(queue, results + done, wanted - done, &count));
        done += count;
        struct pollfd one = {.fd = sidecore_queue_fd(queue), .events = POLLIN};
        if (done < wanted && poll(&one, 1, 10000) <= 0) break;
    }
    return done;
}

static void null_pointers(void) {
    sidecore_key *key = loaded("p256"), *other = key;
    sidecore_queue *queue = NULL;
    uint8_t out[SIDECORE_MAX_SIGNATURE];
    uint16_t schemes[8];
    size_t len = sizeof out;
    static sidecore_result results[1];
    IS(SIDECORE_OK, sidecore_queue_open(service, 0, &queue));
    IS(SIDECORE_ARGUMENT, sidecore_open(NULL, NULL));
    IS(SIDECORE_ARGUMENT, sidecore_key_load(NULL, "p256", &other));
    HOLDS(other == NULL);
    IS(SIDECORE_ARGUMENT, sidecore_key_load(service, NULL, &other));
    IS(SIDECORE_ARGUMENT, sidecore_key_load(service, "p256", NULL));
    IS(SIDECORE_ARGUMENT, sidecore_key_load_file(NULL, "p256.pem", &other));
    IS(SIDECORE_ARGUMENT, sidecore_key_load_file(service, NULL, &other));
    IS(SIDECORE_ARGUMENT, sidecore_key_load_file(service, "p256.pem", NULL));
    IS(SIDECORE_ARGUMENT, sidecore_key_public(NULL, out, &len));
    IS(SIDECORE_ARGUMENT, sidecore_key_public(key, out, NULL));
    IS(SIDECORE_ARGUMENT, sidecore_key_schemes(NULL, schemes, &len));
    IS(SIDECORE_ARGUMENT, sidecore_key_schemes(key, schemes, NULL));
    IS(SIDECORE_ARGUMENT, sidecore_sign(NULL, 0x0403, MESSAGE, 1, out, &len));
    IS(SIDECORE_ARGUMENT, sidecore_sign(key, 0x0403, NULL, 1, out, &len));
    IS(SIDECORE_ARGUMENT, sidecore_sign(key, 0x0403, MESSAGE, 1, out, NULL));
    IS(SIDECORE_ARGUMENT, sidecore_decrypt(NULL, SIDECORE_PKCS1, MESSAGE, 1, out, &len));
    IS(SIDECORE_ARGUMENT, sidecore_decrypt(key, SIDECORE_PKCS1, NULL, 1, out, &len));
    IS(SIDECORE_ARGUMENT, sidecore_decrypt(key, SIDECORE_PKCS1, MESSAGE, 1, out, NULL));
    IS(SIDECORE_ARGUMENT, sidecore_queue_open(NULL, 0, &queue));
    HOLDS(queue == NULL);
    IS(SIDECORE_ARGUMENT, sidecore_queue_open(service, 0, NULL));
    IS(SIDECORE_OK, sidecore_queue_open(service, 0, &queue));
    IS(-1, sidecore_queue_fd(NULL));
    IS(SIDECORE_ARGUMENT, sidecore_queue_submit_sign(NULL, key, 0x0403, MESSAGE, 1, 0));
    IS(SIDECORE_ARGUMENT, sidecore_queue_submit_sign(queue, NULL, 0x0403, MESSAGE, 1, 0));
    IS(SIDECORE_ARGUMENT, sidecore_queue_submit_sign(queue, key, 0x0403, NULL, 1, 0));
    IS(SIDECORE_ARGUMENT, sidecore_queue_complete(NULL, results, 1, &len));
    IS(SIDECORE_ARGUMENT, sidecore_queue_complete(queue, NULL, 1, &len));
    IS(SIDECORE_ARGUMENT, sidecore_queue_complete(queue, results, 0, &len));
    IS(SIDECORE_ARGUMENT, sidecore_queue_complete(queue, results, 1, NULL));
    HOLDS(strstr(sidecore_error_text(), "count") != NULL);
    HOLDS(sidecore_key_share(NULL) == NULL);
    sidecore_key_free(NULL);
    sidecore_queue_close(NULL);
    sidecore_close(NULL);
    sidecore_queue_close(queue);
    sidecore_key_free(key);
}

static void lengths(void) {
    sidecore_key *rsa = loaded("rsa2048"), *ed = loaded("ed25519"), *key = NULL;
    sidecore *other = NULL;
    sidecore_queue *queue = NULL;
    uint8_t out[SIDECORE_MAX_SIGNATURE + 8];
    uint16_t schemes[8];
    size_t len = 0;
    for (size_t size = 0; size < 64; size++) {
        sidecore_options options = {.size = size};
        int known = size >= sizeof(size_t) && size <= sizeof options;
        IS(known ? SIDECORE_OK : SIDECORE_ARGUMENT, sidecore_open(&options, &other));
        sidecore_close(other);
    }
    IS(SIDECORE_OK, sidecore_sign(rsa, 0x0804, MESSAGE, 1, NULL, &len));
    HOLDS(len == 256);
    memset(out, 7, sizeof out);
    for (len = 0; len < 256; len += 51) {
        size_t room = len;
        IS(SIDECORE_TOO_SMALL, sidecore_sign(rsa, 0x0804, MESSAGE, 1, out, &room));
        HOLDS(room == 256 && out[0] == 7);
    }
    len = 256;
    IS(SIDECORE_OK, sidecore_sign(rsa, 0x0804, MESSAGE, 1, out, &len));
    HOLDS(len == 256 && out[256] == 7);
    len = sizeof out;
    IS(SIDECORE_OK, sidecore_sign(ed, 0x0807, NULL, 0, out, &len));
    HOLDS(len == 64);
    len = sizeof out;
    IS(SIDECORE_ARGUMENT, sidecore_sign(ed, 0x0807, MESSAGE, SIZE_MAX, out, &len));
    IS(SIDECORE_UNSUPPORTED, sidecore_sign(ed, 0x0804, MESSAGE, 1, out, &len));
    IS(SIDECORE_UNSUPPORTED, sidecore_sign(rsa, 0, MESSAGE, 1, out, &len));
    IS(SIDECORE_UNSUPPORTED, sidecore_sign(rsa, 0xffff, MESSAGE, 1, out, &len));
    len = 5;
    IS(SIDECORE_TOO_SMALL, sidecore_key_schemes(rsa, schemes, &len));
    HOLDS(len == 6);
    len = 3;
    IS(SIDECORE_TOO_SMALL, sidecore_key_public(rsa, out, &len));
    HOLDS(len > 256 && len < 400);
    IS(SIDECORE_OK, sidecore_key_public(rsa, out, &len));
    HOLDS(out[0] == 0x30);
    len = sizeof out;
    for (uint32_t padding = 0; padding < 16; padding++) {
        len = sizeof out;
        if (padding < SIDECORE_PKCS1 || padding > SIDECORE_OAEP_SHA512)
            IS(SIDECORE_ARGUMENT, sidecore_decrypt(rsa, padding, out, 256, out, &len));
    }
    len = sizeof out;
    IS(SIDECORE_INPUT, sidecore_decrypt(rsa, SIDECORE_PKCS1, out, 257, out, &len));
    len = sizeof out;
    IS(SIDECORE_UNSUPPORTED, sidecore_decrypt(ed, SIDECORE_PKCS1, out, 64, out, &len));
    IS(SIDECORE_ARGUMENT, sidecore_queue_open(service, 4097, &queue));
    IS(SIDECORE_ARGUMENT, sidecore_queue_open(service, UINT32_MAX, &queue));
    static char name[70000];
    memset(name, 'x', sizeof name - 1);
    IS(SIDECORE_NO_KEY, sidecore_key_load(service, "none", &key));
    HOLDS(strstr(sidecore_error_text(), "sidecore keys list") != NULL);
    IS(SIDECORE_NO_KEY, sidecore_key_load(service, "", &key));
    IS(SIDECORE_ARGUMENT, sidecore_key_load(service, "\xff", &key));
    int status = sidecore_key_load(service, name, &key);
    HOLDS(status != SIDECORE_OK && key == NULL);
    IS(SIDECORE_KEY, sidecore_key_load_file(service, "p256.der", &key));
    IS(SIDECORE_KEY, sidecore_key_load_file(service, "none.pem", &key));
    IS(SIDECORE_KEY, sidecore_key_load_file(service, "/", &key));
    for (int number = -3; number < 200; number++) HOLDS(sidecore_status_text(number)[0] != 0);
    sidecore_key_free(rsa);
    sidecore_key_free(ed);
}

static void full(void) {
    sidecore_key *key = loaded("ed25519");
    sidecore_queue *queue;
    static sidecore_result results[64];
    static uint8_t large[1 << 20];
    size_t submitted = 0, count;
    int status, seen[64] = {0};
    IS(SIDECORE_OK, sidecore_queue_open(service, 3, &queue));
    while ((status = sidecore_queue_submit_sign(queue, key, 0x0807, large, submitted * 100, submitted)) == SIDECORE_OK)
        if (++submitted > 4) break;
    IS(SIDECORE_FULL, status);
    HOLDS(submitted == 4);
    HOLDS(complete(queue, results, 4) == 4);
    for (int at = 0; at < 4; at++) {
        HOLDS(results[at].status == SIDECORE_OK && results[at].signature_len == 64 && results[at].tag < 4);
        HOLDS(seen[results[at].tag]++ == 0);
    }
    IS(SIDECORE_OK, sidecore_queue_complete(queue, results, 1, &count));
    HOLDS(count == 0);
    /* Larger than the arena, and than any request. */
    IS(SIDECORE_INPUT, sidecore_queue_submit_sign(queue, key, 0x0807, large, 100000, 1));
    HOLDS(strstr(sidecore_error_text(), "more slots") != NULL);
    IS(SIDECORE_INPUT, sidecore_queue_submit_sign(queue, key, 0x0807, large, sizeof large, 1));
    IS(SIDECORE_UNSUPPORTED, sidecore_queue_submit_sign(queue, key, 0x0403, large, 1, 1));
    for (int round = 0; round < 100; round++) {
        IS(SIDECORE_OK, sidecore_queue_submit_sign(queue, key, 0x0807, large, 9, UINT64_MAX));
        HOLDS(complete(queue, results, 1) == 1 && results[0].tag == UINT64_MAX);
    }
    sidecore_key_free(key);
    sidecore_queue_close(queue);
}

static void freed(void) {
    sidecore_key *key = loaded("p256");
    sidecore_queue *queue;
    static sidecore_result results[RESULTS];
    IS(SIDECORE_OK, sidecore_queue_open(service, RESULTS, &queue));
    uint16_t scheme = scheme_of(key);
    for (int at = 0; at < RESULTS; at++)
        IS(SIDECORE_OK, sidecore_queue_submit_sign(queue, key, scheme, MESSAGE, sizeof MESSAGE, at));
    const sidecore_key *second = sidecore_key_share(key);
    sidecore_key_free(key);
    IS(SIDECORE_OK, signs(second));
    sidecore_key_free(second);
    sidecore_close(service);
    HOLDS(complete(queue, results, RESULTS) == RESULTS);
    for (int at = 0; at < RESULTS; at++) HOLDS(results[at].status == SIDECORE_OK);
    /* Some in flight at its end. */
    IS(SIDECORE_OK, sidecore_open(NULL, &service));
    key = loaded("p256");
    for (int at = 0; at < RESULTS; at++)
        IS(SIDECORE_OK, sidecore_queue_submit_sign(queue, key, scheme, MESSAGE, sizeof MESSAGE, at));
    sidecore_queue_close(queue);
    sidecore_key_free(key);
}

static void forked(void) {
    sidecore_key *key = loaded("p256");
    sidecore_queue *queue;
    static sidecore_result results[RESULTS];
    size_t count;
    uint16_t scheme = scheme_of(key);
    IS(SIDECORE_OK, sidecore_queue_open(service, 0, &queue));
    IS(SIDECORE_OK, signs(key));
    for (int at = 0; at < RESULTS; at++)
        IS(SIDECORE_OK, sidecore_queue_submit_sign(queue, key, scheme, MESSAGE, sizeof MESSAGE, at));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        sidecore_queue *own;
        IS(SIDECORE_FORKED, sidecore_queue_submit_sign(queue, key, scheme, MESSAGE, sizeof MESSAGE, 1));
        HOLDS(strstr(sidecore_error_text(), "open another") != NULL);
        IS(SIDECORE_FORKED, sidecore_queue_complete(queue, results, RESULTS, &count));
        HOLDS(count == 0);
        IS(-1, sidecore_queue_fd(queue));
        sidecore_queue_close(queue);
        IS(SIDECORE_OK, signs(key));
        IS(SIDECORE_OK, sidecore_queue_open(service, 0, &own));
        IS(SIDECORE_OK, sidecore_queue_submit_sign(own, key, scheme, MESSAGE, sizeof MESSAGE, 9));
        HOLDS(complete(own, results, 1) == 1 && results[0].tag == 9 && results[0].status == SIDECORE_OK);
        sidecore_queue_close(own);
        sidecore_key_free(key);
        sidecore_close(service);
        exit(bad);
    }
    int status = 0;
    waitpid(child, &status, 0);
    HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    HOLDS(complete(queue, results, RESULTS) == RESULTS);
    for (int at = 0; at < RESULTS; at++) HOLDS(results[at].status == SIDECORE_OK);
    IS(SIDECORE_OK, signs(key));
    sidecore_queue_close(queue);
}

/* Started as root. */
static void another_user(void) {
    sidecore_key *key = loaded("p256");
    sidecore_queue *queue;
    static sidecore_result results[1];
    uint16_t scheme = scheme_of(key);
    IS(SIDECORE_OK, sidecore_queue_open(service, 0, &queue));
    IS(SIDECORE_OK, sidecore_queue_submit_sign(queue, key, scheme, MESSAGE, sizeof MESSAGE, 1));
    HOLDS(complete(queue, results, 1) == 1 && results[0].status == SIDECORE_OK);
    HOLDS(setgid(65534) == 0 && setuid(65534) == 0);
    IS(SIDECORE_NOT_ALLOWED, sidecore_queue_submit_sign(queue, key, scheme, MESSAGE, sizeof MESSAGE, 2));
    HOLDS(strstr(sidecore_error_text(), "open one as the present user") != NULL);
    sidecore_queue_close(queue);
}

static sidecore_key *keys[3];

static void *threads_body(void *argument) {
    size_t number = (size_t)argument;
    sidecore_result *results = calloc(RESULTS, sizeof *results);
    sidecore_queue *queue;
    IS(SIDECORE_OK, sidecore_queue_open(service, RESULTS, &queue));
    for (int round = 0; round < 20; round++) {
        const sidecore_key *key = keys[(number + round) % 3];
        uint16_t scheme = scheme_of(key);
        IS(SIDECORE_OK, signs(key));
        for (int at = 0; at < RESULTS; at++)
            IS(SIDECORE_OK, sidecore_queue_submit_sign(queue, key, scheme, MESSAGE, sizeof MESSAGE, at));
        HOLDS(complete(queue, results, RESULTS) == RESULTS);
        for (int at = 0; at < RESULTS; at++) HOLDS(results[at].status == SIDECORE_OK);
        /* Each thread has its own text. */
        sidecore_key *none;
        char name[32];
        snprintf(name, sizeof name, "none-%zu", number);
        IS(SIDECORE_NO_KEY, sidecore_key_load(service, name, &none));
        HOLDS(strstr(sidecore_error_text(), name) != NULL);
    }
    sidecore_queue_close(queue);
    free(results);
    return NULL;
}

static sidecore_queue *common;

/* Against the rule: it must stay whole, and each submission has one result for one of the threads. */
static void *common_body(void *argument) {
    sidecore_result *results = calloc(RESULTS, sizeof *results);
    size_t submitted = 0, done = 0, count;
    for (int turn = 0; turn < 3000 && submitted < 100; turn++) {
        int status = sidecore_queue_submit_sign(common, keys[0], scheme_of(keys[0]), MESSAGE, sizeof MESSAGE, 1);
        if (status == SIDECORE_OK) submitted++;
        HOLDS(status == SIDECORE_OK || status == SIDECORE_FULL);
        IS(SIDECORE_OK, sidecore_queue_complete(common, results, RESULTS, &count));
        done += count;
        if (status == SIDECORE_FULL) usleep(1000);
    }
    free(results);
    *(size_t *)argument = submitted - done;
    return NULL;
}

static void threads(void) {
    pthread_t made[THREADS];
    size_t left[THREADS], sum = 0;
    keys[0] = loaded("p256"), keys[1] = loaded("rsa2048"), keys[2] = loaded("ed25519");
    for (size_t at = 0; at < THREADS; at++) pthread_create(&made[at], NULL, threads_body, (void *)at);
    for (size_t at = 0; at < THREADS; at++) pthread_join(made[at], NULL);
    IS(SIDECORE_OK, sidecore_queue_open(service, RESULTS, &common));
    for (size_t at = 0; at < THREADS; at++) pthread_create(&made[at], NULL, common_body, &left[at]);
    for (size_t at = 0; at < THREADS; at++) pthread_join(made[at], NULL), sum += left[at];
    static sidecore_result results[64];
    HOLDS(sum <= RESULTS && complete(common, results, sum) == sum);
    sidecore_queue_close(common);
}

/* Submits while services end and start, until its input ends. Each submission has exactly one result. */
static void restarts(void) {
    sidecore_key *key = NULL;
    IS(SIDECORE_OK, sidecore_key_load_file(service, "p256.pem", &key));
    sidecore_queue *queue = NULL;
    static sidecore_result results[RESULTS];
    static unsigned char seen[1 << 22];
    uint64_t submitted = 0, done = 0, good = 0, gone = 0, queues = 0;
    struct pollfd polled[2] = {{.fd = 0, .events = POLLIN}};
    int ending = 0;
    printf("begun\n");
    fflush(stdout);
    while (!ending || done < submitted) {
        size_t count = 0;
        int status = SIDECORE_OK;
        if (!queue) {
            if (sidecore_queue_open(service, RESULTS, &queue) != SIDECORE_OK) {
                usleep(5000);
                poll(polled, 1, 0);
                ending |= polled[0].revents != 0;
                continue;
            }
            queues++;
        }
        while (!ending && submitted < sizeof seen) {
            status = sidecore_queue_submit_sign(queue, key, 0x0403, MESSAGE, sizeof MESSAGE, submitted);
            if (status != SIDECORE_OK) break;
            submitted++;
        }
        HOLDS(status == SIDECORE_OK || status == SIDECORE_FULL || status == SIDECORE_ABSENT);
        status = sidecore_queue_complete(queue, results, RESULTS, &count);
        for (size_t at = 0; at < count; at++) {
            HOLDS(results[at].tag < submitted && seen[results[at].tag]++ == 0);
            HOLDS(results[at].status == SIDECORE_OK || results[at].status == SIDECORE_ABSENT);
            good += results[at].status == SIDECORE_OK;
            done++;
        }
        if (status != SIDECORE_OK) {
            HOLDS(status == SIDECORE_ABSENT && strstr(sidecore_error_text(), "open another queue"));
            HOLDS(done == submitted);
            gone++;
            sidecore_queue_close(queue);
            queue = NULL;
            continue;
        }
        polled[1] = (struct pollfd){.fd = sidecore_queue_fd(queue), .events = POLLIN};
        if (count < RESULTS && done < submitted) HOLDS(poll(polled, 2, 20000) > 0);
        else poll(polled, 1, 0);
        ending |= polled[0].revents != 0;
    }
    HOLDS(done == submitted && good > 0);
    printf("queues %llu, ended %llu\n", (unsigned long long)queues, (unsigned long long)gone);
    sidecore_queue_close(queue);
    sidecore_key_free(key);
}

/* For each line of input: the status of a signature by a call and of one in a queue that stays open. */
static void steps(const char *name) {
    sidecore_key *key = loaded(name);
    sidecore_queue *queue;
    static sidecore_result results[1];
    char line[64];
    uint16_t scheme = scheme_of(key);
    uint8_t out[SIDECORE_MAX_SIGNATURE];
    IS(SIDECORE_OK, sidecore_queue_open(service, 0, &queue));
    while (fgets(line, sizeof line, stdin)) {
        size_t len = sizeof out;
        int called = sidecore_sign(key, scheme, MESSAGE, sizeof MESSAGE, out, &len);
        int queued = sidecore_queue_submit_sign(queue, key, scheme, MESSAGE, sizeof MESSAGE, 5);
        if (queued == SIDECORE_OK) {
            HOLDS(complete(queue, results, 1) == 1);
            queued = results[0].status;
        }
        printf("%d %d %s\n", called, queued, queued ? sidecore_error_text() : "");
        fflush(stdout);
    }
}

static void decrypts(const char *padding, const char *file) {
    sidecore_key *key = loaded("rsa2048");
    uint8_t in[512], out[512];
    size_t len = sizeof out;
    FILE *from = fopen(file, "rb");
    size_t in_len = from ? fread(in, 1, sizeof in, from) : 0;
    IS(SIDECORE_OK, sidecore_decrypt(key, (uint32_t)atoi(padding), in, in_len, out, &len));
    printf("%.*s\n", (int)len, out);
}

int main(int count, char **arguments) {
    const char *part = count > 1 ? arguments[1] : "";
    HOLDS(sidecore_error_text()[0] == 0);
    IS(SIDECORE_OK, sidecore_open(NULL, &service));
    if (!strcmp(part, "null")) null_pointers();
    else if (!strcmp(part, "lengths")) lengths();
    else if (!strcmp(part, "full")) full();
    else if (!strcmp(part, "freed")) freed();
    else if (!strcmp(part, "forked")) forked();
    else if (!strcmp(part, "user")) another_user();
    else if (!strcmp(part, "threads")) threads();
    else if (!strcmp(part, "restarts")) restarts();
    else if (!strcmp(part, "steps") && count == 3) steps(arguments[2]);
    else if (!strcmp(part, "decrypts") && count == 4) decrypts(arguments[2], arguments[3]);
    else printf("BAD part %s\n", part), bad = 1;
    sidecore_close(service);
    printf("end\n");
    return bad;
}
