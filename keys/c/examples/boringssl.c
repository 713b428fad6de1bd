/* A TLS server on BoringSSL or AWS-LC whose private key is in the service: one thread, one poll(), and a queue for the
 * signatures of all handshakes.
 *
 *     cc boringssl.c -lsidecore -lssl -lcrypto -o server && ./server www fullchain.pem 8443
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sidecore.h>

enum { CONNECTIONS = 64, RESULTS = 16 };

static const char ANSWER[] = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nit works\n";

typedef struct {
    SSL *ssl; /* null: free */
    int socket;
    uint64_t tag;        /* of the signature in flight */
    int waits, complete; /* for a signature; it is here */
    int status;
    uint32_t len;
    uint8_t signature[SIDECORE_MAX_SIGNATURE];
} connection;

static connection connections[CONNECTIONS];
static uint64_t next_tag;
static sidecore_queue *queue;
static sidecore_key *key;

static connection *of(const SSL *ssl) { return SSL_get_ex_data(ssl, 0); }

static enum ssl_private_key_result_t sign(SSL *ssl, uint8_t *out, size_t *out_len, size_t max_out, uint16_t scheme,
                                          const uint8_t *in, size_t in_len) {
    (void)out, (void)out_len, (void)max_out;
    connection *c = of(ssl);
    /* A connection that ended while its signature was in flight leaves a result with an old tag. */
    c->tag = ++next_tag;
    c->complete = 0;
    if (sidecore_queue_submit_sign(queue, key, scheme, in, in_len, c->tag)) {
        fprintf(stderr, "%s\n", sidecore_error_text());
        return ssl_private_key_failure;
    }
    c->waits = 1;
    return ssl_private_key_retry;
}

/* It is asked for the raw RSA operation, which the service does for no one: there is no RSA key exchange. */
static enum ssl_private_key_result_t decrypt(SSL *ssl, uint8_t *out, size_t *out_len, size_t max_out, const uint8_t *in,
                                             size_t in_len) {
    (void)ssl, (void)out, (void)out_len, (void)max_out, (void)in, (void)in_len;
    return ssl_private_key_failure;
}

static enum ssl_private_key_result_t complete(SSL *ssl, uint8_t *out, size_t *out_len, size_t max_out) {
    connection *c = of(ssl);
    if (!c->complete) return ssl_private_key_retry;
    c->waits = 0;
    if (c->status || c->len > max_out) return ssl_private_key_failure;
    memcpy(out, c->signature, c->len);
    *out_len = c->len;
    return ssl_private_key_success;
}

static const SSL_PRIVATE_KEY_METHOD METHOD = {sign, decrypt, complete};

static void end(connection *c) {
    SSL_free(c->ssl);
    close(c->socket);
    memset(c, 0, sizeof *c);
}

/* Goes on with a connection as far as it can. */
static void advance(connection *c) {
    char request[2048];
    int done = SSL_do_handshake(c->ssl);
    if (done == 1) done = SSL_read(c->ssl, request, sizeof request);
    if (done > 0) {
        SSL_write(c->ssl, ANSWER, sizeof ANSWER - 1);
        SSL_shutdown(c->ssl);
        end(c);
        return;
    }
    switch (SSL_get_error(c->ssl, done)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
    case SSL_ERROR_WANT_PRIVATE_KEY_OPERATION:
        return;
    default:
        ERR_print_errors_fp(stderr);
        end(c);
    }
}

/* All results that are ready, and the handshakes that waited for them. */
static int take_results(void) {
    static sidecore_result results[RESULTS];
    size_t count;
    do {
        if (sidecore_queue_complete(queue, results, RESULTS, &count)) return -1;
        for (size_t at = 0; at < count; at++) {
            const sidecore_result *result = &results[at];
            if (result->status) fprintf(stderr, "%s\n", sidecore_status_text(result->status));
            for (connection *c = connections; c < connections + CONNECTIONS; c++) {
                if (!c->ssl || !c->waits || c->tag != result->tag) continue;
                c->complete = 1;
                c->status = result->status;
                c->len = result->signature_len;
                if (!result->status) memcpy(c->signature, result->signature, result->signature_len);
                advance(c);
                break;
            }
        }
    } while (count == RESULTS);
    return 0;
}

static void accept_one(SSL_CTX *context, int listener) {
    int socket = accept(listener, NULL, NULL);
    if (socket < 0) return;
    for (connection *c = connections; c < connections + CONNECTIONS; c++) {
        if (c->ssl) continue;
        c->ssl = SSL_new(context);
        if (!c->ssl) break;
        fcntl(socket, F_SETFL, O_NONBLOCK);
        c->socket = socket;
        SSL_set_ex_data(c->ssl, 0, c);
        SSL_set_fd(c->ssl, socket);
        SSL_set_accept_state(c->ssl);
        advance(c);
        return;
    }
    close(socket);
}

static void serve(sidecore *service, SSL_CTX *context, int listener) {
    struct pollfd polled[CONNECTIONS + 2];
    int told = 0; /* of this outage */
    for (;;) {
        /* The service ended: the handshakes in flight failed, and the next ones use the next service. */
        if (!queue && sidecore_queue_open(service, 0, &queue) && !told)
            told = fprintf(stderr, "%s\n", sidecore_error_text());
        if (queue && take_results() != 0) {
            fprintf(stderr, "%s\n", sidecore_error_text());
            sidecore_queue_close(queue);
            queue = NULL;
            told = 0;
            continue;
        }
        polled[0] = (struct pollfd){.fd = listener, .events = POLLIN};
        polled[1] = (struct pollfd){.fd = queue ? sidecore_queue_fd(queue) : -1, .events = POLLIN};
        for (int at = 0; at < CONNECTIONS; at++)
            /* A handshake that waits for its signature is not woken by its socket. */
            polled[at + 2] = (struct pollfd){
                .fd = connections[at].ssl && !connections[at].waits ? connections[at].socket : -1, .events = POLLIN};
        if (poll(polled, CONNECTIONS + 2, queue ? -1 : 100) < 0) return;
        if (polled[0].revents) accept_one(context, listener);
        for (int at = 0; at < CONNECTIONS; at++)
            if (connections[at].ssl && !connections[at].waits && polled[at + 2].revents) advance(&connections[at]);
    }
}

static SSL_CTX *context_with(const char *chain) {
    uint16_t schemes[8];
    size_t known = 8;
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    if (!context || SSL_CTX_use_certificate_chain_file(context, chain) != 1) {
        ERR_print_errors_fp(stderr);
        return NULL;
    }
    if (sidecore_key_schemes(key, schemes, &known) || known == 0) {
        fprintf(stderr, "the key may not sign\n");
        return NULL;
    }
    SSL_CTX_set_private_key_method(context, &METHOD);
    SSL_CTX_set_signing_algorithm_prefs(context, schemes, known);
    return context;
}

int main(int count, char **arguments) {
    sidecore *service;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    if (count != 4) {
        fprintf(stderr, "usage: server KEY CHAIN.pem PORT\n");
        return 2;
    }
    if (sidecore_open(NULL, &service) || sidecore_key_load(service, arguments[1], &key)) {
        fprintf(stderr, "%s\n", sidecore_error_text());
        return 1;
    }
    SSL_CTX *context = context_with(arguments[2]);
    if (!context) return 1;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_port = htons((uint16_t)atoi(arguments[3]));
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64) ||
        getsockname(listener, (struct sockaddr *)&address, &len)) {
        perror(arguments[3]);
        return 1;
    }
    fcntl(listener, F_SETFL, O_NONBLOCK);
    printf("listening on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    serve(service, context, listener);
    return 1;
}
