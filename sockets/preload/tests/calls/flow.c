// Messages of all sizes on several connections for some seconds; each byte is compared. Forks, started programs and queries
// take connections out of their rings. `flow SECONDS`
#include "connection.h"

#define CONNECTIONS 6

static struct connection all[CONNECTIONS];
static time_t until;

static void *hears(void *argument) {
    struct connection *on = argument;
    char bytes[65536];
    unsigned seed = on->there;
    uint64_t heard = 0;
    ssize_t result;
    while ((result = recv(on->there, bytes, sizeof bytes, 0)) > 0) {
        for (ssize_t at = 0; at < result; at++, heard++)
            if (bytes[at] != byte_at(heard))
                die("a byte is wrong");
        if (rand_r(&seed) % 1000 == 0)
            usleep(3000);
    }
    if (result < 0)
        die("recv");
    return (void *)heard;
}

static void *says(void *argument) {
    struct connection *on = argument;
    unsigned seed = on->here;
    while (time(NULL) < until) {
        for (int message = 0; message < 200; message++)
            say(on, 1 + rand_r(&seed) % 200);
        if (rand_r(&seed) % 4 == 0)
            usleep(rand_r(&seed) % 2000);
    }
    if (shutdown(on->here, SHUT_WR))
        die("shutdown");
    return NULL;
}

static void *disturbs(void *unused) {
    for (int round = 0; time(NULL) < until; round++) {
        int here = all[round % CONNECTIONS].here, value;
        struct tcp_info info;
        socklen_t len = sizeof info;
        pid_t pid;
        switch (round % 5) {
        case 0:
            if ((pid = fork()) == 0)
                _exit(0);
            waitpid(pid, NULL, 0);
            break;
        case 1:
            if ((pid = vfork()) == 0) {
                execl("/bin/true", "true", (char *)NULL);
                _exit(1);
            }
            waitpid(pid, NULL, 0);
            break;
        case 2:
            getsockopt(here, IPPROTO_TCP, TCP_INFO, &info, &len);
            break;
        case 3:
            ioctl(here, 0x12345678, &value);
            break;
        case 4:
            ioctl(here, SIOCOUTQ, &value);
        }
        usleep(3000);
    }
    return unused;
}

int main(int count, char **arguments) {
    pthread_t sayers[CONNECTIONS], hearers[CONNECTIONS], disturber;
    until = time(NULL) + (count > 1 ? atoi(arguments[1]) : 1);
    for (int at = 0; at < CONNECTIONS; at++) {
        all[at] = unused_connection(SOCK_CLOEXEC);
        pthread_create(&sayers[at], NULL, says, &all[at]);
        pthread_create(&hearers[at], NULL, hears, &all[at]);
    }
    pthread_create(&disturber, NULL, disturbs, NULL);
    for (int at = 0; at < CONNECTIONS; at++) {
        void *heard;
        pthread_join(sayers[at], NULL);
        pthread_join(hearers[at], &heard);
        tell("heard all", (uint64_t)heard == all[at].said);
    }
    pthread_join(disturber, NULL);
    return 0;
}
