// Rare ways to send on a connection, to copy it and to pass it to a new process. None may overtake earlier bytes.
#include "connection.h"
#include <execinfo.h>
#include <linux/aio_abi.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <wordexp.h>

FILE *_IO_fdopen(int, const char *);
FILE *_IO_popen(const char *, const char *);
int __clone(int (*)(void *), void *, int, void *, ...);

// A copy that the process takes from itself, if the kernel allows it.
static void taken(void) {
    struct connection on = connection(SOCK_CLOEXEC), first = on;
    int self = syscall(SYS_pidfd_open, getpid(), 0);
    int copy = syscall(SYS_pidfd_getfd, self, on.here, 0);
    if (copy < 0)
        copy = dup(on.here);
    for (int round = 0; round < 3; round++) {
        on.here = copy;
        warm(&on);
        on.here = first.here;
        warm(&on);
    }
    tell("no descriptor", syscall(SYS_pidfd_getfd, self, -1, 0));
    hear_all("pidfd_getfd", &on);
    close(copy);
    close(self);
    end(&on);
}

static void submitted(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    char bytes[300];
    aio_context_t context = 0;
    struct io_event event;
    fill(&on, bytes, sizeof bytes);
    struct iocb block = {.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = on.here}, *list[] = {&block, (void *)8};
    block.aio_buf = (uintptr_t)bytes;
    block.aio_nbytes = sizeof bytes;
    if (syscall(SYS_io_setup, 4, &context)) {
        write(on.here, bytes, sizeof bytes);
    } else {
        if (syscall(SYS_io_submit, context, 2, list) != 1 || syscall(SYS_io_getevents, context, 1, 1, &event, NULL) != 1)
            die("io_submit");
        if (event.res != sizeof bytes)
            die("io_getevents");
        syscall(SYS_io_destroy, context);
    }
    warm(&on);
    hear_all("io_submit", &on);
    end(&on);
}

static void written(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    char bytes[33] = {0};
    eventfd_t value;
    fill(&on, (char *)&value, sizeof value);
    tell("eventfd_write", eventfd_write(on.here, value));
    warm(&on);
    FILE *file = _IO_fdopen(on.here, "w");
    fill(&on, bytes, 32);
    fprintf(file, "%s", bytes);
    fflush(file);
    warm(&on);
    hear_all("written", &on);
    fclose(file);
    close(on.there);

    on = connection(SOCK_CLOEXEC);
    uint64_t said = on.said;
    void *address = (void *)&errno;
    char last = 0;
    backtrace_symbols_fd(&address, 1, on.here);
    tell("before the trace", hear(&on, 0, said) == (long)said);
    close(on.here);
    while (read(on.there, bytes, 1) == 1)
        last = bytes[0];
    tell("the trace", last);
    close(on.there);
}

static int in_clone(void *on) {
    warm(on);
    return 5;
}

static void processes(void) {
    struct connection on = connection(0);
    char command[200], bytes[33] = {0}, stack[65536] __attribute__((aligned(16)));
    int status = -1;
    wordexp_t words;
    fill(&on, bytes, 32);
    sprintf(command, "a $(printf %%s %s 1>&%d; echo b)", bytes, on.here);
    tell("wordexp", wordexp(command, &words, 0));
    tell("words", words.we_wordc);
    wordfree(&words);
    warm(&on);
    tell("wordexp without commands", wordexp("$HOME/x y", &words, WRDE_NOCMD));
    wordfree(&words);
    warm(&on);

    fill(&on, bytes, 32);
    sprintf(command, "printf %%s %s >&%d", bytes, on.here);
    tell("_IO_popen", pclose(_IO_popen(command, "r")));
    warm(&on);

    pid_t pid = __clone(in_clone, stack + sizeof stack, SIGCHLD, &on);
    waitpid(pid, &status, 0);
    tell("__clone", status);
    on.said += 40 * 64;
    warm(&on);
    hear_all("processes", &on);
    end(&on);
}

int main(void) {
    taken();
    submitted();
    written();
    processes();
    return 0;
}
