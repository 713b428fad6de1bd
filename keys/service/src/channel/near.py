"""The near side of a channel, written a second time from RFC 9180 and the layout of messages, over another library.

Reads a far service's address, its own private key and the far side's answers from its input, one in hexadecimal on each
line, and writes its messages likewise. The test plays far.
"""
import hashlib
import hmac
import os
import struct
import sys

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

LINE = b"sidecore channel v1\n"
KEM = b"KEM" + struct.pack(">H", 0x20)
SUITE = b"HPKE" + struct.pack(">HHH", 0x20, 1, 2)


def extract(salt, ikm):
    return hmac.new(salt or bytes(32), ikm, hashlib.sha256).digest()


def expand(key, info, length):
    out, block, count = b"", b"", 1
    while len(out) < length:
        block = hmac.new(key, block + info + bytes([count]), hashlib.sha256).digest()
        out, count = out + block, count + 1
    return out[:length]


def labeled_extract(suite, salt, label, ikm):
    return extract(salt, b"HPKE-v1" + suite + label + ikm)


def labeled_expand(suite, key, label, info, length):
    return expand(key, struct.pack(">H", length) + b"HPKE-v1" + suite + label + info, length)


def raw(public):
    return public.public_bytes(Encoding.Raw, PublicFormat.Raw)


def shared_secret(dh, context):
    eae = labeled_extract(KEM, b"", b"eae_prk", dh)
    return labeled_expand(KEM, eae, b"shared_secret", context, 32)


def schedule(secret, info):
    """Mode Auth (2). Returns key, base nonce and exporter secret."""
    context = b"\x02" + labeled_extract(SUITE, b"", b"psk_id_hash", b"") + labeled_extract(SUITE, b"", b"info_hash", info)
    secret = labeled_extract(SUITE, secret, b"secret", b"")
    return tuple(
        labeled_expand(SUITE, secret, label, context, length)
        for label, length in ((b"key", 32), (b"base_nonce", 12), (b"exp", 32))
    )


def export(exporter, label):
    return labeled_expand(SUITE, exporter, b"sec", label, 32)


def varint(number):
    out = b""
    while number >= 0x80:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def sequence(part):
    return varint(len(part)) + part


def read_varint(data):
    number, shift = 0, 0
    for at, byte in enumerate(data):
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, data[at + 1:]
    raise ValueError("a number without an end")


def read_sequence(data):
    length, data = read_varint(data)
    return data[:length], data[length:]


def nonce(flow, number):
    return struct.pack("<IQ", flow, number)


def padded(plain):
    return plain + bytes(-len(plain) % 64)


def say(message):
    print(message.hex(), flush=True)


def hear():
    return bytes.fromhex(sys.stdin.readline().strip())


def main():
    far, own = hear(), X25519PrivateKey.from_private_bytes(hear())
    address = raw(own.public_key())

    # Set-up, RFC 9180 section 5.1.3: from near's address to far's.
    ephemeral, answer_to = X25519PrivateKey.generate(), X25519PrivateKey.generate()
    encapsulated = raw(ephemeral.public_key())
    far_key = X25519PublicKey.from_public_bytes(far)
    dh = ephemeral.exchange(far_key) + own.exchange(far_key)
    key, base, exporter = schedule(shared_secret(dh, encapsulated + far + address), LINE + address + far)
    set_up = struct.unpack("<Q", os.urandom(8))[0]
    offer = varint(set_up) + varint(1_800_000_000_000) + raw(answer_to.public_key())
    sealed = AESGCM(key).encrypt(base, offer, b"")
    message = LINE + varint(0) + far + address + encapsulated + sequence(sealed)
    say(message)

    # Far's answer: from far's address to the fresh key.
    answer = hear()
    assert answer.startswith(LINE)
    answer = answer[len(LINE):]
    theirs, sealed = answer[:32], read_sequence(answer[32:])[0]
    dh = answer_to.exchange(X25519PublicKey.from_public_bytes(theirs)) + answer_to.exchange(far_key)
    context = theirs + raw(answer_to.public_key()) + far
    info = LINE + b"answer" + hashlib.sha256(message).digest()
    key, base, second = schedule(shared_secret(dh, context), info)
    named, rest = read_varint(AESGCM(key).decrypt(base, sealed, b""))
    assert named == set_up, "it answers another set-up"
    channel, rest = read_varint(rest)
    assert rest == b""

    transcript = hashlib.sha256(struct.pack("<Q", len(message)) + message + theirs + sealed).digest()
    secret = extract(
        transcript,
        export(exporter, b"sidecore channel v1: set-up") + export(second, b"sidecore channel v1: answer"),
    )
    to_far = AESGCM(expand(secret, b"sidecore channel v1: near to far", 32))
    to_near = AESGCM(expand(secret, b"sidecore channel v1: far to near", 32))

    # Opening 0: key `www`, whose public part is the test's; Ed25519 (scheme 9), sign (operation 0).
    scheme, public = hear(), hashlib.sha256(hear()).digest()
    purpose = sequence(b"www") + public + scheme + varint(0)
    sealed = to_far.encrypt(nonce(2, 0), padded(purpose), struct.pack("<Q", channel))
    say(varint(channel) + varint(0) + sequence(sealed))

    # Request 0 on it, of user 33.
    request = padded(varint(33) + sequence(b"a message"))
    say(struct.pack("<Q", 0) + to_far.encrypt(nonce(1, 0), request, struct.pack("<Q", 0)))
    plain = to_near.decrypt(nonce(1, 0), hear(), struct.pack("<Q", 0))
    kind, rest = read_varint(plain)
    assert kind == 0, "it was refused"
    result, padding = read_sequence(rest)
    assert len(plain) % 64 == 0 and not any(padding)
    say(result)


main()
