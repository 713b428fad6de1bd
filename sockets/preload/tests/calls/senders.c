// Threads that send on one connection while it enters and leaves its ring, and one beside it on another connection.
#include "connection.h"

#define SENDERS 3
#define RECORDS 60000
// Limit of records in flight: the kernel would cut those without room.
#define AHEAD 400

struct record {
    uint32_t sender, number;
    char rest[56];
};

static struct connection all[2];
static volatile uint32_t heard[SENDERS + 1];

static void *sends(void *argument) {
    long sender = (long)argument;
    unsigned seed = sender;
    struct connection *on = &all[sender == SENDERS];
    struct record records[300] = {0};
    for (uint32_t number = 0; number < RECORDS;) {
        while (number - heard[sender] > AHEAD)
            sched_yield();
        // A large message now and then, after which the connection leaves its ring.
        int count = rand_r(&seed) % 50 ? 1 : 300;
        for (int at = 0; at < count; at++)
            records[at] = (struct record){sender, number + at};
        if (send(on->here, records, count * sizeof *records, 0) != (ssize_t)(count * sizeof *records))
            die("send");
        number += count;
        struct tcp_info info;
        socklen_t len = sizeof info;
        if (rand_r(&seed) % 100 == 0)
            getsockopt(on->here, IPPROTO_TCP, TCP_INFO, &info, &len);
    }
    return NULL;
}

static void *hears(void *argument) {
    struct connection *on = argument;
    struct record record;
    while (recv(on->there, &record, sizeof record, MSG_WAITALL) == sizeof record) {
        if (record.sender > SENDERS || record.number != heard[record.sender])
            die("a record is lost, doubled or cut");
        heard[record.sender]++;
    }
    return NULL;
}

int main(void) {
    pthread_t senders[SENDERS + 1], hearers[2];
    for (int at = 0; at < 2; at++) {
        all[at] = connection(SOCK_CLOEXEC);
        hear(&all[at], 0, all[at].said);
        pthread_create(&hearers[at], NULL, hears, &all[at]);
    }
    for (long sender = 0; sender <= SENDERS; sender++)
        pthread_create(&senders[sender], NULL, sends, (void *)sender);
    for (int sender = 0; sender <= SENDERS; sender++)
        pthread_join(senders[sender], NULL);
    for (int at = 0; at < 2; at++) {
        close(all[at].here);
        pthread_join(hearers[at], NULL);
    }
    for (int sender = 0; sender <= SENDERS; sender++)
        tell("heard all", heard[sender] >= RECORDS);
    return 0;
}
