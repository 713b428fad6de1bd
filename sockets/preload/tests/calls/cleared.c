// A program that clears its environment before it has any connection, as some do for their workers.
#include "connection.h"

int main(void) {
    clearenv();
    struct connection on = connection(SOCK_CLOEXEC);
    warm(&on);
    usleep(100000);
    hear_all("without an environment", &on);
    end(&on);
    return 0;
}
