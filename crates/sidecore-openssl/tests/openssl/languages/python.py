"""cryptography computes by itself, so it cannot sign: it has to say so. pyOpenSSL leaves it to OpenSSL. DIRECTORY"""
import sys

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL, crypto


def read(name):
    with open(f"{sys.argv[1]}/{name}", "rb") as file:
        return file.read()


for name, how in [("rsa2048", (padding.PKCS1v15(), hashes.SHA256())), ("p256", (ec.ECDSA(hashes.SHA256()),))]:
    try:
        load_pem_private_key(read(f"{name}.pem"), None).sign(b"data", *how)
        print(name, "signed")
    except Exception as error:
        print(name, type(error).__name__, "sidecore" if "sidecore" in str(error) else "-")
    key = crypto.load_privatekey(crypto.FILETYPE_PEM, read(f"{name}.pem"))
    certificate = crypto.load_certificate(crypto.FILETYPE_PEM, read(f"{name}.crt"))
    crypto.verify(certificate, crypto.sign(key, b"data", "sha256"), b"data", "sha256")
    context = SSL.Context(SSL.TLS_METHOD)
    context.use_certificate(certificate)
    context.use_privatekey(key)
    context.check_privatekey()
    print(name, "pyOpenSSL verified")
