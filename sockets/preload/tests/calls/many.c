// More connections than places in one bank: all enter rings.
#include "connection.h"

#define CONNECTIONS 150

int main(void) {
    static struct connection all[CONNECTIONS];
    long whole = 0;
    for (int at = 0; at < CONNECTIONS; at++)
        all[at] = unused_connection(SOCK_CLOEXEC);
    for (int row = 0; row < 100; row++) {
        for (int at = 0; at < CONNECTIONS; at++)
            for (int message = 0; message < 12; message++)
                say(&all[at], 64);
        usleep(5000);
    }
    for (int at = 0; at < CONNECTIONS; at++)
        whole += hear(&all[at], 0, all[at].said) == (long)all[at].said;
    tell("whole connections", whole);
    return 0;
}
