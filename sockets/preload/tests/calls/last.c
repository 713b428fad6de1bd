// State that outlives a descriptor while the service has its socket open, other names of functions, and invalid addresses.
#include "connection.h"
#include <linux/sched.h>

extern ssize_t __write(int, const void *, size_t);
// The C library of arm64 has none.
extern ssize_t __send(int, const void *, size_t, int) __attribute__((weak));
extern int __close(int);

// Events of `set` for a closed descriptor.
static int events_of(int set) {
    struct epoll_event event;
    return epoll_wait(set, &event, 1, 20);
}

static void polled(const char *name, void (*close_it)(int), void (*before)(int)) {
    int set = epoll_create1(EPOLL_CLOEXEC), events = 0;
    for (int round = 0; round < 50; round++) {
        struct connection on = connection(SOCK_CLOEXEC);
        struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.fd = on.here};
        if (epoll_ctl(set, EPOLL_CTL_ADD, on.here, &event))
            die("epoll_ctl");
        warm(&on);
        if (before)
            before(on.here);
        close_it(on.here);
        shutdown(on.there, SHUT_RDWR);
        events += events_of(set);
        close(on.there);
    }
    tell(name, events);
    close(set);
}

static void by_close(int fd) { close(fd); }
static void by_alias(int fd) { __close(fd); }
static void by_number(int fd) { syscall(SYS_close, fd); }
static void by_range(int fd) { close_range(fd, fd, 0); }
static void by_copy(int fd) {
    int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(other, fd);
    close(other);
    close(fd);
}

static void with_an_option(int fd) {
    int priority = 1;
    setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof priority);
}

// The peer reads nothing, so the ring's content cannot be sent before the descriptor is closed.
static void polled_and_full(void) {
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct connection on = connection(SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.fd = on.here};
    char bytes[1000] = {0};
    if (epoll_ctl(set, EPOLL_CTL_ADD, on.here, &event))
        die("epoll_ctl");
    while (write(on.here, bytes, sizeof bytes) > 0) {
    }
    close(on.here);
    tell("its peer sends", send(on.there, "data", 4, MSG_NOSIGNAL));
    tell("events of what was closed full", events_of(set));
    close(on.there);
    close(set);
}

static void in_two_sets(void) {
    int sets[2] = {epoll_create1(EPOLL_CLOEXEC), epoll_create1(EPOLL_CLOEXEC)};
    struct connection on = connection(SOCK_CLOEXEC);
    for (int set = 0; set < 2; set++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = on.here};
        tell("added", epoll_ctl(sets[set], EPOLL_CTL_ADD, on.here, &event));
        warm(&on);
    }
    hear_all("in two sets", &on);
    end(&on);
    tell("events of the first", events_of(sets[0]));
    tell("events of the second", events_of(sets[1]));
    close(sets[0]);
    close(sets[1]);
}

static void by_other_names(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    char bytes[10];
    for (int round = 0; round < 100; round++) {
        say(&on, 10);
        fill(&on, bytes, 10);
        if ((round % 2 || !__send ? __write(on.here, bytes, 10) : __send(on.here, bytes, 10, 0)) != 10)
            die("by another name");
    }
    hear_all("other names", &on);
    __close(on.here);
    tell("the end by another name", recv(on.there, bytes, 1, 0));
    close(on.there);
}

static void wrong(void) {
    int pair[2];
    char byte = 'x';
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = (void *)-1, .msg_controllen = 64};
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    tell("control messages nowhere", sendmsg(pair[0], &message, 0));
    tell("clone3 nowhere", syscall(SYS_clone3, (void *)-1, sizeof(struct clone_args)));
    close(pair[0]);
    close(pair[1]);
}

// More than fits in a ring, but the kernel has room: accepting only a part would mean that it is full.
static void larger_than_a_ring(void) {
    struct connection on = connection(SOCK_CLOEXEC | SOCK_NONBLOCK);
    static char bytes[40000];
    fill(&on, bytes, sizeof bytes);
    tell("larger than a ring", send(on.here, bytes, sizeof bytes, 0));
    hear_all("larger than a ring", &on);
    end(&on);
}

// A failed copy replaces nothing.
static void no_copy(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = on.here};
    epoll_ctl(set, EPOLL_CTL_ADD, on.here, &event);
    warm(&on);
    tell("dup2 of nothing", dup2(999, on.here));
    tell("dup3 of nothing", dup3(999, on.here, 0));
    tell("dup3 with wrong flags", dup3(on.there, on.here, -1));
    warm(&on);
    hear_all("a copy of nothing", &on);
    send(on.there, "x", 1, 0);
    tell("is still polled", epoll_wait(set, &event, 1, 2000));
    close(set);
    end(&on);
}

#define LARGE 16000000

static void *hear_large(void *on) {
    return (void *)hear(on, ((struct connection *)on)->said - LARGE, LARGE);
}

static ssize_t by_the_end_of_a_record(int fd, char *bytes) { return send(fd, bytes, LARGE, MSG_EOR); }
static ssize_t by_address(int fd, char *bytes) {
    struct sockaddr_in nobody = {.sin_family = AF_INET};
    return sendto(fd, bytes, LARGE, 0, (void *)&nobody, sizeof nobody);
}
static ssize_t by_control(int fd, char *bytes) {
    char control[CMSG_SPACE(sizeof(uint32_t))] = {0};
    struct iovec piece = {bytes, LARGE};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *first = CMSG_FIRSTHDR(&header);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SO_TIMESTAMPING;
    first->cmsg_len = CMSG_LEN(sizeof(uint32_t));
    return sendmsg(fd, &header, 0);
}

// More than fits in all buffers: a blocking socket accepts all of it.
static void takes_all(const char *name, ssize_t (*how)(int, char *)) {
    struct connection on = connection(SOCK_CLOEXEC);
    static char bytes[LARGE];
    pthread_t hearer;
    void *heard;
    hear(&on, 0, on.said);
    fill(&on, bytes, sizeof bytes);
    pthread_create(&hearer, NULL, hear_large, &on);
    tell(name, how(on.here, bytes));
    close(on.here);
    pthread_join(hearer, &heard);
    tell(name, (long)heard);
    close(on.there);
}

int last(void) {
    takes_all("takes all with MSG_EOR", by_the_end_of_a_record);
    takes_all("takes all with an address", by_address);
    takes_all("takes all with a control message", by_control);
    larger_than_a_ring();
    no_copy();
    polled("events of what was closed", by_close, NULL);
    polled("by another name", by_alias, NULL);
    polled("by number", by_number, NULL);
    polled("by range", by_range, NULL);
    polled("by a copy", by_copy, NULL);
    polled("after an option", by_close, with_an_option);
    polled_and_full();
    in_two_sets();
    by_other_names();
    wrong();
    return 0;
}
