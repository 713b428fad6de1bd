// A process with connections in rings enters other namespaces, each time without a thread of the library.
#include "connection.h"
#include <dirent.h>
#include <sched.h>

static int threads(void) {
    DIR *all = opendir("/proc/self/task");
    int count = -2; // "." and ".."
    while (readdir(all))
        count++;
    closedir(all);
    return count;
}

// With a service the connection enters a ring after some time, and the process has one more thread.
static struct connection promoted(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    for (int round = 0; getenv("SIDECORE_SOCKETS") && threads() == 1 && round < 1000; round++) {
        usleep(10000);
        warm(&on);
    }
    tell("threads before", threads());
    return on;
}

static int by_function(int users) { return users < 0 ? unshare(CLONE_NEWUSER) : setns(users, CLONE_NEWUSER); }
static int by_number(int users) {
    return users < 0 ? syscall(SYS_unshare, CLONE_NEWUSER) : syscall(SYS_setns, users, CLONE_NEWUSER);
}

// Runs in a child, because the process cannot leave the namespace again.
static void enter(const char *name, int (*how)(int), int users) {
    pid_t pid = fork();
    if (pid == 0) {
        struct connection on = promoted();
        tell(name, how(users));
        tell("threads then", threads());
        warm(&on);
        hear_all(name, &on);
        end(&on);
        on = connection(SOCK_CLOEXEC);
        hear_all("a connection afterwards", &on);
        tell("threads afterwards", threads());
        end(&on);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    tell("ended", WIFEXITED(status) ? WEXITSTATUS(status) : -2);
}

// Namespaces that cannot be entered: nothing changes, and later promotions still work.
static void refused(void) {
    struct connection on = promoted();
    tell("unshare nothing that is", unshare(-1));
    tell("threads then", threads());
    tell("setns nowhere", setns(-1, 0));
    warm(&on);
    hear_all("refused", &on);
    end(&on);
    on = promoted();
    hear_all("promoted again", &on);
    end(&on);
}

// The user namespace of a child, which stays there until its end of the pipe is closed.
static int namespace_of_a_child(int *end) {
    int there[2], back[2];
    char path[64], byte;
    if (pipe2(there, O_CLOEXEC) || pipe2(back, O_CLOEXEC))
        die("pipe2");
    pid_t pid = fork();
    if (pid == 0) {
        close(back[1]);
        if (unshare(CLONE_NEWUSER) == 0)
            write(there[1], "x", 1);
        read(back[0], &byte, 1);
        _exit(0);
    }
    close(there[1]);
    close(back[0]);
    *end = back[1];
    if (read(there[0], &byte, 1) != 1)
        return -1;
    close(there[0]);
    snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

int main(void) {
    int end, users = namespace_of_a_child(&end);
    if (users < 0) {
        printf("no user namespaces here\n");
        return 0;
    }
    refused();
    enter("unshare", by_function, -1);
    enter("unshare by number", by_number, -1);
    enter("setns", by_function, users);
    enter("setns by number", by_number, users);
    close(end);
    return 0;
}
