/* A program with asynchronous jobs: CASE FILE. After each step it looks at the descriptors in the job's wait context: when
   a job ends, a descriptor that no pause has shown is one too many. In most cases the service gives this program one lane. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <openssl/async.h>
#include <openssl/err.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include "keyfile.h"

enum { FEW = 4, TRIES = 1000, ABANDONED = 100, TOO_MANY = 1024, HOLD_MS = 60000 };

struct job {
    ASYNC_JOB *running;
    ASYNC_WAIT_CTX *context;
    OSSL_ASYNC_FD shown[FEW];
    size_t count;
    int state, result;
};

static EVP_PKEY *key;
static int blocked, filler[1 << 16], filled;
static char error[1024];

static int sign(void) {
    unsigned char signature[1024];
    size_t len = sizeof signature;
    int done = sign_given(key, signature, &len);
    const char *details = "";
    ERR_peek_last_error_all(NULL, NULL, NULL, &details, NULL);
    snprintf(error, sizeof error, "%s", done ? "" : details);
    ERR_clear_error();
    return done;
}

static int in_job(void *argument) {
    (void)argument;
    if (!blocked)
        return sign();
    ASYNC_block_pause();
    int done = sign();
    ASYNC_unblock_pause();
    return done;
}

static struct job new_job(void) {
    struct job job = {NULL, ASYNC_WAIT_CTX_new(), {0}, 0, 0, 0};
    return job;
}

static int is_shown(const struct job *job, OSSL_ASYNC_FD fd) {
    for (size_t at = 0; at < job->count; at++)
        if (job->shown[at] == fd)
            return 1;
    return 0;
}

/* Starts or resumes the job; ends the program when it is left with a descriptor that no pause has shown. */
static int step(struct job *job) {
    OSSL_ASYNC_FD now[FEW];
    size_t count = FEW;
    job->state = ASYNC_start_job(&job->running, job->context, &job->result, in_job, NULL, 0);
    if (!ASYNC_WAIT_CTX_get_all_fds(job->context, NULL, &count) || count > FEW ||
        !ASYNC_WAIT_CTX_get_all_fds(job->context, now, &count)) {
        puts("too many descriptors");
        _exit(1);
    }
    for (size_t at = 0; at < count; at++) {
        if (job->state == ASYNC_PAUSE && job->count < FEW && !is_shown(job, now[at]))
            job->shown[job->count++] = now[at];
        if (job->state == ASYNC_FINISH && !is_shown(job, now[at])) {
            printf("a job that ended left descriptor %d, which no pause has shown: %s\n", now[at], error);
            _exit(1);
        }
    }
    return job->state;
}

static int finish(struct job *job) {
    while (job->state == ASYNC_PAUSE) {
        struct pollfd waits = {job->shown[job->count - 1], POLLIN, 0};
        if (poll(&waits, 1, HOLD_MS) < 1)
            return 0;
        step(job);
    }
    return job->state == ASYNC_FINISH && job->result == 1;
}

/* A job that is paused and has the only lane; one in a while gets its answer before it pauses. */
static struct job paused(void) {
    struct job job = new_job();
    for (int tried = 0; tried < TRIES && step(&job) != ASYNC_PAUSE; tried++) {
    }
    return job;
}

static void limit_files(rlim_t files) {
    struct rlimit limit = {files, files};
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Takes all numbers below `end`. */
static void fill(int end) {
    for (int fd; (fd = open("/dev/null", O_RDONLY)) >= 0; filler[filled++] = fd)
        if (fd >= end) {
            close(fd);
            break;
        }
}

static void empty(void) {
    while (filled)
        close(filler[--filled]);
}

static int files(void) {
    DIR *open = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(open))
        count++;
    closedir(open);
    return count;
}

/* Jobs in one context, one after the other: what the first pause showed stays. */
static int one_after_another(void) {
    struct job job = new_job();
    int done = 1;
    for (int round = 0; done && round < 50; round++) {
        step(&job);
        done = finish(&job);
    }
    return done && job.count <= 1;
}

static int fails(void) {
    struct job job = new_job();
    step(&job);
    return !finish(&job) && job.state == ASYNC_FINISH;
}

static int may_not_pause(void) {
    struct job job = new_job();
    blocked = 1;
    return step(&job) == ASYNC_FINISH && job.result == 1;
}

static int has_no(int files, int end) {
    limit_files(files);
    fill(end);
    struct job job = new_job();
    int done = step(&job) == ASYNC_FINISH && job.result == 1;
    empty();
    return done;
}

/* A program that has room for its own connections only: a job pauses with a number below one of them, or not at all. */
static int has_a_connection(void) {
    limit_files(8192);
    fill(300);
    struct job job = new_job(), next = new_job();
    int blocks = step(&job) == ASYNC_FINISH && job.result == 1;
    int connection = socket(AF_INET, SOCK_STREAM, 0);
    dup2(connection, 320);
    close(connection);
    int pauses = 0;
    for (int tried = 0; !pauses && tried < TRIES && step(&next) != ASYNC_ERR; tried++)
        pauses = next.state == ASYNC_PAUSE && next.shown[0] >= 300 && next.shown[0] < 320;
    empty();
    return blocks && pauses && finish(&next);
}

/* The only lane is this thread's own, in a job that it has paused: a second operation that cannot pause must not wait. */
static int second(int (*with)(void)) {
    struct job first = paused();
    int refused = first.state == ASYNC_PAUSE && with();
    if (!refused)
        printf("%s\n", error);
    int held = refused && strstr(error, "raise the limit");
    return held && finish(&first);
}

static int second_may_not_pause(void) {
    struct job job = new_job();
    blocked = 1;
    int refused = step(&job) == ASYNC_FINISH && job.result != 1;
    blocked = 0;
    return refused;
}

static int second_has_no_files(void) {
    struct job job = new_job();
    fill(512);
    int refused = step(&job) == ASYNC_FINISH && job.result != 1;
    empty();
    return refused;
}

static int second_is_no_job(void) { return !sign(); }

/* Some programs wait by `select`, which takes no higher numbers. */
static int second_has_high_numbers(void) {
    struct job job = new_job();
    fill(1024);
    int refused = step(&job) == ASYNC_FINISH && job.result != 1;
    empty();
    return refused;
}

/* Clients that leave: their jobs are never resumed, and their contexts are freed. */
static int leave(int count, int wait_first) {
    for (int left = 0; left < count; left++) {
        struct job job = paused();
        struct pollfd waits = {job.shown[0], POLLIN, 0};
        if (job.state != ASYNC_PAUSE || (wait_first && poll(&waits, 1, HOLD_MS) < 1))
            return 0;
        ASYNC_WAIT_CTX_free(job.context);
    }
    return 1;
}

/* OpenSSL keeps the memory of each job that is left. */
static int abandons_too_many(void) {
    int left = leave(TOO_MANY, 1);
    struct job last = new_job();
    return left && step(&last) == ASYNC_FINISH && last.result == 1;
}

static int abandons(int wait_first) {
    int before = files();
    if (!leave(ABANDONED, wait_first))
        return 0;
    struct job last = new_job();
    step(&last);
    int done = finish(&last);
    ASYNC_WAIT_CTX_free(last.context);
    /* One lane may be there or not. */
    return done && files() <= before + 4;
}

int main(int count, char **arguments) {
    const char *is = count == 3 ? arguments[1] : "";
    key = count == 3 ? load(arguments[2]) : NULL;
    if (!key) {
        ERR_print_errors_fp(stderr);
        return 2;
    }
    if (strcmp(is, "fails"))
        sign();
    if (!strncmp(is, "second", 6))
        limit_files(strstr(is, "high") ? 8192 : 512);
    int held = !strcmp(is, "one-after-another")      ? one_after_another()
               : !strcmp(is, "fails")                ? fails()
               : !strcmp(is, "may-not-pause")        ? may_not_pause()
               : !strcmp(is, "has-no-files")         ? has_no(256, 256)
               : !strcmp(is, "has-a-connection")     ? has_a_connection()
               : !strcmp(is, "has-high-numbers")     ? has_no(8192, 1024)
               : !strcmp(is, "second-may-not-pause") ? second(second_may_not_pause)
               : !strcmp(is, "second-has-no-files")  ? second(second_has_no_files)
               : !strcmp(is, "second-is-no-job")     ? second(second_is_no_job)
               : !strcmp(is, "second-has-high-numbers") ? second(second_has_high_numbers)
               : !strcmp(is, "abandons-too-many")    ? abandons_too_many()
               : !strcmp(is, "abandons-at-once")     ? abandons(0)
               : !strcmp(is, "abandons-later")       ? abandons(1)
                                                     : 0;
    printf("%s %s\n", held ? "held" : "not held:", held ? "" : error);
    return 0;
}
