// Several messages by one call, to a peer that reads slower: `pieces SECONDS`. The kernel stops after the first part.
#include "connection.h"

// The first of two messages is larger than the buffers of both ends.
enum { MESSAGES = 16, LONG = 5000000, SHORT = 100 };

static struct connection on;

static void *take(void *unused) {
    (void)unused;
    static char bytes[65000];
    for (uint64_t got = 0;;) {
        ssize_t result = recv(on.there, bytes, sizeof bytes, 0);
        if (result <= 0)
            return (void *)got;
        for (ssize_t at = 0; at < result; at++)
            if (bytes[at] != byte_at(got + at))
                return NULL;
        got += result;
    }
}

int main(int count, char **arguments) {
    time_t until = time(NULL) + (count > 1 ? atoi(arguments[1]) : 1);
    pthread_t taker;
    void *got;
    on = connection(SOCK_CLOEXEC | SOCK_NONBLOCK);
    pthread_create(&taker, NULL, take, NULL);
    while (time(NULL) < until) {
        static char bytes[MESSAGES / 2 * (LONG + SHORT)];
        static struct iovec pieces[MESSAGES];
        static struct mmsghdr messages[MESSAGES];
        for (size_t at = 0; at < sizeof bytes; at++)
            bytes[at] = byte_at(on.said + at);
        for (int at = 0; at < MESSAGES; at++) {
            pieces[at] = (struct iovec){bytes + at / 2 * (LONG + SHORT) + at % 2 * LONG, at % 2 ? SHORT : LONG};
            messages[at].msg_hdr = (struct msghdr){.msg_iov = &pieces[at], .msg_iovlen = 1};
        }
        int sent = sendmmsg(on.here, messages, MESSAGES, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            struct pollfd one = {on.here, POLLOUT, 0};
            poll(&one, 1, 1000);
        } else if (sent < 0) {
            die("sendmmsg");
        }
        for (int at = 0; at < sent; at++)
            on.said += messages[at].msg_len;
    }
    close(on.here);
    pthread_join(taker, &got);
    tell("all came in order", (uint64_t)got == on.said);
    return 0;
}
