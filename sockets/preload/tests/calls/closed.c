// A thread sends, and the peer reads nothing. Another thread closes the number and makes a connection there, which must
// receive nothing.
#include "connection.h"

#define BYTES 8000000

static struct connection first;

static void *sends(void *unused) {
    char *bytes = malloc(BYTES);
    memset(bytes, 'o', BYTES);
    // One call, which goes on with what it began with, or ends.
    send(first.here, bytes, BYTES, MSG_NOSIGNAL);
    free(bytes);
    return unused;
}

int main(void) {
    long strange = 0;
    for (int round = 0; round < 20; round++) {
        pthread_t thread;
        char bytes[4096];
        ssize_t got;
        first = connection(SOCK_CLOEXEC);
        int number = first.here, old = first.there;
        pthread_create(&thread, NULL, sends, NULL);
        usleep(30000);
        struct connection next = unused_connection(SOCK_CLOEXEC);
        // As `close` and `accept` by one call.
        if (dup2(next.here, number) != number)
            die("dup2");
        // The old peer takes all that comes, and the thread goes on.
        for (struct pollfd one = {old, POLLIN, 0}; poll(&one, 1, 200) == 1;)
            if (recv(old, bytes, sizeof bytes, 0) <= 0)
                break;
        close(old);
        while ((got = recv(next.there, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
            strange += got;
        // So that a thread that sends there without end comes to one.
        close(next.there);
        pthread_join(thread, NULL);
        close(number);
        close(next.here);
    }
    tell("bytes of another connection", strange);
    return 0;
}
