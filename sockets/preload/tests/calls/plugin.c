// A library that calls the C library by itself.
#include <sys/types.h>
#include <unistd.h>

ssize_t writes(int fd, const void *bytes, size_t len) {
    return write(fd, bytes, len);
}
