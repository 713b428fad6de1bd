// Numbered datagrams of equal and different sizes on several sockets, connected and unconnected, for some seconds. Forks and
// queries take the sockets out of their rings. No datagram may be lost, doubled or late. `datagram_flow SECONDS`
#include "connection.h"
#include <stdatomic.h>

#define FLOWS 4
#define AHEAD 2000
#define LAST UINT64_MAX

struct flow {
    int here, there, is_named;
    struct sockaddr_in address;
    uint64_t said;
    atomic_ulong heard;
};

static struct flow all[FLOWS];
static time_t until;

static void *hears(void *argument) {
    struct flow *on = argument;
    uint64_t datagram[200], next = 0;
    for (;;) {
        struct pollfd one = {on->there, POLLIN, 0};
        if (poll(&one, 1, 30000) != 1)
            die("a datagram is lost");
        ssize_t len = recv(on->there, datagram, sizeof datagram, 0);
        if (len < 16 || datagram[1] != (uint64_t)len)
            die("a datagram is not whole");
        if (datagram[0] == LAST)
            return (void *)next;
        if (datagram[0] != next)
            die("a datagram is lost, doubled or late");
        atomic_store(&on->heard, ++next);
    }
}

static void say_one(struct flow *on, uint64_t number, size_t len) {
    uint64_t datagram[200] = {number, len};
    ssize_t sent = on->is_named ? sendto(on->here, datagram, len, 0, (void *)&on->address, sizeof on->address)
                                : send(on->here, datagram, len, 0);
    if (sent != (ssize_t)len)
        die("send");
}

static void *says(void *argument) {
    struct flow *on = argument;
    unsigned seed = on->here;
    while (time(NULL) < until) {
        // Of one size for a while, and then of others.
        int is_mixed = rand_r(&seed) % 4 == 0;
        for (int at = 0; at < 300; at++)
            say_one(on, on->said++, is_mixed ? 16 + rand_r(&seed) % 1000 : at % 50 ? 64 : 200);
        while (on->said - atomic_load(&on->heard) > AHEAD)
            usleep(100);
    }
    say_one(on, LAST, 16);
    return NULL;
}

static void *disturbs(void *unused) {
    for (int round = 0; time(NULL) < until; round++) {
        int here = all[round % FLOWS].here, value = 64;
        pid_t pid;
        switch (round % 4) {
        case 0:
            if ((pid = fork()) == 0)
                _exit(0);
            waitpid(pid, NULL, 0);
            break;
        case 1: setsockopt(here, IPPROTO_IP, IP_TTL, &value, sizeof value); break;
        case 2: ioctl(here, 0x12345678, &value); break;
        case 3: ioctl(here, SIOCOUTQ, &value);
        }
        usleep(3000);
    }
    return unused;
}

int main(int count, char **arguments) {
    pthread_t sayers[FLOWS], hearers[FLOWS], disturber;
    until = time(NULL) + (count > 1 ? atoi(arguments[1]) : 1);
    for (int at = 0; at < FLOWS; at++) {
        struct flow *on = &all[at];
        socklen_t len = sizeof on->address;
        int bytes = 32 << 20;
        *on = (struct flow){socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
        on->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        if (setsockopt(on->there, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes))
            die("a large buffer");
        if (bind(on->there, (void *)&on->address, len) || getsockname(on->there, (void *)&on->address, &len))
            die("bind");
        on->is_named = at % 2;
        if (!on->is_named && connect(on->here, (void *)&on->address, len))
            die("connect");
        pthread_create(&sayers[at], NULL, says, on);
        pthread_create(&hearers[at], NULL, hears, on);
    }
    pthread_create(&disturber, NULL, disturbs, NULL);
    for (int at = 0; at < FLOWS; at++) {
        void *heard;
        pthread_join(sayers[at], NULL);
        pthread_join(hearers[at], &heard);
        tell("heard all", (uint64_t)heard == all[at].said);
    }
    pthread_join(disturber, NULL);
    return 0;
}
