/* Signs each line of standard input with a stored key, many at the same time under poll(), and writes the signatures in
 * hexadecimal, in the order of the lines.
 *
 *     cc queue.c -lsidecore -o queue && ./queue www <lines
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sidecore.h>

enum { LINES = 4096, RESULTS = 16, QUEUES = 3 };

static char *lines[LINES], *signatures[LINES];

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
        int status = sidecore_queue_complete(queue, results, RESULTS, &count);
        if (status) return status;
        for (size_t at = 0; at < count; at++) {
            if (results[at].status) return results[at].status;
            signatures[results[at].tag] = hex(results[at].signature, results[at].signature_len);
        }
        *done += count;
    } while (count == RESULTS);
    return 0;
}

static int wait_for_results(sidecore_queue *queue, size_t *done) {
    struct pollfd one = {.fd = sidecore_queue_fd(queue), .events = POLLIN};
    if (poll(&one, 1, 10000) == 0) {
        fprintf(stderr, "no signature within 10 s\n");
        exit(1);
    }
    return take(queue, done);
}

/* Signs the lines that have no signature yet. */
static int sign(sidecore_queue *queue, const sidecore_key *key, uint16_t scheme, size_t count) {
    size_t asked = 0, done = 0;
    int status = 0;
    for (size_t at = 0; at < count && !status; at++) {
        if (signatures[at]) continue;
        while ((status = sidecore_queue_submit_sign(queue, key, scheme, (uint8_t *)lines[at], strlen(lines[at]), at)) ==
               SIDECORE_FULL)
            if ((status = wait_for_results(queue, &done))) return status;
        asked++;
    }
    while (!status && done < asked) status = wait_for_results(queue, &done);
    return status;
}

/* A queue ends with its service. What it did not answer is asked of the next one. */
static int sign_all(sidecore *service, const sidecore_key *key, uint16_t scheme, size_t count) {
    for (int queues = 0;; queues++) {
        sidecore_queue *queue;
        int status = sidecore_queue_open(service, 8, &queue);
        if (!status) {
            status = sign(queue, key, scheme, count);
            sidecore_queue_close(queue);
        }
        if (status != SIDECORE_ABSENT || queues == QUEUES) return status;
    }
}

static size_t read_lines(void) {
    static char line[4096];
    size_t count = 0;
    while (count < LINES && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!(lines[count] = strdup(line))) exit(1);
        count++;
    }
    return count;
}

int main(int count, char **arguments) {
    sidecore *service;
    sidecore_key *key;
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
    size_t all = read_lines();
    if (sign_all(service, key, schemes[0], all)) return failed("sign");
    for (size_t at = 0; at < all; at++) puts(signatures[at] ? signatures[at] : "");
    sidecore_key_free(key);
    sidecore_close(service);
    return 0;
}
