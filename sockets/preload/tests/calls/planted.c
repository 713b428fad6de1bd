// A library to preload that breaks one promise, by the name in PLANTED: `random` must find each.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_planted(const char *name) {
    return !strcmp(getenv("PLANTED"), name);
}

// `edges`: a send would block although the kernel has room, and no edge follows. `reasons`: the pipe comes before the reason.
ssize_t send(int fd, const void *bytes, size_t len, int flags) {
    static int sends;
    if (is_planted("edges") && ++sends % 1000 == 0 && fcntl(fd, F_GETFL) & O_NONBLOCK) {
        errno = EAGAIN;
        return -1;
    }
    ssize_t sent = syscall(SYS_sendto, fd, bytes, len, flags, NULL, 0);
    if (sent == -1 && errno == ECONNRESET && is_planted("reasons")) {
        raise(SIGPIPE);
        errno = EPIPE;
    }
    return sent;
}

// `aborts`: an abort looks like an end.
int setsockopt(int fd, int level, int name, const void *value, socklen_t len) {
    if (level == SOL_SOCKET && name == SO_LINGER && is_planted("aborts"))
        return 0;
    return syscall(SYS_setsockopt, fd, level, name, value, len);
}

// `ends`: bytes that were accepted are lost, and the peer is reset.
int close(int fd) {
    struct linger at_once = {1, 0};
    if (is_planted("ends"))
        syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    return syscall(SYS_close, fd);
}
