// A handler sends enough for a ring at any moment within the allocator; the program still gets rings.
#include "connection.h"

static struct connection on;
static volatile long handlers;

static void on_alarm(int signal) {
    int error = errno;
    char byte = signal, bytes[256];
    for (int message = 0; message < 40; message++)
        if (send(on.here, &byte, 1, 0) != 1)
            die("send");
    while (recv(on.there, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    handlers++;
    errno = error;
}

int main(void) {
    struct itimerval soon = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    for (int child = 0; child < 40; child++) {
        pid_t pid = fork();
        if (pid == 0) {
            on = unused_connection(SOCK_CLOEXEC);
            sigaction(SIGALRM, &action, NULL);
            setitimer(ITIMER_REAL, &soon, NULL);
            while (handlers < 40) {
                void *some[64];
                for (int at = 0; at < 64; at++)
                    some[at] = malloc(1 + at * 700);
                for (int at = 0; at < 64; at++)
                    free(some[at]);
            }
            setitimer(ITIMER_REAL, &never, NULL);
            _exit(0);
        }
        int status;
        waitpid(pid, &status, 0);
        if (status)
            die("a child");
    }
    on = connection(SOCK_CLOEXEC);
    warm(&on);
    hear_all("after the handlers", &on);
    return 0;
}
