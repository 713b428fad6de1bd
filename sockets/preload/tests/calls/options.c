// Options that the kernel applies to all bytes it sends: a connection with them goes through a ring, and so does one accepted
// from a listener with them.
#include "connection.h"

static void set(int fd, int level, int name, int value) {
    if (setsockopt(fd, level, name, &value, sizeof value))
        die("setsockopt");
}

static void set_all(int fd) {
    struct linger none = {0, 5};
    set(fd, SOL_SOCKET, SO_PRIORITY, 3);
    set(fd, SOL_SOCKET, SO_SNDBUF, 200000);
    set(fd, SOL_SOCKET, SO_MAX_PACING_RATE, 1 << 30);
    set(fd, IPPROTO_TCP, TCP_CORK, 0);
    set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 100000);
    if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none))
        die("setsockopt");
}

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    set_all(listener);
    if (bind(listener, (void *)&address, len) || listen(listener, 1) || getsockname(listener, (void *)&address, &len))
        die("listen");
    struct connection on = {-1, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), 0};
    if (connect(on.there, (void *)&address, len))
        die("connect");
    on.here = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    set_all(on.here);
    for (int round = 0; round < 20; round++) {
        // No connection but this one.
        for (int message = 0; message < 40; message++)
            say(&on, 64);
        usleep(10000);
    }
    set_all(on.here);
    for (int message = 0; message < 40; message++)
        say(&on, 64);
    hear_all("with options", &on);
    return 0;
}
