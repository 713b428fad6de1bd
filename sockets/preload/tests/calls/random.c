// Calls in random order on one connection after the other, whose peers stall, go on and break off: `random SEED SECONDS [killed]`.
// What must hold for every program with the kernel's own sockets is checked, and each breach is printed.
#include "connection.h"
#include <sys/mman.h>
#include <sys/select.h>

enum ending { CLOSED, SHUT, SHUT_BOTH, ABORTED, BROKEN_OFF };
static const char *endings[] = {"close", "shutdown", "shutdown of both", "abort", "break-off"};
enum watch { POLL, SELECT, LEVEL, EDGE, ONCE };
static const char *watches[] = {"poll", "select", "epoll", "epoll by edges", "epoll once"};

struct shared {
    uint64_t said;
};

struct round {
    struct connection on;
    struct shared *shared;
    enum watch watch;
    int set, is_blocking, pauses, breaks_off, is_deaf;
    uint64_t peer_state, got, breaks_at;
    int wrong, end;
    // The last calls, the latest last: a digit of `other_call`, or a letter for a send and its answer.
    char last[41];
};

static uint64_t seed, breaches, rounds;
static volatile sig_atomic_t pipes;
// A service that is killed as the kernel tells it the reason takes it along.
static int takes_reasons;

static uint64_t draw(uint64_t *state, uint64_t below) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % below;
}

static void note(struct round *in, char call) {
    memmove(in->last, in->last + 1, sizeof in->last - 2);
    in->last[sizeof in->last - 2] = call;
}

static void breach(struct round *in, const char *what, long detail) {
    printf("seed %lu, round %lu, %s: %s: %ld, after %s\n", seed, rounds, watches[in->watch], what, detail, in->last);
    fflush(stdout);
    breaches++;
}

static void broken_pipe(int signal) {
    pipes++;
}

static void *peer(void *argument) {
    struct round *in = argument;
    char bytes[20000];
    for (;;) {
        if (in->breaks_off && in->got >= in->breaks_at) {
            struct linger at_once = {1, 0};
            setsockopt(in->on.there, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
            close(in->on.there);
            in->on.there = -1;
            return NULL;
        }
        if (draw(&in->peer_state, 20) == 0)
            usleep(draw(&in->peer_state, in->pauses + 1));
        ssize_t result = recv(in->on.there, bytes, 1 + draw(&in->peer_state, sizeof bytes), 0);
        if (result <= 0) {
            in->end = result ? errno : 0;
            return NULL;
        }
        for (ssize_t at = 0; at < result; at++)
            in->wrong += bytes[at] != byte_at(in->got + at);
        in->got += result;
    }
}

// Waits as the program of this round does. Each of these ends when the kernel has room.
static void until_writable(struct round *in) {
    struct epoll_event wanted = {EPOLLOUT | EPOLLONESHOT}, got;
    struct pollfd one = {in->on.here, POLLOUT};
    struct timeval limit = {20};
    fd_set set;
    int ready = 0;
    FD_ZERO(&set);
    FD_SET(in->on.here, &set);
    if (in->watch == POLL)
        ready = poll(&one, 1, 20000);
    else if (in->watch == SELECT)
        ready = select(in->on.here + 1, NULL, &set, NULL, &limit);
    else {
        if (in->watch == ONCE)
            epoll_ctl(in->set, EPOLL_CTL_MOD, in->on.here, &wanted);
        ready = epoll_wait(in->set, &got, 1, 20000);
    }
    if (ready != 1)
        breach(in, "never writable again", ready);
}

// Sends the next bytes by one of the ways. Returns what the call does.
static ssize_t next(struct round *in, uint64_t *state, size_t len) {
    static char bytes[30000];
    struct iovec pieces[2] = {{bytes, len / 2}, {bytes + len / 2, len - len / 2}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    for (size_t at = 0; at < len; at++)
        bytes[at] = byte_at(in->shared->said + at);
    ssize_t sent;
    switch (draw(state, 6)) {
    case 0: sent = write(in->on.here, bytes, len); break;
    case 1: sent = writev(in->on.here, pieces, 2); break;
    case 2: sent = sendmsg(in->on.here, &message, 0); break;
    case 3: sent = send(in->on.here, bytes, len, draw(state, 2) ? MSG_DONTWAIT : MSG_MORE); break;
    default: sent = send(in->on.here, bytes, len, 0);
    }
    in->shared->said += sent > 0 ? sent : 0;
    note(in, sent < 0 ? (errno == EAGAIN ? 'e' : 'E') : sent < (ssize_t)len ? 'p' : 'a');
    return sent;
}

// The first error is the reason, without a signal; then comes the pipe, with one.
static void after_error(struct round *in, uint64_t *state, int error, int signals) {
    if (!in->breaks_off)
        breach(in, "an error for no reason", error);
    else if (takes_reasons && error == EPIPE)
        return;
    else if (error != ECONNRESET || signals)
        breach(in, "another first error", error * 100 + signals);
    else if (next(in, state, 1) != -1 || errno != EPIPE || pipes != 1)
        breach(in, "another second error", errno * 100 + pipes);
}

// A call between sends.
static void other_call(struct round *in, uint64_t *state) {
    struct tcp_info info;
    socklen_t len = sizeof info;
    int here = in->on.here, number = draw(state, 2), size = 20000 + draw(state, 100000), copy;
    char byte;
    pid_t child;
    int which = draw(state, 9);
    note(in, '0' + which);
    switch (which) {
    case 0: setsockopt(here, IPPROTO_TCP, TCP_NODELAY, &number, sizeof number); break;
    case 1: setsockopt(here, SOL_SOCKET, SO_SNDBUF, &size, sizeof size); break;
    case 2: setsockopt(here, IPPROTO_TCP, TCP_CORK, &number, sizeof number); break;
    case 3: getsockopt(here, IPPROTO_TCP, TCP_INFO, &info, &len); break;
    case 4: ioctl(here, SIOCOUTQ, &number); break;
    case 5: setsockopt(here, SOL_SOCKET, SO_PRIORITY, &number, sizeof number); break;
    case 6:
        if (in->watch == POLL || in->watch == SELECT) {
            if ((copy = dup(here)) < 0)
                return breach(in, "no copy", errno);
            close(here);
            in->on.here = copy;
        }
        break;
    case 7:
        if (recv(here, &byte, 1, MSG_DONTWAIT) != -1 || errno != EAGAIN && errno != ECONNRESET)
            if (!in->breaks_off)
                breach(in, "a receive", errno);
        // Otherwise it took the error that a send would have.
        in->is_deaf = in->breaks_off;
        break;
    default:
        if (draw(state, 4) || in->breaks_off)
            break;
        child = fork();
        if (child == 0) {
            fcntl(here, F_SETFL, O_RDWR);
            next(in, state, 30);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

static void round_of(uint64_t *state, struct shared *shared) {
    struct round in = {.on = unused_connection(SOCK_CLOEXEC), .shared = shared, .set = -1};
    struct epoll_event wanted = {EPOLLIN | EPOLLOUT | EPOLLET};
    enum ending how = draw(state, 4);
    struct linger at_once = {1, 0};
    pthread_t other;
    int is_over = 0, before;
    shared->said = 0;
    memset(in.last, '-', sizeof in.last - 1);
    in.watch = draw(state, 5);
    in.is_blocking = draw(state, 3) == 0;
    in.breaks_off = draw(state, 4) == 0;
    in.breaks_at = draw(state, 300000);
    in.pauses = draw(state, 2) ? 100 : 30000;
    in.peer_state = draw(state, UINT64_MAX) | 1;
    fcntl(in.on.here, F_SETFL, in.is_blocking ? O_RDWR : O_RDWR | O_NONBLOCK);
    if (in.watch >= LEVEL) {
        in.set = epoll_create1(EPOLL_CLOEXEC);
        wanted.events = in.watch == EDGE ? wanted.events : in.watch == LEVEL ? EPOLLOUT : EPOLLONESHOT;
        epoll_ctl(in.set, EPOLL_CTL_ADD, in.on.here, &wanted);
    }
    pipes = 0;
    pthread_create(&other, NULL, peer, &in);
    for (uint64_t steps = 200 + draw(state, 8000); steps && !is_over && !breaches; steps--) {
        if (draw(state, 300) == 0) {
            other_call(&in, state);
            continue;
        }
        before = pipes;
        size_t len = 1 + draw(state, draw(state, 50) ? 200 : 30000);
        ssize_t sent = next(&in, state, len);
        if (sent > 0 || sent == -1 && errno == EINTR)
            continue;
        if (sent == -1 && errno == EAGAIN) {
            until_writable(&in);
            continue;
        }
        if (!in.is_deaf)
            after_error(&in, state, errno, pipes - before);
        is_over = 1;
    }
    if (how == ABORTED)
        setsockopt(in.on.here, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    if (how == SHUT || how == SHUT_BOTH)
        if (shutdown(in.on.here, how == SHUT ? SHUT_WR : SHUT_RDWR) && !in.breaks_off)
            breach(&in, "no shutdown", errno);
    close(in.on.here);
    if (in.set >= 0)
        close(in.set);
    pthread_join(other, NULL);
    if (in.wrong)
        breach(&in, "wrong bytes", in.wrong);
    if (in.on.there >= 0) {
        int is_whole = in.end == 0 && in.got == shared->said;
        if (how == ABORTED ? in.end != ECONNRESET : !is_whole)
            breach(&in, endings[how], in.end ? -in.end : (long)in.got - (long)shared->said);
        close(in.on.there);
    }
}

int main(int count, char **arguments) {
    if (count < 3)
        die("seed and seconds");
    seed = strtoull(arguments[1], NULL, 10);
    takes_reasons = count > 3;
    uint64_t state = seed * 0x9E3779B97F4A7C15 + 1;
    time_t end = time(NULL) + atoi(arguments[2]);
    struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    signal(SIGPIPE, broken_pipe);
    attach();
    for (; time(NULL) < end && !breaches; rounds++)
        round_of(&state, shared);
    tell("breaches", breaches);
    fprintf(stderr, "rounds: %lu\n", rounds);
    return breaches > 0;
}
