// Copies of descriptors and new processes: each is a second path to the connection, and must not overtake earlier bytes.
#include "connection.h"

static void second(const char *name, struct connection *on, int other) {
    int here = on->here;
    for (int round = 0; round < 3; round++) {
        on->here = other;
        warm(on);
        on->here = here;
        warm(on);
    }
    hear_all(name, on);
}

static void copies(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    int other = dup(on.here);
    second("dup", &on, other);
    tell("close", close(on.here));
    on.here = other;
    on.said = 0;
    warm(&on);
    hear_all("after dup", &on);
    end(&on);

    on = connection(SOCK_CLOEXEC);
    other = fcntl(on.here, F_DUPFD_CLOEXEC, 100);
    tell("F_DUPFD_CLOEXEC", other);
    second("F_DUPFD_CLOEXEC", &on, other);
    close(other);
    end(&on);

    on = connection(SOCK_CLOEXEC);
    struct connection target = connection(SOCK_CLOEXEC);
    tell("dup2", dup2(on.here, target.here) == target.here);
    second("dup2", &on, target.here);
    hear_the_end("what it closed", &target);
    close(target.there);
    close(target.here);
    end(&on);

    on = connection(SOCK_CLOEXEC);
    tell("dup3", dup3(on.here, 201, O_CLOEXEC));
    second("dup3", &on, 201);
    close(201);
    end(&on);

    on = connection(SOCK_CLOEXEC);
    other = syscall(SYS_dup, on.here);
    second("dup by number", &on, other);
    close(other);
    end(&on);
}

static void passed(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    int pair[2], got = -1;
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x';
    struct iovec piece = {&byte, 1};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    tell("pass", pass(pair[0], on.here));
    tell("receive", recvmsg(pair[1], &header, 0));
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof(int));
    second("passed", &on, got);
    close(got);
    close(pair[0]);
    close(pair[1]);
    end(&on);
}

static void copied_by_the_kernel(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    char bytes[5000];
    FILE *file = tmpfile();
    off_t start = 0;
    fill(&on, bytes, sizeof bytes);
    fwrite(bytes, 1, sizeof bytes, file);
    fflush(file);
    tell("sendfile", sendfile(on.here, fileno(file), &start, sizeof bytes));
    warm(&on);
    int ends[2];
    pipe(ends);
    fill(&on, bytes, 1000);
    write(ends[1], bytes, 1000);
    tell("splice", splice(ends[0], NULL, on.here, NULL, 1000, 0));
    warm(&on);
    fill(&on, bytes, 300);
    struct aiocb later = {.aio_fildes = on.here, .aio_buf = bytes, .aio_nbytes = 300};
    const struct aiocb *list[1] = {&later};
    tell("aio_write", aio_write(&later));
    aio_suspend(list, 1, NULL);
    tell("aio_return", aio_return(&later));
    hear_all("copied", &on);
    fclose(file);
    close(ends[0]);
    close(ends[1]);
    end(&on);
}

static void printed(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    char bytes[33] = {0};
    fill(&on, bytes, 32);
    tell("dprintf", dprintf(on.here, "%s%s%.0f", bytes, "", 1.0) - 1);
    on.said = 0;
    hear(&on, 0, 40 * 64 + 32);
    tell("the number", read(on.there, bytes, 1) == 1 && bytes[0] == '1');
    warm(&on);
    FILE *file = fdopen(on.here, "w");
    fill(&on, bytes, 32);
    fprintf(file, "%s", bytes);
    fflush(file);
    warm(&on);
    hear_all("printed", &on);
    fclose(file);
    close(on.there);
}

static void shell(char *command, const struct connection *on, struct connection *expected) {
    char bytes[33] = {0};
    fill(expected, bytes, 32);
    sprintf(command, "printf %%s %s >&%d", bytes, on->here);
}

static void ended(const char *name, pid_t pid) {
    int status = -1;
    waitpid(pid, &status, 0);
    printf("%s: status %d\n", name, status);
}

static void programs(void) {
    struct connection on = connection(0);
    char command[200];
    char *arguments[] = {"sh", "-c", command, NULL};
    pid_t pid;

    shell(command, &on, &on);
    tell("system", system(command));
    warm(&on);

    shell(command, &on, &on);
    FILE *child = popen(command, "r");
    tell("popen", pclose(child));
    warm(&on);

    shell(command, &on, &on);
    tell("posix_spawn", posix_spawn(&pid, "/bin/sh", NULL, NULL, arguments, environ));
    ended("posix_spawn", pid);
    warm(&on);

    shell(command, &on, &on);
    if ((pid = vfork()) == 0) {
        close(1000);
        execv("/bin/sh", arguments);
        _exit(9);
    }
    ended("vfork", pid);
    warm(&on);

    shell(command, &on, &on);
    if ((pid = fork()) == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(9);
    }
    ended("execl", pid);
    warm(&on);

    shell(command, &on, &on);
    if ((pid = fork()) == 0) {
        execlp("sh", "sh", "-c", command, (char *)NULL);
        _exit(9);
    }
    ended("execlp", pid);
    warm(&on);

    shell(command, &on, &on);
    if ((pid = fork()) == 0) {
        execle("/bin/sh", "sh", "-c", command, (char *)NULL, environ);
        _exit(9);
    }
    ended("execle", pid);
    warm(&on);

    sprintf(command, "exec /nowhere");
    tell("no such program", execl("/nowhere", "nowhere", (char *)NULL));
    warm(&on);
    hear_all("programs", &on);
    end(&on);

    on = connection(SOCK_CLOEXEC);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, on.here, 1);
    fill(&on, command, 20);
    char *echo[] = {"printf", command, NULL};
    command[20] = 0;
    tell("posix_spawnp", posix_spawnp(&pid, "printf", &actions, NULL, echo, environ));
    ended("posix_spawnp", pid);
    warm(&on);
    posix_spawn_file_actions_destroy(&actions);
    hear_all("its output", &on);
    end(&on);
}

static int in_clone(void *on) {
    warm(on);
    return 5;
}

static pid_t fork_by_number(void) {
#ifdef SYS_fork
    return syscall(SYS_fork);
#else
    return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#endif
}

static void forks(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    pid_t (*ways[])(void) = {fork, _Fork, fork_by_number};
    char stack[65536] __attribute__((aligned(16)));
    for (int way = 0; way < 4; way++) {
        pid_t pid;
        if (way == 3)
            pid = clone(in_clone, stack + sizeof stack, SIGCHLD, &on);
        else if ((pid = ways[way]()) == 0) {
            warm(&on);
            struct connection own = connection(SOCK_CLOEXEC);
            uint64_t said = own.said;
            _exit(hear(&own, 0, said) == (long)said ? 5 : 6);
        }
        ended("fork", pid);
        on.said += 40 * 64;
        warm(&on);
    }
    hear_all("forks", &on);
    end(&on);
}

static void gone(void) {
    for (int way = 0; way < 3; way++) {
        int port[2];
        struct connection on = unused_connection(SOCK_CLOEXEC);
        pipe(port);
        pid_t pid = fork();
        if (pid == 0) {
            struct sockaddr_in address;
            socklen_t len = sizeof address;
            int listener = socket(AF_INET, SOCK_STREAM, 0);
            listen(listener, 1);
            getsockname(listener, (void *)&address, &len);
            write(port[1], &address.sin_port, 2);
            struct connection own = {accept(listener, NULL, NULL), -1, 0};
            for (int message = 0; message < 1000; message++)
                say(&own, 97);
            if (way == 0)
                exit(0);
            if (way == 1)
                _exit(0);
            kill(getpid(), SIGKILL);
        }
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        read(port[0], &address.sin_port, 2);
        struct connection own = {-1, socket(AF_INET, SOCK_STREAM, 0), 97000};
        if (connect(own.there, (void *)&address, sizeof address))
            die("connect");
        ended("gone", pid);
        hear_the_end("what it said", &own);
        close(own.there);
        close(port[0]);
        close(port[1]);
        end(&on);
    }
}

static void closing(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    close(on.here);
    hear_the_end("close", &on);
    close(on.there);
    on = connection(SOCK_CLOEXEC);
    tell("close_range", close_range(on.here, on.here, 0));
    tell("is closed", fcntl(on.here, F_GETFD));
    hear_the_end("close_range", &on);
    close(on.there);
    on = connection(SOCK_CLOEXEC);
    tell("close by number", syscall(SYS_close, on.here));
    hear_the_end("close by number", &on);
    close(on.there);
    on = connection(SOCK_CLOEXEC);
    int there = dup2(on.there, 2);
    closefrom(3);
    on.there = there;
    tell("is closed", fcntl(on.here, F_GETFD));
    hear_the_end("closefrom", &on);
    on = connection(SOCK_CLOEXEC);
    hear_all("one more", &on);
    end(&on);
}

// Closes without any function of the C library.
static void close_unseen(int fd) {
#ifdef __x86_64__
    long number = SYS_close, result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"((long)fd) : "rcx", "r11", "memory");
#else
    close(fd);
#endif
}

static void unseen(void) {
    struct connection on = connection(SOCK_CLOEXEC), next;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    close_unseen(on.here);
    tell("its number", (next.here = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) == on.here);
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    listen(listener, 1);
    getsockname(listener, (void *)&address, &len);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect(next.here, (void *)&address, len);
    next.there = accept(listener, NULL, NULL);
    next.said = 0;
    warm(&next);
    hear_the_end("closed unseen", &on);
    hear_all("what has its number", &next);
    close(on.there);
    close(listener);
    end(&next);
}

static struct connection *to_close;

static void close_in_handler(int signal) {
    (void)signal;
    if (to_close) {
        close(to_close->here);
        to_close = NULL;
    }
}

// The peer receives whole messages and then the end, at any moment of closing the descriptor.
static void closed_by_handlers(void) {
    struct sigaction action = {.sa_handler = close_in_handler};
    sigaction(SIGALRM, &action, NULL);
    long whole = 0;
    for (int round = 0; round < 50; round++) {
        struct connection on = connection(SOCK_CLOEXEC);
        struct itimerval soon = {{0, 0}, {0, 100 + round * 10}};
        char bytes[64], got[65536];
        uint64_t heard = 0;
        ssize_t result;
        to_close = &on;
        setitimer(ITIMER_REAL, &soon, NULL);
        do
            fill(&on, bytes, sizeof bytes);
        while (send(on.here, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL) > 0 || to_close);
        while ((result = recv(on.there, got, sizeof got, 0)) > 0)
            heard += result;
        whole += result == 0 && heard >= 40 * 64;
        close(on.there);
    }
    signal(SIGALRM, SIG_DFL);
    tell("closed by handlers", whole);
}

#define THREADS 4
#define EACH 20000

static int shared;

static void *says(void *number) {
    uint32_t record[4] = {(uint32_t)(uintptr_t)number, 0, 0, 0};
    for (record[1] = 0; record[1] < EACH; record[1]++) {
        record[2] = record[0] * 31 + record[1];
        if (send(shared, record, sizeof record, 0) != sizeof record)
            die("record");
    }
    return NULL;
}

static void threads(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    uint32_t next[THREADS] = {0}, record[4];
    pthread_t all[THREADS];
    hear(&on, 0, on.said);
    shared = on.here;
    for (uintptr_t thread = 0; thread < THREADS; thread++)
        pthread_create(&all[thread], NULL, says, (void *)thread);
    long right = 0;
    for (int at = 0; at < THREADS * EACH; at++) {
        if (recv(on.there, record, sizeof record, MSG_WAITALL) != sizeof record)
            break;
        right += record[0] < THREADS && record[1] == next[record[0]]++ && record[2] == record[0] * 31 + record[1];
    }
    for (int thread = 0; thread < THREADS; thread++)
        pthread_join(all[thread], NULL);
    tell("threads", right);
    end(&on);
}

static void say_in_handler(int signal) {
    uint32_t record[4] = {1, 0, 0, (uint32_t)signal};
    send(shared, record, sizeof record, MSG_DONTWAIT);
}

static void handlers(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    uint32_t record[4] = {0}, got[4], right = 0, others = 0;
    hear(&on, 0, on.said);
    shared = on.here;
    struct sigaction action = {.sa_handler = say_in_handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (int round = 0; round < 200; round++) {
        for (int at = 0; at < 100; at++) {
            record[1]++;
            if (send(shared, record, sizeof record, 0) != sizeof record)
                die("record");
        }
        for (int at = 0; at < 100;) {
            if (recv(on.there, got, sizeof got, MSG_WAITALL) != sizeof got)
                die("recv");
            if (got[0] == 1 && got[3] == SIGALRM) {
                others++;
                continue;
            }
            at++;
            right += got[0] == 0 && got[1] == right + 1;
        }
    }
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_DFL);
    tell("with handlers", right);
    end(&on);
}

static void sandboxed(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    tell("prctl", prctl(PR_SET_SECCOMP, 99));
    warm(&on);
    tell("seccomp", syscall(SYS_seccomp, 99, 0, NULL));
    warm(&on);
    hear_all("sandboxed", &on);
    end(&on);
}

int more(void) {
    copies();
    passed();
    copied_by_the_kernel();
    printed();
    programs();
    forks();
    gone();
    unseen();
    closed_by_handlers();
    threads();
    handlers();
    closing();
    sandboxed();
    return 0;
}
