/* libsidecore: signatures and decryption with keys of the sidecore service. The private key is never in the program.
 *
 *     sidecore *service;
 *     sidecore_key *key;
 *     uint8_t signature[SIDECORE_MAX_SIGNATURE];
 *     size_t len = sizeof signature;
 *     if (sidecore_open(NULL, &service) || sidecore_key_load(service, "www", &key) ||
 *         sidecore_sign(key, SIDECORE_ECDSA_SECP256R1_SHA256, message, message_len, signature, &len))
 *         fprintf(stderr, "%s\n", sidecore_error_text());
 *
 * Each function that returns int gives SIDECORE_OK or another number of enum sidecore_status. Pointers that a function
 * takes are valid for the call; a null pointer is SIDECORE_ARGUMENT, but where it says otherwise. Link with -lsidecore.
 */
#ifndef SIDECORE_H
#define SIDECORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Room for any signature of today's keys, bytes. With out as null, sidecore_sign gives the room that a key needs. */
#define SIDECORE_MAX_SIGNATURE 3312

enum sidecore_status {
    SIDECORE_OK = 0,
    SIDECORE_SERVICE = 1,     /* the service failed or refused, for a reason that has no number of its own */
    SIDECORE_KEY = 2,         /* the key or its file cannot be used */
    SIDECORE_UNSUPPORTED = 3, /* the key does not do this, or not by this scheme */
    SIDECORE_INPUT = 4,       /* the message or ciphertext does not fit */
    SIDECORE_PRIVATE = 5,     /* never: no function asks for a private key */
    SIDECORE_INTERNAL = 6,    /* memory, descriptors, or a defect */
    SIDECORE_ABSENT = 7,      /* no service answers, or it ended: a queue ends with it */
    SIDECORE_NO_KEY = 8,      /* the service has no key of this name */
    SIDECORE_NOT_ALLOWED = 9, /* this user may not use the key, or the key is not for this operation */
    SIDECORE_REPLACED = 10,   /* the service has another key of this name now: load it again */
    SIDECORE_LIMIT = 11,      /* a limit of the service */
    SIDECORE_LATE = 12,       /* no answer in time */
    SIDECORE_HIDDEN = 13,     /* the socket is outside of this program's root directory or filter */
    SIDECORE_OTHER_VERSION = 14, /* this library and the service are of versions that do not work together */
    SIDECORE_ARGUMENT = 32,   /* a null pointer, or a value that no call takes */
    SIDECORE_TOO_SMALL = 33,  /* the buffer has less room than the result needs: its length is in *out_len */
    SIDECORE_FULL = 34,       /* all slots of the queue are in use */
    SIDECORE_FORKED = 35      /* the queue is the parent's */
};

/* Numbers of TLS's SignatureScheme, as SSL_SIGN_* of BoringSSL. Keys on curves take each hash of ECDSA, as in TLS 1.2. */
enum sidecore_scheme {
    SIDECORE_RSA_PKCS1_SHA256 = 0x0401,
    SIDECORE_RSA_PKCS1_SHA384 = 0x0501,
    SIDECORE_RSA_PKCS1_SHA512 = 0x0601,
    SIDECORE_ECDSA_SECP256R1_SHA256 = 0x0403,
    SIDECORE_ECDSA_SECP384R1_SHA384 = 0x0503,
    SIDECORE_ECDSA_SECP521R1_SHA512 = 0x0603,
    SIDECORE_RSA_PSS_RSAE_SHA256 = 0x0804,
    SIDECORE_RSA_PSS_RSAE_SHA384 = 0x0805,
    SIDECORE_RSA_PSS_RSAE_SHA512 = 0x0806,
    SIDECORE_ED25519 = 0x0807,
    SIDECORE_ML_DSA_65 = 0x0905
};

enum sidecore_padding {
    SIDECORE_PKCS1 = 1, /* bad padding gives a plaintext that depends on key and ciphertext, and no failure */
    SIDECORE_OAEP_SHA1 = 2,
    SIDECORE_OAEP_SHA256 = 3,
    SIDECORE_OAEP_SHA384 = 4,
    SIDECORE_OAEP_SHA512 = 5
};

typedef struct sidecore sidecore;
typedef struct sidecore_key sidecore_key;
typedef struct sidecore_queue sidecore_queue;

/* Set all to zero, then size. A null pointer or 0: SIDECORE_SOCKET and SIDECORE_SERVICE_USER of the environment (not in
 * privileged programs), else the defaults. */
typedef struct sidecore_options {
    size_t size;              /* sizeof(sidecore_options) */
    const char *socket;       /* path of the service's socket */
    const char *service_user; /* trusted users of the service, with commas; root and one's own user are always trusted */
    uint32_t timeout_ms;      /* limit of a call while a service runs */
    uint32_t restart_wait_ms; /* limit of a call's wait for a service that is starting again */
} sidecore_options;

/* Service and options. It asks nothing: a service that starts later serves as well. options may be null. */
int sidecore_open(const sidecore_options *options, sidecore **service);
/* Keys and queues go on without it. It may be null. */
void sidecore_close(sidecore *service);

/* A key by its name in the service, and by a file of `sidecore keys pem`, which needs no service if it has the public
 * part. Any thread uses a key, several at the same time; a child of fork uses its parent's keys. */
int sidecore_key_load(const sidecore *service, const char *name, sidecore_key **key);
int sidecore_key_load_file(const sidecore *service, const char *path, sidecore_key **key);
/* Another owner, and one owner less. Submissions keep their key, so it may be freed before their results. */
const sidecore_key *sidecore_key_share(const sidecore_key *key);
void sidecore_key_free(const sidecore_key *key);

/* A result's room is in *out_len before the call, and its length after it. With a null pointer as out nothing is signed
 * or decrypted, and *out_len is the room that is needed. */

/* SubjectPublicKeyInfo in DER. */
int sidecore_key_public(const sidecore_key *key, uint8_t *out, size_t *out_len);
/* Schemes that the key signs with in TLS 1.3, preferred ones first; *count in numbers. None: it may not sign. */
int sidecore_key_schemes(const sidecore_key *key, uint16_t *out, size_t *count);
/* Signs a whole message, which is hashed here. ECDSA's signatures are DER. */
int sidecore_sign(const sidecore_key *key, uint16_t scheme, const uint8_t *in, size_t in_len, uint8_t *out,
                  size_t *out_len);
/* RSA decryption; padding is one of enum sidecore_padding. */
int sidecore_decrypt(const sidecore_key *key, uint32_t padding, const uint8_t *in, size_t in_len, uint8_t *out,
                     size_t *out_len);

/* A queue signs many messages at the same time. It belongs to one thread, to one process and to one run of the service:
 * in a child of fork each call gives SIDECORE_FORKED, and after the service's end SIDECORE_ABSENT. Close it then, and
 * open another one. The first signature of a key asks the service and waits for it; all others only submit. */

typedef struct sidecore_result {
    uint64_t tag;           /* as submitted */
    int status;             /* of enum sidecore_status */
    uint32_t signature_len; /* 0 after a failure */
    const uint8_t *signature; /* the queue's, until its next sidecore_queue_complete or its end; null after a failure */
} sidecore_result;

/* slots: most signatures in flight, up to 4096; 0: 64. */
int sidecore_queue_open(const sidecore *service, uint32_t slots, sidecore_queue **queue);
/* Signatures in flight are lost. It may be null. */
void sidecore_queue_close(sidecore_queue *queue);
/* For poll, select and epoll: readable, or hung up, when there are results or the service has ended. It is the queue's:
 * neither read nor close it. -1 after a failure. */
int sidecore_queue_fd(sidecore_queue *queue);
/* Copies what is needed of the message. Each submission that succeeded has one result. */
int sidecore_queue_submit_sign(sidecore_queue *queue, const sidecore_key *key, uint16_t scheme, const uint8_t *in,
                               size_t in_len, uint64_t tag);
/* Up to n results, without waiting. Before the program sleeps on the descriptor, *count must have been below n. */
int sidecore_queue_complete(sidecore_queue *queue, sidecore_result *results, size_t n, size_t *count);

/* This thread's last failure of a call or of a result, with its remedy; valid until its next one. Empty: none. */
const char *sidecore_error_text(void);
/* A line about a number; valid forever. */
const char *sidecore_status_text(int status);

#ifdef __cplusplus
}
#endif

#endif
