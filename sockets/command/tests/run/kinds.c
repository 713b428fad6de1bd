// Takes orders from standard input, one a line: a letter and the digit of a connection, ':' for the tenth. Prints the descriptor's number.
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char bytes[32768];

static int opened(int kind, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int made = socket(AF_INET, kind, 0);
    if (connect(made, (struct sockaddr *)&address, sizeof address)) exit(1);
    return made;
}

// A connection of this process with itself, whose listener has an option that only the kernel understands.
static int inherited(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct linger linger = {1, 5};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1)) exit(2);
    if (setsockopt(listener, SOL_SOCKET, SO_LINGER, &linger, sizeof linger)) exit(3);
    getsockname(listener, (struct sockaddr *)&address, &size);
    opened(SOCK_STREAM, ntohs(address.sin_port));
    return accept(listener, NULL, NULL);
}

static void act(char what, int fd) {
    struct linger linger = {1, 5};
    switch (what) {
    case 's':
        for (int i = 0; i < 50; i++)
            if (send(fd, bytes, 64, 0) != 64) exit(4);
        break;
    case 'l':
        for (int i = 0; i < 8; i++)
            if (send(fd, bytes, sizeof bytes, 0) != sizeof bytes) exit(5);
        break;
    case 'a':
        for (int i = 0; i < 40; i++)
            if (send(fd, "?", 1, 0) != 1 || recv(fd, bytes, 1, 0) != 1) exit(6);
        break;
    case 'o':
        if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger)) exit(7);
        break;
    case 'd':
        dup(fd);
        break;
    case 'c':
        close(fd);
    }
}

int main(int count, char **arguments) {
    int sockets[11];
    char line[16];
    memset(bytes, 'x', sizeof bytes);
    for (int i = 0; i < 9; i++) sockets[i] = opened(SOCK_STREAM, atoi(arguments[1]));
    sockets[9] = inherited();
    sockets[10] = opened(SOCK_DGRAM, atoi(arguments[1]));
    while (fgets(line, sizeof line, stdin)) {
        int fd = sockets[line[1] - '0'];
        act(line[0], fd);
        memset(bytes, 'x', sizeof bytes);
        printf("%d\n", fd);
        fflush(stdout);
    }
    return 0;
}
