// A program and its children check for leaked memory at their end.
#include "connection.h"

int main(void) {
    struct connection on = connection(SOCK_CLOEXEC);
    pid_t child = fork();
    struct connection next = connection(SOCK_CLOEXEC);
    if (child == 0) {
        hear_all("in a child", &next);
        exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    tell("a child", status);
    hear_all("in its parent", &next);
    return 0;
}
