// A child sends while its parent's ring is full and the peer reads nothing: its messages must follow the ring's.
#include "connection.h"

// Sends until the kernel has had no room for a while.
static void fill_up(struct connection *on) {
    char bytes[64];
    for (int full = 0; full < 10;) {
        struct connection next = *on;
        fill(&next, bytes, sizeof bytes);
        ssize_t sent = send(on->here, bytes, sizeof bytes, MSG_DONTWAIT);
        full = sent < 0 ? full + 1 : 0;
        if (full)
            usleep(10000);
        else
            on->said += sent;
    }
}

// Sends the next bytes, a few at a time, and tries again after EAGAIN.
static void says(struct connection *on, int is_writer, int flags) {
    for (int message = 0; message < 200; message++) {
        char bytes[64];
        fill(on, bytes, sizeof bytes);
        for (size_t sent = 0; sent < sizeof bytes;) {
            ssize_t result = is_writer ? write(on->here, bytes + sent, sizeof bytes - sent)
                                       : send(on->here, bytes + sent, sizeof bytes - sent, flags);
            if (result < 0 && errno != EAGAIN)
                die("send");
            if (result < 0)
                usleep(1000);
            else
                sent += result;
        }
    }
}

// Another program sends them.
static void copies(struct connection *on) {
    int bytes[2];
    pipe(bytes);
    struct connection to = {bytes[1], -1, on->said};
    says(&to, 1, 0);
    close(bytes[1]);
    if (dup2(bytes[0], 0) < 0 || dup2(on->here, 1) < 0)
        die("dup2");
    execl("/bin/cat", "cat", (char *)NULL);
    die("cat");
}

int main(void) {
    for (int round = 0; round < 5; round++) {
        struct connection on = connection(SOCK_CLOEXEC);
        // As much as is allowed: no room can be made for the ring at the fork.
        setsockopt(on.here, SOL_SOCKET, SO_SNDBUF, &(int){1 << 20}, sizeof(int));
        warm(&on);
        fill_up(&on);
        pid_t child = fork();
        if (child == 0) {
            if (round == 4)
                copies(&on);
            // A child's child.
            if (round == 3 && (child = fork())) {
                int status;
                waitpid(child, &status, 0);
                _exit(WEXITSTATUS(status));
            }
            says(&on, round & 1, round == 2 ? MSG_DONTWAIT : 0);
            _exit(0);
        }
        // The child tries, and is held up.
        usleep(300000);
        on.said += 200 * 64;
        hear_all("a child behind its parent", &on);
        int status;
        waitpid(child, &status, 0);
        tell("ended", status);
        end(&on);
    }
    return 0;
}
