// A number that refers to another file in another thread, or later: a ring's content goes only to its own socket.
#include "connection.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

// True if the file has been written to.
static long held(int file) {
    char bytes[64] = {0};
    return pread(file, bytes, sizeof bytes, 0) == 4 && !memcmp(bytes, "file", 4);
}

// The copies of a set remain usable after the set's own number is closed.
static void sets(void) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.u32 = 7};
    for (int is_late = 0; is_late < 2; is_late++) {
        int set = epoll_create1(EPOLL_CLOEXEC), copy;
        struct connection on = connection(SOCK_CLOEXEC);
        if (is_late)
            copy = dup(set);
        epoll_ctl(set, EPOLL_CTL_ADD, on.here, &event);
        warm(&on);
        if (!is_late)
            copy = fcntl(set, F_DUPFD_CLOEXEC, 0);
        close(set);
        warm(&on);
        hear_all("polled by a set with copies", &on);
        usleep(20000);
        close(on.here);
        close(on.there);
        tell("events of a closed connection", epoll_wait(copy, &event, 1, 50));
        close(copy);
    }
}

struct own {
    int number, file, flags;
};

// A thread with descriptors of its own has a file at the number of a connection.
static void *has_its_own(void *argument) {
    struct own *own = argument;
    if (own->flags)
        tell("close_range", close_range(own->number, own->number, own->flags));
    else
        tell("unshare", unshare(CLONE_FILES));
    int number = own->flags ? fcntl(own->file, F_DUPFD, own->number) : dup2(own->file, own->number);
    if (number != own->number || write(number, "file", 4) != 4)
        die("a file of its own");
    return NULL;
}

static void threads(void) {
    for (int flags = 0; flags <= CLOSE_RANGE_UNSHARE; flags += CLOSE_RANGE_UNSHARE) {
        pid_t child = fork();
        if (child == 0) {
            struct connection on = connection(SOCK_CLOEXEC);
            pthread_t thread;
            struct own own = {on.here, fileno(tmpfile()), flags};
            pthread_create(&thread, NULL, has_its_own, &own);
            pthread_join(thread, NULL);
            warm(&on);
            hear_all("of a thread with its own numbers", &on);
            tell("its file", held(own.file));
            exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

// A child in its parent's memory has numbers of its own, and sends on its parent's before it becomes a program.
static void borrowers(void) {
    struct connection on = connection(SOCK_CLOEXEC), other = connection(SOCK_CLOEXEC);
    int file = fileno(tmpfile());
    pid_t child = vfork();
    if (child == 0) {
        if (dup2(file, on.here) != on.here || write(on.here, "file", 4) != 4)
            _exit(1);
        warm(&other);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    tell("the file of a child", held(file));
    warm(&on);
    hear_all("whose number a child had", &on);
    hear_all("on which a child sent", &other);
    end(&on);
    end(&other);
}

static void printers(void) {
    // A peer that takes nothing: what is printed does not come before the rest of the ring.
    struct connection on = connection(SOCK_CLOEXEC | SOCK_NONBLOCK);
    char bytes[64];
    for (;;) {
        struct connection next = on;
        fill(&next, bytes, sizeof bytes);
        ssize_t sent = send(on.here, bytes, sizeof bytes, 0);
        if (sent < 0)
            break;
        on.said += sent;
    }
    tell("dprintf to a full one", dprintf(on.here, "%s", "out of order"));
    hear_all("before it", &on);
    FILE *file = fdopen(dup(on.here), "w");
    uint64_t before = on.said;
    fill(&on, bytes, sizeof bytes);
    fwrite(bytes, 1, sizeof bytes, file);
    fflush(file);
    tell("printed", hear(&on, before, sizeof bytes));
    fclose(file);
    end(&on);
}

// A filter of system calls that kills a process which reads memory by a call.
static void filters(void) {
    pid_t child = fork();
    if (child == 0) {
        struct sock_filter lines[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog filter = {4, lines};
        struct connection on = connection(SOCK_CLOEXEC);
        int pair[2];
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
        tell("passed on under a filter", pass(pair[0], on.here));
        // An address that is none.
        struct iovec piece = {"x", 1};
        struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = (void *)8, .msg_controllen = 64};
        tell("a wrong address", sendmsg(pair[0], &header, 0));
        exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    tell("under a filter", status);
}

int main(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    sets();
    threads();
    borrowers();
    printers();
    filters();
    warm(&on);
    hear_all("one more", &on);
    return 0;
}
