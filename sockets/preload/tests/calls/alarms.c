// A handler opens, uses and closes connections at any moment, while the program does the same.
#include "connection.h"

#define ROUNDS 12000
#define MESSAGES 8
#define EACH 64

// The program's own, and the handler's.
static struct place {
    struct sockaddr_in address;
    int listener;
} places[2];
static volatile long in_handlers;

// Bytes that the peer of one connection received, until its end.
static long one_connection(struct place *at) {
    char bytes[EACH] = {0}, got[MESSAGES * EACH];
    long heard = 0;
    ssize_t result;
    int here = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(here, (void *)&at->address, sizeof at->address))
        die("connect");
    for (int message = 0; message < MESSAGES; message++)
        if (send(here, bytes, sizeof bytes, 0) != sizeof bytes)
            die("send");
    close(here);
    int there = accept4(at->listener, NULL, NULL, SOCK_CLOEXEC);
    if (there < 0)
        die("accept");
    while ((result = recv(there, got, sizeof got, 0)) > 0)
        heard += result;
    close(there);
    return result == 0 ? heard : -1;
}

// Sets the next alarm with a delay; without one the program would make no progress.
static void alarm_soon(void) {
    static unsigned seed;
    struct itimerval soon = {{0, 0}, {0, 20 + rand_r(&seed) % 200}};
    setitimer(ITIMER_REAL, &soon, NULL);
}

static void on_alarm(int signal) {
    (void)signal;
    int error = errno;
    in_handlers += one_connection(&places[1]) != MESSAGES * EACH ? -1000000 : 1;
    alarm_soon();
    errno = error;
}

int main(void) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval never = {{0, 0}, {0, 0}};
    long whole = 0;
    for (struct place *at = places; at < places + 2; at++) {
        socklen_t len = sizeof at->address;
        at->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        at->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(at->listener, (void *)&at->address, len) || listen(at->listener, 16) ||
            getsockname(at->listener, (void *)&at->address, &len))
            die("listen");
    }
    sigaction(SIGALRM, &action, NULL);
    alarm_soon();
    for (int round = 0; round < ROUNDS; round++)
        whole += one_connection(&places[0]) == MESSAGES * EACH;
    setitimer(ITIMER_REAL, &never, NULL);
    tell("whole connections", whole);
    tell("and in handlers", in_handlers > 0);
    return 0;
}
