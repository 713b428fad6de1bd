// A library that makes a ring by liburing; possibly nothing else uses liburing.
#include <liburing.h>

int makes(unsigned entries, struct io_uring *ring, unsigned flags) {
    return io_uring_queue_init(entries, ring, flags);
}
