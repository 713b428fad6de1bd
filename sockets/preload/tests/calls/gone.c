// Messages in rows, with pauses, on one connection after the other: `gone SECONDS`
#include "connection.h"

int main(int count, char **arguments) {
    time_t until = time(NULL) + (count > 1 ? atoi(arguments[1]) : 1);
    long whole = 1;
    while (time(NULL) < until) {
        struct connection on = connection(SOCK_CLOEXEC);
        for (int message = 0; message < 20; message++)
            say(&on, 64);
        usleep(20000);
        for (int message = 0; message < 20; message++)
            say(&on, 64);
        whole &= hear(&on, 0, on.said) == on.said;
        end(&on);
    }
    tell("whole connections", whole);
    return 0;
}
