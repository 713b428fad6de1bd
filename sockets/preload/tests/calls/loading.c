// A program with a connection in a ring starts others, in each way that there is. Their paths are in the variables
// DYNAMIC, STATIC, ASAN and MUSL, and the directory of all of them is the first in PATH.
#include "connection.h"

#ifndef execveat
int execveat(int directory, const char *path, char *const arguments[], char *const environment[], int flags);
#endif

static struct connection on;
static char *path, *name;
static char *arguments[] = {"target", "1", "2", "3", "4", "5", "6", "7", NULL};

static int file(void) {
    return open(path, O_PATH);
}

static void in_execve(void) {
    execve(path, arguments, environ);
}
static void in_execv(void) {
    execv(path, arguments);
}
static void in_execvp(void) {
    execvp(name, arguments);
}
static void in_execvpe(void) {
    execvpe(name, arguments, environ);
}
static void in_execl(void) {
    execl(path, "target", "1", "2", "3", "4", "5", "6", "7", (char *)NULL);
}
static void in_short_execl(void) {
    execl(path, "target", (char *)NULL);
}
static void in_execlp(void) {
    execlp(name, "target", "1", "2", "3", "4", "5", "6", "7", (char *)NULL);
}
static void in_execle(void) {
    execle(path, "target", "1", "2", "3", "4", "5", "6", "7", (char *)NULL, environ);
}
static void in_short_execle(void) {
    execle(path, "target", "1", (char *)NULL, environ);
}
static void in_fexecve(void) {
    fexecve(file(), arguments, environ);
}
static void in_execveat(void) {
    execveat(AT_FDCWD, path, arguments, environ, 0);
}
static void in_execveat_of_a_directory(void) {
    execveat(open(getenv("PLACE"), O_PATH), name, arguments, environ, 0);
}
static void in_execveat_of_a_file(void) {
    execveat(file(), "", arguments, environ, AT_EMPTY_PATH);
}
static void in_a_call(void) {
    syscall(SYS_execve, path, arguments, environ);
}
static void in_a_call_at(void) {
    syscall(SYS_execveat, AT_FDCWD, path, arguments, environ, 0);
}
static void after_a_failure(void) {
    execv("/nowhere", arguments);
    execv("/dev/null", arguments);
    if (errno != EACCES)
        die("errno");
    execv(path, arguments);
}
static void beside_another_library(void) {
    char list[8192], *environment[] = {"A=1", list, "B=2", NULL};
    char *ours = getenv("LD_PRELOAD");
    sprintf(list, "LD_PRELOAD=%s%s/nowhere.so", ours ? ours : "", ours ? ":" : "");
    execve(path, arguments, environment);
}
static void without_an_environment(void) {
    execve(path, arguments, NULL);
}

// Prints the program's output from `from`, and its exit status.
static void heard(const char *way, const char *target, int from, pid_t pid) {
    char bytes[4096];
    ssize_t len = 0, more;
    int status = -1;
    while ((more = read(from, bytes + len, sizeof bytes - 1 - len)) > 0)
        len += more;
    bytes[len] = 0;
    waitpid(pid, &status, 0);
    printf("%s %s: %d %s%s", target, way, status, bytes, len ? "" : "\n");
    fflush(stdout);
    close(from);
}

static void run(const char *way, const char *target, void (*become)(void), int is_vfork) {
    int said[2];
    pipe2(said, O_CLOEXEC);
    pid_t pid = is_vfork ? vfork() : fork();
    if (pid == 0) {
        dup2(said[1], 1);
        become();
        _exit(99);
    }
    close(said[1]);
    heard(way, target, said[0], pid);
}

static void spawn(const char *way, const char *target, int (*how)(), const char *what) {
    int said[2];
    pid_t pid = 0;
    posix_spawn_file_actions_t actions;
    pipe2(said, O_CLOEXEC);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, said[1], 1);
    int error = how(&pid, what, &actions, NULL, arguments, environ);
    if (error)
        printf("%s: %s\n", way, strerror(error));
    posix_spawn_file_actions_destroy(&actions);
    close(said[1]);
    heard(way, target, said[0], pid);
}

static void by_the_shell(const char *target) {
    char command[4096];
    fflush(stdout);
    sprintf(command, "%s 1 2 3", path);
    printf("%s system: ", target);
    fflush(stdout);
    printf("%d\n", system(command));
    FILE *from = popen(command, "r");
    char bytes[4096] = "";
    fgets(bytes, sizeof bytes, from);
    printf("%s popen: %d %s", target, pclose(from), bytes);
}

static const struct {
    const char *name;
    void (*become)(void);
} WAYS[] = {
    {"execve", in_execve},
    {"execv", in_execv},
    {"execvp", in_execvp},
    {"execvpe", in_execvpe},
    {"execl", in_execl},
    {"short execl", in_short_execl},
    {"execlp", in_execlp},
    {"execle", in_execle},
    {"short execle", in_short_execle},
    {"fexecve", in_fexecve},
    {"execveat", in_execveat},
    {"execveat of a directory", in_execveat_of_a_directory},
    {"execveat of a file", in_execveat_of_a_file},
    {"SYS_execve", in_a_call},
    {"SYS_execveat", in_a_call_at},
    {"after a failure", after_a_failure},
};

// How much memory the process has, KiB.
static long size(void) {
    long pages = 0;
    FILE *from = fopen("/proc/self/statm", "r");
    fscanf(from, "%ld", &pages);
    fclose(from);
    return pages * 4;
}

int main(void) {
    char *targets[] = {"DYNAMIC", "STATIC", "ASAN", "MUSL", "SCRIPT", "TEXT"};
    on = connection(SOCK_CLOEXEC);
    for (int target = 0; target < 6; target++) {
        path = getenv(targets[target]);
        name = strrchr(path, '/') + 1;
        for (int way = 0; way < sizeof WAYS / sizeof *WAYS; way++)
            for (int is_vfork = 0; is_vfork < 2; is_vfork++) {
                warm(&on);
                run(WAYS[way].name, targets[target], WAYS[way].become, is_vfork);
            }
        spawn("posix_spawn", targets[target], posix_spawn, path);
        spawn("posix_spawnp", targets[target], posix_spawnp, name);
        by_the_shell(targets[target]);
    }
    path = getenv("STATIC");
    run("beside another library", "STATIC", beside_another_library, 0);
    run("without an environment", "STATIC", without_an_environment, 0);
    // What children in this memory take is given back.
    long before = size();
    for (int child = 0; child < 300; child++)
        run("execl", "STATIC", in_execl, 1);
    tell("memory is given back", size() - before < 600);
    hear_all("after all", &on);
    return 0;
}
