// A program that is linked with liburing, and makes a ring only when its connection may be in a ring of the library. By MAKER
// another library makes it, or liburing itself, which is loaded and asked for its functions.
#include "connection.h"
#include <dirent.h>
#include <dlfcn.h>
#include <liburing.h>

// Number of threads.
static void threads(const char *when) {
    int count = -2;
    DIR *all = opendir("/proc/self/task");
    while (readdir(all))
        count++;
    closedir(all);
    printf("threads %s: %d\n", when, count);
    fflush(stdout);
}

static int make(struct io_uring *ring) {
    struct io_uring_params parameters = {0};
    const char *maker = getenv("MAKER");
    if (!strcmp(maker, "init"))
        return io_uring_queue_init(8, ring, 0);
    if (!strcmp(maker, "params"))
        return io_uring_queue_init_params(8, ring, &parameters);
    if (!strcmp(maker, "call")) {
        int fd = syscall(SYS_io_uring_setup, 8, &parameters);
        return fd < 0 ? -errno : io_uring_queue_mmap(fd, &parameters, ring);
    }
    void *library = dlopen(maker, RTLD_NOW);
    if (!library)
        die(dlerror());
    int (*init)(unsigned, struct io_uring *, unsigned) = dlsym(library, "makes");
    if (!init)
        init = dlsym(library, "io_uring_queue_init");
    return init(8, ring, 0);
}

static void say_by_ring(struct io_uring *ring, struct connection *on, int (*submit)(struct io_uring *)) {
    char bytes[64];
    struct io_uring_cqe *done;
    fill(on, bytes, sizeof bytes);
    io_uring_prep_send(io_uring_get_sqe(ring), on->here, bytes, sizeof bytes, 0);
    if (submit(ring) != 1 || io_uring_wait_cqe(ring, &done) || done->res != sizeof bytes)
        die("a ring");
    io_uring_cqe_seen(ring, done);
}

int main(void) {
    struct connection on = connection(SOCK_CLOEXEC), other = connection(SOCK_CLOEXEC);
    struct io_uring ring;
    warm(&other);
    threads("without a ring");
    warm(&on);
    int error = make(&ring);
    if (error) {
        printf("no ring here: %s\n", strerror(-error));
        return 0;
    }
    for (int round = 0; round < 200; round++) {
        say_by_ring(&ring, &on, io_uring_submit);
        for (int message = 0; message < round % 40; message++)
            say(&on, 64);
    }
    attach();
    warm(&on);
    threads("with a ring");
    hear_all("in two ways", &on);
    hear_all("in one way", &other);
    return 0;
}
