// A daemon that sends as root first, and then as the user that it becomes.
#include "connection.h"

int main(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    warm(&on);
    if (setuid(54321))
        die("setuid");
    for (int round = 0; round < 100; round++) {
        warm(&on);
        usleep(10000);
    }
    hear_all("as another user", &on);
    return 0;
}
