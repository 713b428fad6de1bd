// Datagrams on connected UDP sockets: whole, in order, to the right peer, and with the kernel's errors.
#include "connection.h"

#define MAX_BYTES 66000
#define IN_FLIGHT 50

#ifndef UDP_CORK
#define UDP_CORK 1
#endif

struct flow {
    int here, there;
    // Datagrams that were sent, and that were heard of these.
    uint32_t said, heard;
};

static int bound(struct sockaddr_in *address) {
    int made = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), bytes = 8 << 20;
    socklen_t len = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    setsockopt(made, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
    if (bind(made, (void *)address, len) || getsockname(made, (void *)address, &len))
        die("bind");
    return made;
}

static void join(struct flow *on) {
    struct sockaddr_in address;
    on->there = bound(&address);
    if (connect(on->here, (void *)&address, sizeof address))
        die("connect");
}

static size_t size_of(uint32_t number) {
    return number % 7 == 0 ? number % 1473 : number % 5 == 0 ? 0 : 64;
}

// Content of the datagram with this number.
static void compose(uint32_t number, char *bytes, size_t len) {
    for (size_t at = 0; at < len; at++)
        bytes[at] = (number + at / 3) % 251;
}

static void say_one(struct flow *on, size_t len) {
    static char bytes[MAX_BYTES];
    compose(on->said, bytes, len);
    if (send(on->here, bytes, len, 0) != (ssize_t)len)
        die("send");
    on->said++;
}

static void say_some(struct flow *on, int count) {
    for (int at = 0; at < count; at++)
        say_one(on, 64);
}

// Whether the next datagram has the next number and this length.
static int hear_one(struct flow *on, size_t len) {
    static char bytes[MAX_BYTES], expected[MAX_BYTES];
    struct pollfd one = {on->there, POLLIN, 0};
    if (poll(&one, 1, 5000) != 1)
        return 0;
    ssize_t got = recv(on->there, bytes, sizeof bytes, 0);
    compose(on->heard++, expected, len);
    return got == (ssize_t)len && memcmp(bytes, expected, len) == 0;
}

static void hear_them(const char *name, struct flow *on) {
    long right = 0, all = on->said - on->heard;
    while (on->heard != on->said && hear_one(on, 64))
        right++;
    char byte;
    printf("%s: %s, then %ld\n", name, right == all ? "all" : "not all", (long)recv(on->there, &byte, 1, MSG_DONTWAIT));
    fflush(stdout);
}

// Enough datagrams for a ring.
static struct flow flow(void) {
    struct flow made = {socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), -1, 0, 0};
    join(&made);
    say_some(&made, 40);
    while (made.heard != made.said && hear_one(&made, 64)) {
    }
    say_some(&made, 10);
    return made;
}

static void part(struct flow *on) {
    close(on->here);
    close(on->there);
}

static void all_sizes(void) {
    struct flow on = flow();
    char bytes[1500];
    long right = 0, sent = 0;
    hear_them("before", &on);
    for (uint32_t round = 0; round < 400; round++) {
        uint32_t first = on.said;
        for (int at = 0; at < IN_FLIGHT; at++) {
            size_t len = size_of(on.said), half = len / 2;
            struct iovec pieces[2] = {{bytes, half}, {bytes + half, len - half}};
            struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
            compose(on.said, bytes, len);
            // Of nothing, `write` and `writev` send nothing.
            switch (len ? on.said++ % 6 : (on.said++, 0)) {
            case 0: sent += send(on.here, bytes, len, MSG_NOSIGNAL) == (ssize_t)len; break;
            case 1: sent += write(on.here, bytes, len) == (ssize_t)len; break;
            case 2: sent += writev(on.here, pieces, 2) == (ssize_t)len; break;
            case 3: sent += sendmsg(on.here, &message, MSG_DONTWAIT) == (ssize_t)len; break;
            case 4: sent += sendto(on.here, bytes, len, MSG_CONFIRM, NULL, 0) == (ssize_t)len; break;
            case 5: sent += syscall(SYS_sendto, on.here, bytes, len, 0, NULL, 0) == (ssize_t)len; break;
            }
        }
        for (uint32_t number = first; number != on.said; number++)
            right += hear_one(&on, size_of(number));
    }
    tell("sent of all sizes", sent);
    tell("heard of all sizes", right);
    part(&on);
}

static void many_at_once(void) {
    struct flow on = flow();
    static char bytes[IN_FLIGHT][64];
    long sent = 0, right = 0;
    hear_them("before", &on);
    for (int round = 0; round < 200; round++) {
        struct mmsghdr messages[IN_FLIGHT] = {0};
        struct iovec pieces[IN_FLIGHT];
        for (int at = 0; at < IN_FLIGHT; at++) {
            compose(on.said++, bytes[at], 64);
            pieces[at] = (struct iovec){bytes[at], 64};
            messages[at].msg_hdr = (struct msghdr){.msg_iov = &pieces[at], .msg_iovlen = 1};
        }
        sent += sendmmsg(on.here, messages, IN_FLIGHT, 0);
        for (int at = 0; at < IN_FLIGHT; at++)
            right += messages[at].msg_len == 64 && hear_one(&on, 64);
    }
    tell("sent by sendmmsg", sent);
    tell("heard by sendmmsg", right);
    tell("none by sendmmsg", sendmmsg(on.here, NULL, 0, 0));
    part(&on);
}

static void large(void) {
    size_t sizes[] = {8000, 8193, 9000, 20000, 65507};
    struct flow on = flow();
    static char bytes[MAX_BYTES];
    long right = 0;
    hear_them("before", &on);
    for (int round = 0; round < 50; round++)
        for (int at = 0; at < 5; at++) {
            say_one(&on, 64);
            say_one(&on, sizes[at]);
            say_one(&on, 64);
            right += hear_one(&on, 64) && hear_one(&on, sizes[at]) && hear_one(&on, 64);
        }
    tell("large ones in order", right);
    tell("too large", send(on.here, bytes, 65508, 0));
    say_some(&on, 20);
    hear_them("after one that was too large", &on);
    part(&on);
}

static void to_another(void) {
    struct flow on = flow();
    struct sockaddr_in nowhere = {.sin_family = AF_UNSPEC}, own, from;
    socklen_t len = sizeof own;
    getsockname(on.here, (void *)&own, &len);
    int first = on.there;
    for (int round = 0; round < 5; round++) {
        struct flow before = on;
        say_some(&before, 20);
        join(&on);
        on.said = on.heard = 0;
        say_some(&on, 20);
        hear_them("the peer before", &before);
        len = sizeof from;
        tell("comes", recvfrom(on.there, NULL, 0, MSG_PEEK, (void *)&from, &len));
        tell("from where it is sent", from.sin_port == own.sin_port);
        hear_them("the peer after", &on);
        close(before.there);
    }
    say_some(&on, 20);
    tell("connected to nobody", connect(on.here, (void *)&nowhere, sizeof nowhere));
    tell("sent to nobody", send(on.here, "x", 1, 0));
    hear_them("before it was connected to nobody", &on);
    part(&on);
}

// Sends until an error is reported; the number of datagrams before it varies.
static void refused(void) {
    struct flow on = flow();
    hear_them("before", &on);
    close(on.there);
    long result = 0;
    for (int round = 0; round < 5000 && result != -1; round++) {
        result = send(on.here, "x", 1, 0);
        if (round > 100)
            usleep(100);
    }
    tell("sent to a closed port", result == -1 ? -1 : 0);
    // What came of those that were sent meanwhile.
    int error, others = 0;
    socklen_t len = sizeof error;
    for (int round = 0; round < 20; round++, usleep(1000))
        getsockopt(on.here, SOL_SOCKET, SO_ERROR, &error, &len);
    tell("SO_ERROR is told once", error);
    join(&on);
    on.said = on.heard = 0;
    for (int round = 0; round < 100; round++) {
        say_one(&on, 64);
        others += !hear_one(&on, 64);
    }
    tell("lost after that", others);
    close(on.there);
    result = 0;
    for (int round = 0; round < 5000 && !(result == -1 && errno != EAGAIN); round++) {
        char byte;
        send(on.here, "x", 1, 0);
        result = recv(on.here, &byte, 1, MSG_DONTWAIT);
    }
    tell("received from a closed port", result);
    close(on.here);
}

static void shared(void) {
    struct flow on = flow();
    for (int round = 0; round < 3; round++) {
        say_some(&on, 30);
        pid_t pid = fork();
        if (pid == 0) {
            say_some(&on, 10);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
        on.said += 10;
        say_some(&on, 30);
    }
    hear_them("forked", &on);
    int copy = dup(on.here), other = on.here;
    for (int at = 0; at < 40; at++) {
        on.here = at % 2 ? copy : other;
        say_one(&on, 64);
    }
    hear_them("copied", &on);
    close(copy);
    on.here = other;
    part(&on);
}

static void ended(void) {
    for (int round = 0; round < 20; round++) {
        struct flow on = flow();
        say_some(&on, 30);
        close(on.here);
        hear_them("closed at once", &on);
        close(on.there);
    }
    struct flow on = flow();
    hear_them("before", &on);
    pid_t pid = fork();
    if (pid == 0) {
        on.here = socket(AF_INET, SOCK_DGRAM, 0);
        struct sockaddr_in address;
        socklen_t len = sizeof address;
        getsockname(on.there, (void *)&address, &len);
        if (connect(on.here, (void *)&address, len))
            die("connect");
        say_some(&on, 200);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    on.said += 200;
    hear_them("exited at once", &on);
    part(&on);

    on = flow();
    tell("shut", shutdown(on.here, SHUT_WR));
    tell("sent after it was shut", send(on.here, "x", 1, 0));
    hear_them("before it was shut", &on);
    part(&on);
}

static void whole(const char *name, struct flow *on) {
    char bytes[200];
    struct pollfd one = {on->there, POLLIN, 0};
    tell(name, poll(&one, 1, 5000) == 1 ? recv(on->there, bytes, sizeof bytes, 0) : -7);
}

static void options(void) {
    struct flow on = flow();
    int yes = 1, no = 0, ttl = 9;
    hear_them("before", &on);
    tell("with more", send(on.here, "abc", 3, MSG_MORE));
    tell("the rest", send(on.here, "de", 2, 0));
    whole("as one", &on);
    part(&on);

    on = flow();
    hear_them("before", &on);
    say_some(&on, 20);
    tell("UDP_CORK", setsockopt(on.here, IPPROTO_UDP, UDP_CORK, &yes, sizeof yes));
    send(on.here, "abc", 3, 0);
    send(on.here, "de", 2, 0);
    tell("UDP_CORK", setsockopt(on.here, IPPROTO_UDP, UDP_CORK, &no, sizeof no));
    while (on.heard != on.said && hear_one(&on, 64)) {
    }
    whole("corked", &on);
    part(&on);

    on = flow();
    hear_them("before", &on);
    struct sockaddr_in aside;
    struct flow to = {on.here, bound(&aside), 0, 0};
    say_some(&on, 20);
    tell("to another", sendto(on.here, "abc", 3, 0, (void *)&aside, sizeof aside));
    whole("to another", &to);
    say_some(&on, 20);
    tell("IP_TTL", setsockopt(on.here, IPPROTO_IP, IP_TTL, &ttl, sizeof ttl));
    say_some(&on, 20);
    tell("SO_SNDBUF", setsockopt(on.here, SOL_SOCKET, SO_SNDBUF, &(int){100000}, sizeof(int)));
    say_some(&on, 20);
    hear_them("among others", &on);
    close(to.there);
    part(&on);
}

// On an unconnected socket: in rows to one receiver, to two in turn, and to none.
static void named(int family) {
    struct sockaddr_storage addresses[2];
    struct flow flows[2];
    socklen_t len = sizeof addresses[0];
    int here = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), bytes = 8 << 20;
    char datagram[64];
    for (int at = 0; at < 2; at++) {
        struct sockaddr_in six_or_four = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
        void *own = family == AF_INET ? (void *)&six_or_four : (void *)&six;
        flows[at] = (struct flow){here, socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), 0, 0};
        setsockopt(flows[at].there, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
        len = sizeof addresses[at];
        if (bind(flows[at].there, own, family == AF_INET ? sizeof six_or_four : sizeof six) ||
            getsockname(flows[at].there, (void *)&addresses[at], &len))
            die("bind");
    }
    long sent = 0;
    for (int round = 0; round < 3000; round++) {
        // Rows of 100, then of 3, then by turns.
        int to = round < 1000 ? round / 100 % 2 : round < 2000 ? round / 3 % 2 : round % 2;
        struct iovec piece = {datagram, sizeof datagram};
        struct msghdr message = {&addresses[to], len, &piece, 1};
        compose(flows[to].said++, datagram, sizeof datagram);
        if (round % 3)
            sent += sendto(here, datagram, sizeof datagram, 0, (void *)&addresses[to], len) == sizeof datagram;
        else
            sent += sendmsg(here, &message, 0) == sizeof datagram;
    }
    tell("named", sent);
    hear_them("the first of two", &flows[0]);
    hear_them("the second of two", &flows[1]);
    for (int round = 0; round < 60; round++) {
        compose(flows[0].said++, datagram, sizeof datagram);
        sendto(here, datagram, sizeof datagram, 0, (void *)&addresses[0], len);
    }
    tell("to nobody", send(here, "x", 1, 0));
    tell("to a wrong address", sendto(here, "x", 1, 0, (void *)&addresses[0], 3));
    for (int round = 0; round < 60; round++) {
        compose(flows[0].said++, datagram, sizeof datagram);
        sendto(here, datagram, sizeof datagram, 0, (void *)&addresses[0], len);
    }
    if (connect(here, (void *)&addresses[1], len))
        die("connect");
    say_some(&flows[1], 60);
    for (int round = 0; round < 60; round++) {
        compose(flows[0].said++, datagram, sizeof datagram);
        sendto(here, datagram, sizeof datagram, 0, (void *)&addresses[0], len);
    }
    close(here);
    hear_them("the first", &flows[0]);
    hear_them("the second, connected", &flows[1]);
    close(flows[0].there);
    close(flows[1].there);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    all_sizes();
    many_at_once();
    large();
    to_another();
    refused();
    shared();
    ended();
    options();
    named(AF_INET);
    named(AF_INET6);
    return 0;
}
