/* A program that reads certificates and private keys of a file as Apache does for its proxy: FILE PUBLIC. */
#include <openssl/err.h>
#include <openssl/x509.h>
#include "keyfile.h"

int main(int count, char **arguments) {
    BIO *file = count == 3 ? BIO_new_file(arguments[1], "r") : NULL, *other = count == 3 ? BIO_new_file(arguments[2], "r") : NULL;
    EVP_PKEY *public = other ? PEM_read_bio_PUBKEY(other, NULL, NULL, NULL) : NULL;
    STACK_OF(X509_INFO) *all = file ? PEM_X509_INFO_read_bio(file, NULL, NULL, NULL) : NULL;
    if (!public || !all) {
        ERR_print_errors_fp(stderr);
        return 1;
    }
    for (int at = 0; at < sk_X509_INFO_num(all); at++) {
        X509_INFO *one = sk_X509_INFO_value(all, at);
        unsigned char signature[1024];
        size_t len = sizeof signature;
        if (one->x_pkey && one->x_pkey->dec_pkey && EVP_PKEY_eq(one->x_pkey->dec_pkey, public) == 1 &&
            sign_given(one->x_pkey->dec_pkey, signature, &len))
            puts("signed");
    }
    ERR_print_errors_fp(stderr);
    return 0;
}
