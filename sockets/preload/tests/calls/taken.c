// A child and its parent reuse the numbers of the library's pipes: the new files must not be written, read or closed.
#include "connection.h"
#include <sys/stat.h>

// Opens files at all numbers of pipes that are not the program's; returns their number.
static int take_pipes(int file) {
    int taken = 0;
    for (int fd = 3; fd < 5000; fd++) {
        char name[64], of[64] = {0};
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        if (readlink(name, of, sizeof of - 1) > 0 && !strncmp(of, "pipe:", 5)) {
            syscall(SYS_dup3, file, fd, O_CLOEXEC);
            taken++;
        }
    }
    return taken;
}

static void pass_on(int fd) {
    int pair[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    pass(pair[0], fd);
    close(pair[0]);
    close(pair[1]);
}

int main(void) {
    char content[16] = {0};
    struct connection on = connection(SOCK_CLOEXEC);
    FILE *file = tmpfile();
    int number = fileno(file), status;
    write(number, "untouched", 9);
    lseek(number, 0, SEEK_SET);
    pid_t child = fork();
    if (child == 0) {
        take_pipes(number);
        pass_on(on.here);
        for (int fd = 1000; fd < 5000; fd++)
            if (fcntl(fd, F_GETFD) >= 0 && fd != number)
                fsync(fd);
        _exit(0);
    }
    waitpid(child, &status, 0);
    tell("child", status);
    child = fork();
    if (child == 0) {
        usleep(200000);
        _exit(0);
    }
    int before = take_pipes(number), after = 0, kept = 0;
    warm(&on);
    warm(&on);
    waitpid(child, &status, 0);
    warm(&on);
    for (int fd = 3; fd < 5000; fd++) {
        struct stat here, there;
        if (fd != number && !fstat(fd, &here) && !fstat(number, &there) && here.st_ino == there.st_ino) {
            after++;
            kept += close(fd) != 0;
        }
    }
    tell("taken numbers that were closed", before - after);
    tell("taken numbers that cannot be closed", kept);
    tell("where the file is read", lseek(number, 0, SEEK_CUR));
    pread(number, content, sizeof content, 0);
    tell(content, 0);
    hear_all("all", &on);
    return 0;
}
