"""cryptography, and pyOpenSSL. DIRECTORY"""
import sys

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from cryptography.hazmat.backends.openssl.backend import backend
from OpenSSL import SSL, crypto


def read(name):
    with open(f"{sys.argv[1]}/{name}", "rb") as file:
        return file.read()


for name, how in [("rsa2048", (padding.PKCS1v15(), hashes.SHA256())), ("p256", (ec.ECDSA(hashes.SHA256()),))]:
    try:
        key = load_pem_private_key(read(f"{name}.pem"), None)
        load_pem_public_key(read(f"{name}.pub")).verify(key.sign(b"data", *how), b"data", *how)
        print(name, "cryptography verified")
        key.private_numbers().private_key().sign(b"data", *how)
        print(name, "a copy signed")
    except Exception as error:
        print(name, type(error).__name__)
    if name == "rsa2048":
        backend._rsa_skip_check_key = True
        signature = load_pem_private_key(read(f"{name}.pem"), None).sign(b"data", *how)
        load_pem_public_key(read(f"{name}.pub")).verify(signature, b"data", *how)
        print(name, "unchecked verified")
    key = crypto.load_privatekey(crypto.FILETYPE_PEM, read(f"{name}.pem"))
    certificate = crypto.load_certificate(crypto.FILETYPE_PEM, read(f"{name}.crt"))
    crypto.verify(certificate, crypto.sign(key, b"data", "sha256"), b"data", "sha256")
    context = SSL.Context(SSL.TLS_METHOD)
    context.use_certificate(certificate)
    context.use_privatekey(key)
    context.check_privatekey()
    print(name, "pyOpenSSL verified")
