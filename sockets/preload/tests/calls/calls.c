// Each call that is intercepted, on a connection that sends in many small pieces. What is printed must be the same with the
// library and without it.
#include "connection.h"

static void ways_to_send(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    char bytes[64], others[64];
    struct iovec pieces[3] = {{bytes, 10}, {NULL, 0}, {others, 20}};
    struct msghdr header = {.msg_iov = pieces, .msg_iovlen = 3};
    fill(&on, bytes, 64);
    tell("write", write(on.here, bytes, 64));
    fill(&on, bytes, 30);
    tell("send", send(on.here, bytes, 30, MSG_NOSIGNAL));
    fill(&on, bytes, 31);
    tell("sendto", sendto(on.here, bytes, 31, 0, NULL, 0));
    fill(&on, bytes, 10);
    fill(&on, others, 20);
    tell("writev", writev(on.here, pieces, 3));
    fill(&on, bytes, 10);
    fill(&on, others, 20);
    tell("sendmsg", sendmsg(on.here, &header, MSG_DONTWAIT));
    fill(&on, bytes, 5);
    tell("send, more", send(on.here, bytes, 5, MSG_MORE));
    fill(&on, bytes, 5);
    tell("send, end of it", send(on.here, bytes, 5, 0));
    fill(&on, bytes, 10);
    fill(&on, others, 20);
    struct iovec first = {bytes, 10}, second = {others, 20};
    struct mmsghdr two[2] = {{{.msg_iov = &first, .msg_iovlen = 1}}, {{.msg_iov = &second, .msg_iovlen = 1}}};
    tell("sendmmsg", sendmmsg(on.here, two, 2, 0));
    printf("sendmmsg: %u and %u\n", two[0].msg_len, two[1].msg_len);
    fill(&on, bytes, 12);
    tell("syscall", syscall(SYS_write, on.here, bytes, 12));
    fill(&on, bytes, 12);
    tell("syscall, six arguments", syscall(SYS_sendto, on.here, bytes, 12, 0, NULL, 0));
    fill(&on, bytes, 9);
    struct iovec nine = {bytes, 9};
    tell("pwritev2", pwritev2(on.here, &nine, 1, -1, 0));
    tell("pwritev2, with a place", pwritev2(on.here, &nine, 1, 5, 0));
    warm(&on);
    say(&on, 60000);
    warm(&on);
    hear_all("ways to send", &on);
    end(&on);
}

static void wrong_calls(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct iovec piece = {NULL, 8}, good = {"", 0};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1}, many = {.msg_iov = &good, .msg_iovlen = 2000};
    tell("send nothing", send(on.here, "", 0, 0));
    tell("write nothing", write(on.here, "", 0));
    tell("writev nothing", writev(on.here, &good, 1));
    tell("writev no piece", writev(on.here, NULL, 0));
    tell("send from null", send(on.here, NULL, 5, 0));
    tell("writev from null", writev(on.here, &piece, 1));
    tell("writev of -1", writev(on.here, &good, -1));
    tell("writev of 2000", writev(on.here, &good, 2000));
    tell("sendmsg of null", sendmsg(on.here, NULL, 0));
    tell("sendmsg from null", sendmsg(on.here, &header, 0));
    tell("sendmsg of 2000", sendmsg(on.here, &many, 0));
    tell("sendmmsg of null", sendmmsg(on.here, NULL, 1, 0));
    tell("sendto an address", sendto(on.here, "", 0, 0, (void *)&to, sizeof to));
    tell("send with strange flags", send(on.here, "", 0, MSG_CONFIRM | MSG_DONTROUTE));
    tell("close -1", close(-1));
    tell("send on -1", send(-1, "x", 1, 0));
    tell("write on 9999", write(9999, "x", 1));
    tell("dup2 to itself", dup2(on.here, on.here) == on.here);
    tell("dup3 to itself", dup3(on.here, on.here, 0));
    tell("dup of 9999", dup(9999));
    tell("dup2 of 9999", dup2(9999, 77));
    tell("connect again", connect(on.here, (void *)&to, sizeof to));
    tell("shutdown 9", shutdown(on.here, 9));
    tell("ioctl of nothing", ioctl(on.here, 0x12345678, NULL));
    tell("fcntl of nothing", fcntl(on.here, 9999, 0));
    tell("setsockopt of nothing", setsockopt(on.here, 999, 1, NULL, 0));
    tell("close_range of nothing", close_range(10, 5, 0));
    tell("splice to itself", splice(on.here, NULL, on.here, NULL, 1, 0));
    tell("sendfile from 9999", sendfile(on.here, 9999, NULL, 1));
    tell("is no terminal", isatty(on.here));
    warm(&on);
    hear_all("wrong calls", &on);
    end(&on);
    tell("close again", close(on.here));
    tell("shutdown after close", shutdown(on.here, SHUT_WR));
}

static ssize_t send_some(struct connection *on, size_t len) {
    char bytes[100];
    uint64_t before = on->said;
    fill(on, bytes, len);
    ssize_t result = send(on->here, bytes, len, 0);
    on->said = before + (result > 0 ? result : 0);
    return result;
}

static void full_without_blocking(void) {
    struct connection on = connection(SOCK_CLOEXEC | SOCK_NONBLOCK);
    int events = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event edge = {.events = EPOLLOUT | EPOLLET};
    epoll_ctl(events, EPOLL_CTL_ADD, on.here, &edge);
    while (epoll_wait(events, &edge, 1, 0) == 1)
        ;
    uint64_t heard = 0;
    for (int round = 0; round < 5; round++) {
        char bytes[100];
        struct pollfd one = {on.here, POLLOUT, 0};
        ssize_t result;
        // The peer's kernel may yet take more, until it does not.
        do {
            while ((result = send_some(&on, 100)) > 0)
                ;
            while (epoll_wait(events, &edge, 1, 0) == 1)
                ;
            result = send_some(&on, 1);
        } while (result > 0 || poll(&one, 1, 30) == 1);
        tell("full", result);
        uint64_t whole = on.said - heard;
        tell("heard all", hear(&on, heard, whole) == (long)whole);
        heard += whole;
        tell("room", poll(&one, 1, 2000));
        tell("edge", epoll_wait(events, &edge, 1, 2000));
        fill(&on, bytes, 100);
        tell("there is room", send(on.here, bytes, 100, 0));
        long left = 100;
        tell("heard it", hear(&on, heard, left));
        heard += left;
    }
    end(&on);
    close(events);
}

static void *hear_slowly(void *on) {
    struct connection copy = *(struct connection *)on;
    usleep(100000);
    return (void *)hear(&copy, 0, 8000000);
}

static void blocking(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    pthread_t hearer;
    pthread_create(&hearer, NULL, hear_slowly, &on);
    while (on.said < 8000000)
        say(&on, 8000000 - on.said < 701 ? 8000000 - on.said : 701);
    void *heard;
    pthread_join(hearer, &heard);
    tell("blocking", (long)heard);
    end(&on);
}

static void until_full(struct connection *on) {
    char bytes[500] = {0};
    do {
        while (send(on->here, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
            ;
        while (send(on->here, bytes, 1, MSG_DONTWAIT) > 0)
            ;
        // The peer's kernel may yet take more, also when it is asked again after a while.
        usleep(300000);
    } while (send(on->here, bytes, 1, MSG_DONTWAIT) > 0);
}

static void time_out(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    struct timeval limit = {0, 60000};
    setsockopt(on.here, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    until_full(&on);
    tell("full", send(on.here, "x", 1, MSG_DONTWAIT));
    tell("time out", send(on.here, "x", 1, 0));
    end(&on);
}

static volatile sig_atomic_t caught;

static void catch (int signal) {
    caught += signal == SIGALRM || signal == SIGPIPE;
}

static void caught_by(int signal, int flags) {
    struct sigaction action = {.sa_handler = catch, .sa_flags = flags};
    sigaction(signal, &action, NULL);
    caught = 0;
}

static void *hear_later(void *on) {
    char bytes[65536];
    usleep(200000);
    for (int round = 0; round < 200; round++)
        if (recv(((struct connection *)on)->there, bytes, sizeof bytes, MSG_DONTWAIT) <= 0)
            usleep(1000);
    return NULL;
}

static void interrupted(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    struct itimerval soon = {{0, 0}, {0, 50000}};
    pthread_t hearer;
    until_full(&on);
    caught_by(SIGALRM, 0);
    setitimer(ITIMER_REAL, &soon, NULL);
    tell("interrupted", send(on.here, "x", 1, 0));
    tell("caught", caught);
    caught_by(SIGALRM, SA_RESTART);
    pthread_create(&hearer, NULL, hear_later, &on);
    setitimer(ITIMER_REAL, &soon, NULL);
    tell("goes on", send(on.here, "x", 1, 0));
    pthread_join(hearer, NULL);
    signal(SIGALRM, SIG_DFL);
    end(&on);
}

static void *blocks(void *on) {
    char bytes[100] = {0};
    for (;;)
        send(((struct connection *)on)->here, bytes, sizeof bytes, 0);
    return NULL;
}

static void cancelled(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    pthread_t sender;
    void *result;
    pthread_create(&sender, NULL, blocks, &on);
    usleep(200000);
    pthread_cancel(sender);
    pthread_join(sender, &result);
    tell("cancelled", result == PTHREAD_CANCELED);
    end(&on);
}

static void broken(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    caught_by(SIGPIPE, 0);
    tell("shutdown", shutdown(on.here, SHUT_WR));
    tell("send after it", send(on.here, "x", 1, 0));
    tell("signals", caught);
    tell("send without a signal", send(on.here, "x", 1, MSG_NOSIGNAL));
    tell("write after it", write(on.here, "x", 1));
    tell("signals", caught);
    hear_the_end("shut", &on);
    end(&on);

    on = connection(SOCK_CLOEXEC);
    hear(&on, 0, on.said);
    close(on.there);
    caught = 0;
    long result, count = 0;
    do {
        usleep(1000);
        result = write(on.here, "x", 1);
    } while (result == 1 && count++ < 1000);
    tell("peer is gone", result);
    tell("signals", caught);
    close(on.here);

    on = connection(SOCK_CLOEXEC);
    usleep(20000);
    close(on.there);
    usleep(20000);
    char byte;
    tell("reset", recv(on.here, &byte, 1, 0));
    caught = 0;
    tell("send on it", send(on.here, "x", 1, 0));
    tell("signals", caught);
    close(on.here);
    signal(SIGPIPE, SIG_DFL);
}

static void options(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    int yes = 1, no = 0, value = 7;
    socklen_t len = sizeof value;
    tell("SO_ERROR", getsockopt(on.here, SOL_SOCKET, SO_ERROR, &value, &len));
    tell("is", value);
    tell("TCP_NODELAY", setsockopt(on.here, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes));
    warm(&on);
    tell("TCP_CORK", setsockopt(on.here, IPPROTO_TCP, TCP_CORK, &yes, sizeof yes));
    say(&on, 10);
    tell("TCP_CORK", setsockopt(on.here, IPPROTO_TCP, TCP_CORK, &no, sizeof no));
    warm(&on);
    struct tcp_info info;
    len = sizeof info;
    tell("TCP_INFO", getsockopt(on.here, IPPROTO_TCP, TCP_INFO, &info, &len));
    hear_all("options", &on);
    value = -1;
    tell("SIOCOUTQ", ioctl(on.here, SIOCOUTQ, &value));
    tell("is", value);
    tell("FIONBIO", ioctl(on.here, FIONBIO, &yes));
    tell("is set", !!(fcntl(on.here, F_GETFL) & O_NONBLOCK));
    end(&on);

    on = connection(SOCK_CLOEXEC);
    struct linger at_once = {1, 0};
    tell("SO_LINGER", setsockopt(on.here, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
    tell("heard", hear(&on, 0, on.said));
    close(on.here);
    char byte;
    tell("reset", recv(on.there, &byte, 1, 0));
    close(on.there);
}

static void urgent(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    uint64_t before = on.said;
    tell("urgent", send(on.here, "!", 1, MSG_OOB));
    tell("heard", hear(&on, 0, before));
    char byte = 0;
    struct pollfd one = {on.there, POLLPRI, 0};
    poll(&one, 1, 1000);
    tell("heard it", recv(on.there, &byte, 1, MSG_OOB));
    tell("is it", byte == '!');
    end(&on);
}

int more(void);
int last(void);

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    ways_to_send();
    wrong_calls();
    full_without_blocking();
    blocking();
    time_out();
    interrupted();
    cancelled();
    broken();
    options();
    urgent();
    // The last of the others has nothing go through rings any more.
    return last() || more();
}
