/* Signs each line of standard input with a stored key, many at the same time under poll(), and writes the signatures in
 * hexadecimal, in the order of the lines.
 *
 *     cc queue.c -lsidecore -o queue && ./queue www <lines
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sidecore.h>

enum { LINES = 4096, RESULTS = 16 };

static char *signatures[LINES];

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, sidecore_error_text());
    return 1;
}

static char *hex(const uint8_t *bytes, size_t len) {
    char *text = malloc(2 * len + 1);
    for (size_t at = 0; text && at < len; at++) sprintf(text + 2 * at, "%02x", bytes[at]);
    return text;
}

/* Takes all results that are ready, so that the descriptor tells of the next one. */
static int take(sidecore_queue *queue, size_t *done) {
    static sidecore_result results[RESULTS];
    size_t count;
    do {
        if (sidecore_queue_complete(queue, results, RESULTS, &count)) return failed("complete");
        for (size_t at = 0; at < count; at++) {
            if (results[at].status) return failed("sign");
            signatures[results[at].tag] = hex(results[at].signature, results[at].signature_len);
        }
        *done += count;
    } while (count == RESULTS);
    return 0;
}

static int wait_for_results(sidecore_queue *queue) {
    struct pollfd one = {.fd = sidecore_queue_fd(queue), .events = POLLIN};
    if (poll(&one, 1, 10000) == 0) {
        fprintf(stderr, "no signature within 10 s\n");
        return 1;
    }
    return 0;
}

static int run(sidecore_queue *queue, const sidecore_key *key, uint16_t scheme) {
    static char line[4096];
    size_t lines = 0, done = 0;
    while (lines < LINES && fgets(line, sizeof line, stdin)) {
        int status;
        while ((status = sidecore_queue_submit_sign(queue, key, scheme, (uint8_t *)line, strcspn(line, "\n"), lines)) ==
               SIDECORE_FULL)
            if (wait_for_results(queue) || take(queue, &done)) return 1;
        if (status) return failed("submit");
        lines++;
    }
    while (take(queue, &done) == 0) {
        if (done == lines) {
            for (size_t at = 0; at < lines; at++) puts(signatures[at] ? signatures[at] : "");
            return 0;
        }
        if (wait_for_results(queue)) return 1;
    }
    return 1;
}

int main(int count, char **arguments) {
    sidecore *service;
    sidecore_key *key;
    sidecore_queue *queue;
    uint16_t schemes[8];
    size_t known = 8;
    if (count != 2) {
        fprintf(stderr, "usage: queue KEY <LINES\n");
        return 2;
    }
    if (sidecore_open(NULL, &service)) return failed("open");
    if (sidecore_key_load(service, arguments[1], &key)) return failed(arguments[1]);
    if (sidecore_key_schemes(key, schemes, &known)) return failed(arguments[1]);
    if (known == 0) {
        fprintf(stderr, "%s may not sign\n", arguments[1]);
        return 1;
    }
    if (sidecore_queue_open(service, 8, &queue)) return failed("queue");
    int code = run(queue, key, schemes[0]);
    sidecore_queue_close(queue);
    sidecore_key_free(key);
    sidecore_close(service);
    return code;
}
