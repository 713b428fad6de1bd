// Leaves a connection while its peer reads nothing: `left PORT close|shutdown|exit`. Prints the number of accepted bytes.
#include "connection.h"

int main(int count, char **arguments) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct connection on = {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), -1, 0};
    char byte;
    if (count < 3)
        die("port and how to leave");
    address.sin_port = htons(atoi(arguments[1]));
    if (connect(on.here, (void *)&address, sizeof address))
        die("connect");
    fcntl(on.here, F_SETFL, O_RDWR | O_NONBLOCK);
    for (int full = 0; full < 200;) {
        char bytes[64];
        for (size_t at = 0; at < sizeof bytes; at++)
            bytes[at] = byte_at(on.said + at);
        ssize_t sent = send(on.here, bytes, sizeof bytes, 0);
        full = sent < 0 ? full + 1 : 0;
        on.said += sent < 0 ? 0 : sent;
        if (sent < 0)
            usleep(1000);
    }
    if (!strcmp(arguments[2], "close"))
        close(on.here);
    else if (!strcmp(arguments[2], "shutdown"))
        shutdown(on.here, SHUT_WR);
    tell("accepted", on.said);
    if (strcmp(arguments[2], "exit"))
        read(0, &byte, 1);
    _exit(0);
}
