// Connections used in all ways simultaneously, while services start and end. A peer must receive a prefix of the sent bytes,
// and all of them before a clean end. `torture SECONDS SEED`
#include "connection.h"

#define WORKERS 6
#define KINDS 12

static time_t until;
static unsigned first_seed;
static volatile long ended[2], messages;

struct worker {
    pthread_t thread;
    unsigned seed;
};

// Sends the next bytes of this length in one of many ways; the next call repeats those that were not accepted.
static void operate(struct connection *on, unsigned *seed) {
    char bytes[8192];
    int value = 1;
    size_t len = rand_r(seed) % 1000 ? 1 + rand_r(seed) % 200 : 1 + rand_r(seed) % sizeof bytes, half = len / 2;
    struct connection next = *on;
    struct tcp_info info;
    socklen_t info_len = sizeof info;
    struct iovec pieces[2] = {{bytes, half}, {bytes + half, len - half}};
    struct msghdr header = {.msg_iov = pieces, .msg_iovlen = 2};
    ssize_t sent = 0;
    fill(&next, bytes, len);
    switch (rand_r(seed) % 4000) {
    case 0: getsockopt(on->here, IPPROTO_TCP, TCP_INFO, &info, &info_len); break;
    case 1: ioctl(on->here, SIOCOUTQ, &value); break;
    case 2: setsockopt(on->here, SOL_SOCKET, SO_PRIORITY, &value, sizeof value); break;
    case 3: dup2(on->here, on->here + 100); close(on->here + 100); break;
    }
    if (rand_r(seed) % 400 == 0)
        usleep(rand_r(seed) % 3000);
    switch (rand_r(seed) % KINDS) {
    case 0: sent = write(on->here, bytes, len); break;
    case 1: sent = writev(on->here, pieces, 2); break;
    case 2: sent = sendmsg(on->here, &header, MSG_NOSIGNAL); break;
    case 3: sent = send(on->here, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL); break;
    case 4: sent = send(on->here, bytes, len, MSG_MORE | MSG_NOSIGNAL); break;
    default: sent = send(on->here, bytes, len, MSG_NOSIGNAL);
    }
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        die("send");
    on->said += sent > 0 ? sent : 0;
    messages++;
}

// The peer, until the end. Returns one more than the received bytes, or 0 after a reset.
static void *hears(void *argument) {
    struct connection *on = argument;
    char bytes[16384];
    unsigned seed = on->there;
    int is_slow = on->is_slow;
    uint64_t heard = 0;
    ssize_t got;
    while ((got = recv(on->there, bytes, 1 + rand_r(&seed) % sizeof bytes, 0)) > 0) {
        for (ssize_t at = 0; at < got; at++, heard++)
            if (bytes[at] != byte_at(heard))
                die("a byte is wrong");
        if (is_slow ? heard % 4 == 0 : rand_r(&seed) % 200 == 0)
            usleep(rand_r(&seed) % 20000);
    }
    if (got < 0 && errno != ECONNRESET)
        die("recv");
    return (void *)(got == 0 ? heard + 1 : 0);
}

// A child that has the connection sends the rest, and ends.
static uint64_t by_a_child(struct connection *on, unsigned *seed) {
    int said[2], status;
    pipe(said);
    pid_t child = fork();
    if (child == 0) {
        for (int count = rand_r(seed) % 300; count > 0; count--)
            operate(on, seed);
        write(said[1], &on->said, sizeof on->said);
        _exit(0);
    }
    read(said[0], &on->said, sizeof on->said);
    close(said[0]);
    close(said[1]);
    waitpid(child, &status, 0);
    if (status)
        die("a child");
    return on->said;
}

static void *works(void *argument) {
    struct worker *worker = argument;
    unsigned *seed = &worker->seed;
    while (time(NULL) < until) {
        struct connection on = unused_connection(SOCK_CLOEXEC);
        on.is_slow = rand_r(seed) % 8 == 0;
        if (on.is_slow)
            setsockopt(on.there, SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int));
        pthread_t hearer;
        void *heard;
        pthread_create(&hearer, NULL, hears, &on);
        for (int count = rand_r(seed) % (on.is_slow ? 3000 : 20000); count > 0 && time(NULL) < until; count--)
            operate(&on, seed);
        int how = rand_r(seed) % 4;
        if (how == 0)
            by_a_child(&on, seed);
        if (how == 1 && shutdown(on.here, SHUT_WR))
            die("shutdown");
        if (how == 2) {
            int other = dup(on.here);
            close(on.here);
            on.here = other;
            operate(&on, seed);
        }
        uint64_t said = on.said;
        close(on.here);
        pthread_join(hearer, &heard);
        if (heard && (uint64_t)heard - 1 != said)
            die("a clean end after less than was sent");
        ended[heard != NULL]++;
        close(on.there);
    }
    return NULL;
}

int main(int count, char **arguments) {
    struct worker workers[WORKERS];
    signal(SIGPIPE, SIG_IGN);
    until = time(NULL) + (count > 1 ? atoi(arguments[1]) : 1);
    first_seed = count > 2 ? atoi(arguments[2]) : 1;
    for (int at = 0; at < WORKERS; at++) {
        workers[at].seed = first_seed * 1000 + at;
        pthread_create(&workers[at].thread, NULL, works, &workers[at]);
    }
    for (int at = 0; at < WORKERS; at++)
        pthread_join(workers[at].thread, NULL);
    printf("%ld messages, %ld clean ends, %ld resets\n", messages, ended[1], ended[0]);
    return 0;
}
