// A TCP connection of the process to itself, after enough small messages to be in a ring.
#define _GNU_SOURCE
#include <aio.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

struct connection {
    int here, there;
    // Bytes that were sent on it by `say`.
    uint64_t said;
    // The peer takes little.
    int is_slow;
};

// Prints the result of the test with this name; with `errno` if it is -1.
static void tell(const char *name, long result) {
    int error = errno;
    if (result == -1)
        printf("%s: -1 %s\n", name, strerrorname_np(error));
    else
        printf("%s: %ld\n", name, result);
    fflush(stdout);
}

static void die(const char *what) {
    printf("cannot go on: %s: %s\n", what, strerror(errno));
    fflush(stdout);
    _exit(99);
}

static struct connection unused_connection(int flags) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (void *)&address, len) || listen(listener, 1) || getsockname(listener, (void *)&address, &len))
        die("listen");
    struct connection made = {socket(AF_INET, SOCK_STREAM | (flags & SOCK_CLOEXEC), 0), -1, 0};
    if (connect(made.here, (void *)&address, len))
        die("connect");
    made.there = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (made.there < 0)
        die("accept");
    if (flags & SOCK_NONBLOCK)
        fcntl(made.here, F_SETFL, O_RDWR | O_NONBLOCK);
    close(listener);
    return made;
}

// The byte at this position of all bytes sent on a connection.
static char byte_at(uint64_t at) {
    return 'a' + at % 23;
}

// The next bytes of those that the other side expects.
static void fill(struct connection *on, char *to, size_t len) {
    for (size_t at = 0; at < len; at++)
        to[at] = byte_at(on->said + at);
    on->said += len;
}

static void say(struct connection *on, size_t len) {
    char bytes[70000];
    fill(on, bytes, len);
    for (size_t sent = 0; sent < len;) {
        ssize_t result = send(on->here, bytes + sent, len - sent, 0);
        if (result < 0)
            die("send");
        sent += result;
    }
}

// Rows of messages, until a thread of the library has had time to attach.
static void attach(void) {
    char byte;
    struct connection on = unused_connection(SOCK_CLOEXEC);
    for (int row = 0; row < 100; row++) {
        for (int message = 0; message < 40; message++)
            if (send(on.here, "x", 1, 0) != 1)
                die("attach");
        usleep(500);
        while (recv(on.there, &byte, 1, MSG_DONTWAIT) == 1)
            ;
    }
    close(on.here);
    close(on.there);
}

// Sends enough small messages for a connection to enter a ring.
static void warm(struct connection *on) {
    static pid_t attached;
    if (attached != getpid())
        attach();
    attached = getpid();
    for (int message = 0; message < 40; message++)
        say(on, 64);
}

static struct connection connection(int flags) {
    struct connection made = unused_connection(flags);
    warm(&made);
    return made;
}

// Receives `len` bytes after the first `heard` ones. Returns the number of correct bytes.
static long hear(struct connection *on, uint64_t heard, uint64_t len) {
    char bytes[65536];
    uint64_t got = 0;
    while (got < len) {
        struct pollfd one = {on->there, POLLIN, 0};
        if (poll(&one, 1, 5000) != 1)
            break;
        ssize_t result = recv(on->there, bytes, len - got < sizeof bytes ? len - got : sizeof bytes, 0);
        if (result <= 0)
            break;
        for (ssize_t at = 0; at < result; at++)
            if (bytes[at] != byte_at(heard + got + at))
                return -100000 - (long)(heard + got + at);
        got += result;
    }
    return got;
}

// Expects all sent bytes, and then the end (within a time limit), or nothing.
static void hear_until(const char *name, struct connection *on, int is_end) {
    long got = hear(on, 0, on->said);
    char more;
    struct pollfd one = {on->there, POLLIN, 0};
    long after = poll(&one, 1, is_end ? 5000 : 20) == 1 ? recv(on->there, &more, 1, MSG_DONTWAIT) : -7;
    printf("%s: heard %s, then %ld\n", name, got == (long)on->said ? "all" : got < 0 ? "something else" : "less", after);
    fflush(stdout);
}

// Passes a descriptor on. Returns the result of `sendmsg`.
static ssize_t pass(int through, int fd) {
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x';
    struct iovec piece = {&byte, 1};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *first = CMSG_FIRSTHDR(&header);
    *first = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(first), &fd, sizeof(int));
    return sendmsg(through, &header, 0);
}

static void hear_all(const char *name, struct connection *on) {
    hear_until(name, on, 0);
}

static void hear_the_end(const char *name, struct connection *on) {
    hear_until(name, on, 1);
}

static void end(struct connection *on) {
    close(on->here);
    close(on->there);
}
