// A program that sends on one connection by the C library and by system calls of its own.
#include "connection.h"

static long by_itself(int fd, const void *bytes, size_t len) {
#ifdef __aarch64__
    register long number __asm__("x8") = SYS_write;
    register long first __asm__("x0") = fd;
    register const void *second __asm__("x1") = bytes;
    register size_t third __asm__("x2") = len;
    __asm__ volatile("svc 0" : "+r"(first) : "r"(number), "r"(second), "r"(third) : "memory");
    return first;
#else
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(SYS_write), "D"(fd), "S"(bytes), "d"(len) : "rcx", "r11", "memory");
    return result;
#endif
}

static void say_by_itself(struct connection *on, size_t len) {
    char bytes[256];
    fill(on, bytes, len);
    if (by_itself(on->here, bytes, len) != (long)len)
        die("a call of its own");
}

int main(void) {
    struct connection other = connection(SOCK_CLOEXEC);
    for (int every = 2; every <= 32; every *= 2) {
        struct connection on = unused_connection(SOCK_CLOEXEC);
        say_by_itself(&on, 64);
        for (int message = 1; message < 600; message++)
            if (message % every)
                say(&on, 64);
            else
                say_by_itself(&on, 64);
        hear_all("in two ways", &on);
        end(&on);
    }
    // One that is accepted.
    struct connection on = unused_connection(SOCK_CLOEXEC), back = {on.there, on.here, 0};
    say_by_itself(&back, 64);
    for (int message = 0; message < 600; message++)
        say(&back, 64);
    say_by_itself(&back, 64);
    hear_all("in two ways back", &back);
    warm(&other);
    hear_all("in one way", &other);
    return 0;
}
