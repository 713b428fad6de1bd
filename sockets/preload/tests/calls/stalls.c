// What a program meets whose peer or service stands still: `stalls edges|held|calls|errors|signals|low|queue|inherited`.
#include "connection.h"
#include <sys/resource.h>

// Makes the connection accept no more: its peer reads nothing.
static void stuff(struct connection *on) {
    fcntl(on->here, F_SETFL, O_RDWR | O_NONBLOCK);
    for (int full = 0; full < 100;) {
        char bytes[64];
        for (size_t at = 0; at < sizeof bytes; at++)
            bytes[at] = byte_at(on->said + at);
        ssize_t sent = send(on->here, bytes, sizeof bytes, MSG_NOSIGNAL);
        full = sent < 0 ? full + 1 : 0;
        on->said += sent < 0 ? 0 : sent;
        if (sent < 0)
            usleep(1000);
    }
}

// A full one whose buffers do not grow: the sender's is as large as the system permits.
static struct connection stuffed(void) {
    struct connection made = unused_connection(SOCK_CLOEXEC);
    int most = 212992, least = 65536;
    setsockopt(made.here, SOL_SOCKET, SO_SNDBUF, &most, sizeof most);
    setsockopt(made.there, SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
    warm(&made);
    stuff(&made);
    return made;
}

// The peer reads again.
static void open_up(int there) {
    int most = 1 << 20;
    setsockopt(there, SOL_SOCKET, SO_RCVBUF, &most, sizeof most);
}

// How the peer's connection ends, after what it got.
static const char *ending(int there) {
    char bytes[65536];
    open_up(there);
    struct pollfd one = {there, POLLIN, 0};
    while (poll(&one, 1, 10000) == 1) {
        ssize_t got = recv(there, bytes, sizeof bytes, 0);
        if (got <= 0)
            return got == 0 ? "in order" : strerrorname_np(errno);
    }
    return "not at all";
}

static void *reads(void *argument) {
    struct connection *on = argument;
    static char bytes[65536];
    uint64_t got = 0;
    open_up(on->there);
    for (ssize_t result; (result = recv(on->there, bytes, sizeof bytes, 0)) > 0; got += result)
        for (ssize_t at = 0; at < result; at++)
            if (bytes[at] != byte_at(got + at))
                die("a wrong byte");
    return (void *)got;
}

// Sends as an edge-triggered program does: after EAGAIN it waits for an edge.
static void edges(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    struct epoll_event wanted = {EPOLLIN | EPOLLOUT | EPOLLET, {.u64 = 7}}, got;
    int set = epoll_create1(EPOLL_CLOEXEC);
    pthread_t reader;
    void *heard;
    time_t end = time(NULL) + 6;
    long missing = 0;
    fcntl(on.here, F_SETFL, O_RDWR | O_NONBLOCK);
    epoll_ctl(set, EPOLL_CTL_ADD, on.here, &wanted);
    pthread_create(&reader, NULL, reads, &on);
    while (time(NULL) < end && !missing) {
        char bytes[64];
        for (size_t at = 0; at < sizeof bytes; at++)
            bytes[at] = byte_at(on.said + at);
        ssize_t sent = send(on.here, bytes, sizeof bytes, 0);
        if (sent > 0)
            on.said += sent;
        else if (errno != EAGAIN)
            die("send");
        else
            missing += epoll_wait(set, &got, 1, 20000) != 1;
    }
    shutdown(on.here, SHUT_WR);
    pthread_join(reader, &heard);
    tell("edges that did not come", missing);
    tell("all bytes", (uint64_t)heard == on.said);
}

// As above, once, with a ring that is held: the kernel has room all the time.
static void held(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    struct epoll_event wanted = {EPOLLIN | EPOLLOUT | EPOLLET, {.u64 = 7}}, got = {0};
    int sets[] = {epoll_create1(EPOLL_CLOEXEC), epoll_create1(EPOLL_CLOEXEC)};
    char bytes[64];
    fcntl(on.here, F_SETFL, O_RDWR | O_NONBLOCK);
    epoll_ctl(sets[0], EPOLL_CTL_ADD, on.here, &wanted);
    // One set is watched by another.
    epoll_ctl(sets[1], EPOLL_CTL_ADD, sets[0], &wanted);
    tell("the first edge", epoll_wait(sets[0], &got, 1, 1000));
    epoll_wait(sets[1], &got, 1, 0);
    tell("all so far", hear(&on, 0, on.said) == (long)on.said);
    read(0, bytes, 1);
    for (ssize_t sent = 1; sent > 0; on.said += sent > 0 ? sent : 0) {
        for (size_t at = 0; at < sizeof bytes; at++)
            bytes[at] = byte_at(on.said + at);
        sent = send(on.here, bytes, sizeof bytes, 0);
    }
    tell("the end of sends", errno == EAGAIN);
    tell("the edge", epoll_wait(sets[1], &got, 1, 20000));
    tell("of the socket", epoll_wait(sets[0], &got, 1, 0) == 1 && got.events == EPOLLOUT && got.data.u64 == 7);
    tell("a send", send(on.here, bytes, 1, 0));
}

// Calls that do not wait for a peer, each on ten connections whose peers read nothing.
static void calls(void) {
    enum { LINGER, COPY, CORK, MARK, SHUT, KINDS };
    static const char *names[] = {"a linger of zero", "copies", "corks", "a buffer", "shutdowns"};
    for (int kind = 0; kind < KINDS; kind++) {
        struct connection all[10];
        struct linger at_once = {1, 0};
        int failed = 0, yes = 1, size = 100000, resets = 0, whole = 0, copies[10];
        for (int at = 0; at < 10; at++)
            all[at] = stuffed();
        time_t begun = time(NULL);
        for (int at = 0; at < 10; at++) {
            int here = all[at].here;
            copies[at] = -1;
            failed += kind == LINGER ? setsockopt(here, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) != 0
                    : kind == COPY   ? (copies[at] = dup(here)) < 0
                    : kind == CORK   ? setsockopt(here, IPPROTO_TCP, TCP_CORK, &yes, sizeof yes) != 0
                    : kind == MARK   ? setsockopt(here, SOL_SOCKET, SO_SNDBUF, &size, sizeof size) != 0
                                     : shutdown(here, SHUT_WR) != 0;
            if (kind != SHUT)
                close(here);
        }
        // Without any wait it takes no second, and with one for each ten.
        int is_quick = time(NULL) - begun < 5;
        for (int at = 0; at < 10; at++) {
            if (kind == COPY)
                close(copies[at]);
            const char *end = kind == LINGER ? ending(all[at].there) : NULL;
            resets += end && !strcmp(end, "ECONNRESET");
            open_up(all[at].there);
            whole += !end && hear(&all[at], 0, all[at].said) == (long)all[at].said && !strcmp(ending(all[at].there), "in order");
        }
        printf("%s: failed %d, quick %d, reset %d, whole %d\n", names[kind], failed, is_quick, resets, whole);
        fflush(stdout);
    }
    // What follows the copy of a full connection follows its ring.
    struct connection on = stuffed();
    int copy = dup(on.here);
    if (copy < 0)
        die("dup");
    close(on.here);
    on.here = copy;
    fcntl(copy, F_SETFL, O_RDWR);
    pthread_t reader;
    void *heard;
    pthread_create(&reader, NULL, reads, &on);
    say(&on, 3000);
    shutdown(copy, SHUT_WR);
    pthread_join(reader, &heard);
    tell("behind its copy", (uint64_t)heard == on.said);
}

static volatile sig_atomic_t raised;

static void raises(int signal) {
    raised++;
}

static void reset(struct connection *on) {
    struct linger at_once = {1, 0};
    setsockopt(on->there, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(on->there);
    usleep(20000);
}

static void *reads_and_resets(void *argument) {
    struct connection *on = argument;
    static char bytes[65536];
    for (uint64_t got = 0, most = 1000 * (uint64_t)(on->said % 1000); got < most;) {
        ssize_t result = recv(on->there, bytes, sizeof bytes, 0);
        if (result <= 0)
            die("recv");
        got += result;
    }
    reset(on);
    return NULL;
}

// The first error of a flood whose peer breaks off at any moment.
static void floods(void) {
    int others = 0, early = 0;
    for (int round = 0; round < 200; round++) {
        struct connection on = connection(SOCK_CLOEXEC);
        char bytes[200];
        pthread_t peer;
        raised = 0;
        on.said = 7919 * round;
        pthread_create(&peer, NULL, reads_and_resets, &on);
        while (send(on.here, bytes, sizeof bytes, 0) > 0)
            ;
        others += errno != ECONNRESET;
        early += raised > 0;
        pthread_join(peer, NULL);
        close(on.here);
    }
    tell("other first errors", others);
    tell("early signals", early);
}

static void errors(void) {
    char byte = 'x';
    static char large[16384];
    signal(SIGPIPE, raises);
    floods();
    for (int way = 0; way < 5; way++) {
        struct connection on = stuffed();
        struct pollfd one = {on.here, POLLIN | POLLOUT, 0};
        int error = 0;
        socklen_t len = sizeof error;
        raised = 0;
        // Four large sends in a row leave a ring.
        for (int number = 0; way == 4 && number < 3; number++)
            tell("a large send without room", send(on.here, large, sizeof large, 0));
        reset(&on);
        if (way == 4) {
            tell("a large send after a reset", send(on.here, large, sizeof large, 0));
            tell("signals", raised);
        }
        if (way == 3) {
            poll(&one, 1, 5000);
            tell("poll after a reset", one.revents);
        }
        if (way == 2) {
            getsockopt(on.here, SOL_SOCKET, SO_ERROR, &error, &len);
            tell("SO_ERROR", error);
        }
        if (way == 1)
            tell("a receive first", recv(on.here, &byte, 1, 0));
        for (int send_number = 0; send_number < 3; send_number++) {
            tell("a send after a reset", send(on.here, &byte, 1, 0));
            tell("signals", raised);
        }
        tell("a receive", recv(on.here, &byte, 1, 0));
        close(on.here);
    }
    struct connection on = stuffed();
    struct pollfd one = {on.here, POLLIN | POLLOUT, 0};
    tell("shut in both directions", shutdown(on.here, SHUT_RDWR));
    tell("a receive", recv(on.here, &byte, 1, 0));
    raised = 0;
    tell("a send", send(on.here, &byte, 1, 0));
    tell("signals", raised);
    struct linger found = {7, 7};
    socklen_t len = sizeof found;
    getsockopt(on.here, SOL_SOCKET, SO_LINGER, &found, &len);
    printf("its linger: %d %d\n", found.l_onoff, found.l_linger);
    close(on.here);
    open_up(on.there);
    tell("all of it", hear(&on, 0, on.said) == (long)on.said);
    puts(ending(on.there));
}

static pthread_t main_thread;
static struct connection signalled;

static void *signals_then_reads(void *signal) {
    for (int at = 0; at < 20; at++) {
        usleep(20000);
        pthread_kill(main_thread, (int)(intptr_t)signal);
    }
    return reads(&signalled);
}

// A blocked send, and signals whose handlers restart calls or end them.
static void signals(void) {
    struct sigaction restarting = {.sa_handler = raises, .sa_flags = SA_RESTART}, ending_one = {.sa_handler = raises};
    main_thread = pthread_self();
    sigaction(SIGUSR1, &restarting, NULL);
    for (int kinds = 1; kinds <= 2; kinds++) {
        if (kinds == 2)
            sigaction(SIGUSR2, &ending_one, NULL);
        for (int signal = SIGUSR1; signal <= (kinds == 1 ? SIGUSR1 : SIGUSR2); signal += SIGUSR2 - SIGUSR1) {
            char bytes[64];
            pthread_t other;
            signalled = stuffed();
            fcntl(signalled.here, F_SETFL, O_RDWR);
            for (size_t at = 0; at < sizeof bytes; at++)
                bytes[at] = byte_at(signalled.said + at);
            pthread_create(&other, NULL, signals_then_reads, (void *)(intptr_t)signal);
            ssize_t sent = send(signalled.here, bytes, sizeof bytes, 0);
            int is_whole = sent == sizeof bytes, is_ended = sent < (ssize_t)sizeof bytes;
            printf("kinds %d, signal %d: whole %d, ended %d\n", kinds, signal == SIGUSR2, is_whole, is_ended);
            fflush(stdout);
            close(signalled.here);
            pthread_join(other, NULL);
            close(signalled.there);
        }
    }
}

static uint64_t received(int there) {
    // Of Linux's `struct tcp_info`, which is longer than the C library's.
    uint64_t info[32] = {0};
    socklen_t len = sizeof info;
    getsockopt(there, IPPROTO_TCP, TCP_INFO, info, &len);
    return info[16];
}

// What was sent and not received is in the queue.
static void queue(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    pthread_t reader;
    long missed = 0;
    void *heard;
    pthread_create(&reader, NULL, reads, &on);
    for (int round = 0; round < 50000; round++) {
        int queued = 0;
        for (int message = 0; message < 8; message++)
            say(&on, 64 + round % 200);
        ioctl(on.here, SIOCOUTQ, &queued);
        missed += queued + received(on.there) < on.said;
    }
    shutdown(on.here, SHUT_WR);
    pthread_join(reader, &heard);
    tell("bytes in no count", missed);
    tell("all of them", (uint64_t)heard == on.said);
}

// A server whose listener was prepared by another program.
static void inherited(char **arguments) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    struct linger at_once = {1, 0};
    if (!getenv("LISTENER")) {
        int listener = socket(AF_INET, SOCK_STREAM, 0);
        char number[12];
        setsockopt(listener, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        if (bind(listener, (void *)&address, len) || listen(listener, 4))
            die("listen");
        sprintf(number, "%d", listener);
        setenv("LISTENER", number, 1);
        execv("/proc/self/exe", arguments);
        die("exec");
    }
    int listener = atoi(getenv("LISTENER"));
    getsockname(listener, (void *)&address, &len);
    attach();
    struct connection on = {-1, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), 0};
    connect(on.there, (void *)&address, len);
    on.here = accept(listener, NULL, NULL);
    stuff(&on);
    close(on.here);
    puts(ending(on.there));
}

// The number of the next file, under a low limit.
static void low(void) {
    struct rlimit limit = {200, 200};
    setrlimit(RLIMIT_NOFILE, &limit);
    struct connection on = connection(SOCK_CLOEXEC);
    tell("a number", open("/dev/null", O_RDONLY));
    hear_all("all", &on);
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {{"edges", edges}, {"held", held}, {"calls", calls}, {"errors", errors}, {"signals", signals}, {"low", low}, {"queue", queue}};
    for (size_t at = 0; count > 1 && at < sizeof all / sizeof *all; at++)
        if (!strcmp(arguments[1], all[at].name))
            return all[at].run(), 0;
    if (count < 2 || strcmp(arguments[1], "inherited"))
        die("no such part to play");
    inherited(arguments);
    return 0;
}
