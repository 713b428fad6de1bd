// The number of one of the library's descriptors is taken over: `owned STAGE WHICH WAY BY`. WHICH: its place among those that the
// program did not open, `all`, or `list`. The library neither uses nor closes what has the number then, and the program's own
// connections lose nothing.
#include "../calls/connection.h"
#include <dirent.h>
#include <sys/stat.h>

#define NUMBERS 4096
#define KEPT "pearl"
#define TEXT "untouched"

// Numbers that the program opened.
static char mine[NUMBERS];
// In a ring, and to be closed with messages in one.
static struct connection on, other;
// The files for the numbers: a connection with something to receive, and a file that was read from.
static struct connection jewel;
static int file;
static char *stage, *which, *way, *by;

static int is(const char *a, const char *b) {
    return !strcmp(a, b);
}

static int is_open(int fd) {
    return syscall(SYS_fcntl, fd, F_GETFD) >= 0;
}

static void all_open_are_mine(void) {
    for (int fd = 0; fd < NUMBERS; fd++)
        mine[fd] = is_open(fd);
}

// The library's descriptors.
static int foreign(int *to) {
    int count = 0;
    for (int fd = 0; fd < NUMBERS; fd++)
        if (!mine[fd] && is_open(fd))
            to[count++] = fd;
    return count;
}

// Uses a system call that the library does not see.
static long unseen(long call, long first, long second, long third) {
#ifdef __x86_64__
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(call), "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory");
    return result;
#else
    return syscall(call, first, second, third);
#endif
}

// Asks the harness to start another service.
static void restart(void) {
    char byte;
    printf("restart\n");
    fflush(stdout);
    if (read(0, &byte, 1) != 1)
        die("restart");
}

static int threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    int count = -2;
    while (readdir(tasks))
        count++;
    closedir(tasks);
    return count;
}

static void end_all(int pid, const char *name) {
    int status;
    waitpid(pid, &status, 0);
    if (status)
        tell(name, status);
}

static const char *kind(int fd) {
    static char of[64];
    char name[64];
    int type = 0;
    socklen_t len = sizeof type;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t len_of = readlink(name, of, sizeof of - 1);
    of[len_of < 0 ? 0 : len_of] = 0;
    if (!getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len))
        return type == SOCK_SEQPACKET ? "service" : "socket";
    of[strcspn(of, ":[")] = 0;
    return is(of, "anon_inode") ? "event" : of;
}

static void say_many(struct connection *to) {
    for (int message = 0; message < 200; message++)
        say(to, 64);
}

// Sends until neither the kernel nor the ring has room.
static void fill_up(struct connection *to) {
    char bytes[64];
    for (int full = 0; full < 100;) {
        struct connection next = *to;
        fill(&next, bytes, sizeof bytes);
        ssize_t sent = send(to->here, bytes, sizeof bytes, MSG_DONTWAIT);
        full = sent < 0 ? full + 1 : 0;
        if (sent > 0)
            to->said += sent;
        else
            usleep(1000);
    }
}

// Waits until the service has answered: then its connection and both ends of the bell exist.
static void attach_wholly(void) {
    int numbers[NUMBERS], before = foreign(numbers);
    while (foreign(numbers) < before + 3)
        attach();
}

// Another process continues with the number.
static pid_t passed_on(int number, int *hold) {
    int bytes[2];
    pid_t pid;
    posix_spawn_file_actions_t actions;
    if (pipe2(bytes, O_CLOEXEC))
        die("pipe");
    fcntl(number, F_SETFD, 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, bytes[0], 0);
    if (posix_spawn(&pid, "/bin/cat", &actions, NULL, (char *[]){"cat", NULL}, environ))
        die("cat");
    close(bytes[0]);
    *hold = bytes[1];
    return pid;
}

// This process becomes another program, which gets the number and `on`. `other` ends.
static void become(int number) {
    char here[16], there[16], rest[16], said[32], last[32];
    int passed[] = {number, on.here, on.there, other.there};
    snprintf(here, sizeof here, "%d", on.here);
    snprintf(there, sizeof there, "%d", on.there);
    snprintf(rest, sizeof rest, "%d", other.there);
    snprintf(said, sizeof said, "%lu", on.said);
    snprintf(last, sizeof last, "%lu", other.said);
    for (int at = 0; at < 4; at++)
        fcntl(passed[at], F_SETFD, 0);
    execl("/proc/self/exe", "owned", "again", here, there, said, rest, last, (char *)NULL);
    die("exec");
}

// The file that the program puts there.
static int from(void) {
    return is(by, "file") ? file : jewel.here;
}

static void put(int number) {
    if (is(way, "dup2") || is(way, "dup3")) {
        if ((is(way, "dup2") ? dup2(from(), number) : dup3(from(), number, O_CLOEXEC)) != number)
            die(way);
    } else if (is(way, "unseen")) {
        unseen(SYS_close, number, 0, 0);
    } else if (is(way, "close")) {
        close(number);
    } else if (is(way, "close_range")) {
        close_range(number, number, 0);
    } else if (is(way, "unshare")) {
        close_range(number, number, CLOSE_RANGE_UNSHARE);
    } else if (is(way, "closefrom")) {
        closefrom(number);
    }
    if (!is(by, "nothing") && !is_open(number) && fcntl(from(), F_DUPFD, number) != number)
        die("the number");
}

// Takes the number, and returns a process that has it as well.
static pid_t take(int number, int *hold) {
    if (is(way, "exec"))
        become(number);
    if (is(way, "spawn"))
        return passed_on(number, hold);
    put(number);
    return 0;
}

static long is_same(int a, int b) {
    struct stat one, two;
    return !fstat(a, &one) && !fstat(b, &two) && one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

// Checks that the file, the connection and each taken number are unchanged.
static void look_after(const int *numbers, const char *is_put, int count) {
    char bytes[64] = {0};
    int has_gone = 0;
    for (int at = 0; at < count; at++)
        has_gone += is_put[at] && !is_same(numbers[at], from());
    tell("numbers that lost what the program put there", has_gone);
    tell("of the file", pread(file, bytes, sizeof bytes, 0) == sizeof TEXT - 1 && is(bytes, TEXT) && lseek(file, 0, SEEK_CUR) == 3);
    memset(bytes, 0, sizeof bytes);
    tell("of the connection", recv(jewel.here, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT) == sizeof KEPT - 1 && is(bytes, KEPT));
    tell("flags", fcntl(jewel.here, F_GETFL));
    tell("at its peer", recv(jewel.there, bytes, sizeof bytes, MSG_DONTWAIT));
    for (int at = 0; at < count; at++)
        if (is_put[at])
            close(numbers[at]);
    recv(jewel.here, bytes, sizeof bytes, MSG_DONTWAIT);
    close(jewel.here);
    tell("its end", poll(&(struct pollfd){jewel.there, POLLIN, 0}, 1, 60000) == 1 ? recv(jewel.there, bytes, 1, 0) : -7);
}

// Sends, forks, closes, leaves a ring, and meets another service.
static void go_on(void) {
    struct tcp_info info;
    socklen_t len = sizeof info;
    say_many(&on);
    pid_t child = fork();
    if (child == 0) {
        struct connection own = connection(SOCK_CLOEXEC);
        say_many(&own);
        hear_all("of a child", &own);
        exit(0);
    }
    end_all(child, "a child");
    say_many(&on);
    if (other.here >= 0) {
        close(other.here);
        hear_the_end("closed", &other);
    }
    getsockopt(on.here, IPPROTO_TCP, TCP_INFO, &info, &len);
    say(&on, 20000);
    say_many(&on);
    restart();
    say_many(&on);
    attach();
    say_many(&on);
    hear_all("all", &on);
    close(on.here);
    on.there >= 0 ? tell("the end", recv(on.there, &info, 1, 0)) : 0;
}

// The program that `become` started.
static int again(char **arguments) {
    on = (struct connection){atoi(arguments[2]), atoi(arguments[3]), strtoul(arguments[4], NULL, 10)};
    other = (struct connection){-1, atoi(arguments[5]), strtoul(arguments[6], NULL, 10)};
    hear_the_end("closed by another program", &other);
    say_many(&on);
    other.here = -1;
    go_on();
    return 0;
}

// Waits until the library's thread is attaching.
static void attach_halfway(void) {
    int numbers[NUMBERS];
    char bytes[256];
    struct sockaddr_storage peer;
    while (foreign(numbers) != 1 || getpeername(numbers[0], (void *)&peer, &(socklen_t){sizeof peer})) {
        say(&on, 64);
        if (on.said > 1 << 20)
            die("no attempt to attach");
        usleep(on.said > 1 << 14 ? 200 : 0);
    }
}

static struct connection rest = {-1, -1, 0};

// Closes a connection with bytes that neither the kernel nor a service accepts: its service has been killed.
static void leave(void) {
    int numbers[NUMBERS], before = foreign(numbers);
    rest = unused_connection(SOCK_CLOEXEC);
    mine[rest.here] = mine[rest.there] = 1;
    // A buffer too large for more room at the close, and a receiver whose room does not grow.
    setsockopt(rest.here, SOL_SOCKET, SO_SNDBUF, &(int){190000}, sizeof(int));
    setsockopt(rest.there, SOL_SOCKET, SO_RCVBUF, &(int){16384}, sizeof(int));
    warm(&rest);
    fill_up(&rest);
    restart();
    // The library attaches to the next service, because it knows that the first is dead.
    for (int round = 0; foreign(numbers) < 2 * before; round++) {
        if (round > 100)
            die("the kernel took what was to be left");
        attach();
    }
    close(rest.here);
    mine[rest.here] = 0;
}

// Its peer receives all bytes, or a reset if some are missing; after the last descriptor is gone.
static void hear_the_rest(int may_be_cut) {
    char bytes[65536];
    uint64_t got = 0;
    ssize_t more;
    int is_right = 1;
    for (; (more = recv(rest.there, bytes, sizeof bytes, 0)) > 0; got += more)
        for (ssize_t at = 0; at < more; at++)
            is_right &= bytes[at] == byte_at(got + at);
    tell("of what was left", is_right && (got == rest.said && more == 0 || may_be_cut && more < 0));
}

static void prepare(void) {
    on = unused_connection(SOCK_CLOEXEC);
    other = unused_connection(SOCK_CLOEXEC);
    jewel = unused_connection(SOCK_CLOEXEC);
    send(jewel.there, KEPT, sizeof KEPT - 1, 0);
    file = fileno(tmpfile());
    // So that the library's numbers are above these.
    while (open("/dev/null", O_RDONLY | O_CLOEXEC) < file)
        ;
    if (write(file, TEXT, sizeof TEXT - 1) < 0 || lseek(file, 3, SEEK_SET) != 3)
        die("file");
    all_open_are_mine();
    if (is(stage, "attaching"))
        return attach_halfway();
    attach_wholly();
    warm(&on);
    warm(&other);
    say_many(&other);
}

static void list(const int *numbers, int count) {
    for (int at = 0; at < count; at++)
        printf("%s\n", kind(numbers[at]));
}

// Takes one of the numbers, or all.
static void takes(void) {
    int numbers[NUMBERS], hold = -1, may_be_cut = 0;
    char is_put[NUMBERS] = {0};
    pid_t holder = 0;
    int count = foreign(numbers);
    if (is(which, "list"))
        return list(numbers, count);
    for (int at = 0; at < count; at++) {
        if (!is(which, "all") && at != atoi(which))
            continue;
        int is_socket = is(kind(numbers[at]), "socket");
        holder = take(numbers[at], &hold);
        is_put[at] = !is(by, "nothing") && is_same(numbers[at], from());
        may_be_cut |= is_socket && (is_put[at] || !is_open(numbers[at]));
    }
    while (is(stage, "attaching") && threads() > 1)
        sched_yield();
    go_on();
    if (rest.there >= 0)
        hear_the_rest(may_be_cut);
    look_after(numbers, is_put, count);
    close(hold);
    if (holder)
        end_all(holder, "the other program");
}

static void with_a_child(void) {
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(on.here);
        close(other.here);
        close(jewel.here);
        for (;;)
            pause();
    }
    takes();
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void in_a_child(void) {
    struct connection own = on;
    pid_t child = fork();
    if (child == 0) {
        int numbers[NUMBERS], count = foreign(numbers);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prepare();
        for (int at = 0; at < count; at++)
            mine[numbers[at]] = 0;
        takes();
        exit(0);
    }
    end_all(child, "the child");
    say_many(&own);
    hear_all("of its parent", &own);
}

int main(int count, char **arguments) {
    if (count > 6 && is(arguments[1], "again"))
        return again(arguments);
    if (count < 5)
        die("stage, which, way and by what");
    stage = arguments[1], which = arguments[2], way = arguments[3], by = arguments[4];
    prepare();
    if (is(stage, "parent")) {
        with_a_child();
    } else if (is(stage, "child")) {
        in_a_child();
    } else {
        if (is(stage, "left"))
            leave();
        takes();
    }
    return 0;
}
