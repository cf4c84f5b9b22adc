#!/usr/bin/env python3
"""Writes digests.tsv: what every implementation of Bloomgate's contracts must give.

It shares no code with the Rust library. XXH3, MurmurHash3, BLAKE2b and BLAKE3 come from other
implementations (pip install xxhash mmh3 blake3 siphash24, and hashlib); SipHash is written out below and
held against the authors' vectors and the package siphash24 (which has the 64-bit forms).

    python3 digests.py > digests.tsv
"""

import hashlib
import struct
import uuid

import blake3
import mmh3
import siphash24
import xxhash

CONTEXT = {
    "siphash13": "bloomgate 2026 siphash-1-3-128 key v1",
    "siphash24": "bloomgate 2026 siphash-2-4-128 key v1",
    "blake2b": "bloomgate 2026 blake2b-128 key v1",
}
FOREIGN = ["murmur64a-pair", "murmur64a", "xxh64", "blake2b-64-double"]
MASK = (1 << 64) - 1


def siphash(key, data, c, d, wide=True):
    def rotate(x, by):
        return ((x << by) | (x >> (64 - by))) & MASK

    def rounds(v, count):
        for _ in range(count):
            v[0] = (v[0] + v[1]) & MASK
            v[1] = rotate(v[1], 13) ^ v[0]
            v[0] = rotate(v[0], 32)
            v[2] = (v[2] + v[3]) & MASK
            v[3] = rotate(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & MASK
            v[3] = rotate(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & MASK
            v[1] = rotate(v[1], 17) ^ v[2]
            v[2] = rotate(v[2], 32)

    k0, k1 = struct.unpack("<QQ", key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    v[1] ^= 0xEE if wide else 0
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 255])
    for (block,) in struct.iter_unpack("<Q", padded):
        v[3] ^= block
        rounds(v, c)
        v[0] ^= block
    v[2] ^= 0xEE if wide else 0xFF
    rounds(v, d)
    low = v[0] ^ v[1] ^ v[2] ^ v[3]
    if not wide:
        return struct.pack("<Q", low)
    v[1] ^= 0xDD
    rounds(v, d)
    return struct.pack("<QQ", low, v[0] ^ v[1] ^ v[2] ^ v[3])


# The authors' reference vectors (vectors.h) for SipHash-2-4-128 of nothing and of 00 01 .. 07.
REFERENCE_KEY = bytes(range(16))
assert siphash(REFERENCE_KEY, b"", 2, 4).hex() == "a3817f04ba25a8e66df67214c7550293"
assert siphash(REFERENCE_KEY, bytes(range(8)), 2, 4).hex() == "3b62a9ba6258f5610f83e264f31497b4"
# Another implementation of the 64-bit forms, which share everything but the marks and the second half.
for message in (bytes(range(length)) for length in range(64)):
    assert siphash(REFERENCE_KEY, message, 1, 3, wide=False) == siphash24.siphash13(message, key=REFERENCE_KEY).digest()
    assert siphash(REFERENCE_KEY, message, 2, 4, wide=False) == siphash24.siphash24(message, key=REFERENCE_KEY).digest()


def murmur64a(data, seed):
    """Austin Appleby's MurmurHash2 for 64-bit processors, from its description."""
    m = 0xC6A4A7935BD1E995
    h = (seed ^ (len(data) * m)) & MASK
    whole = len(data) // 8 * 8
    for (k,) in struct.iter_unpack("<Q", data[:whole]):
        k = k * m & MASK
        k = (k ^ k >> 47) * m & MASK
        h = (h ^ k) * m & MASK
    if data[whole:]:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & MASK
    h = (h ^ h >> 47) * m & MASK
    return h ^ h >> 47


def widened(lo):
    """64 bits as 128: the second half is MurmurHash3's finaliser of the first plus the golden ratio."""
    h = (lo + 0x9E3779B97F4A7C15) & MASK
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & MASK
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & MASK
    return struct.pack("<QQ", lo, h ^ h >> 33)


def foreign(algorithm, data):
    if algorithm == "murmur64a-pair":
        first = murmur64a(data, 0xC6A4A7935BD1E995)
        return struct.pack("<QQ", first, murmur64a(data, first))
    if algorithm == "murmur64a":
        return widened(murmur64a(data, 0))
    if algorithm == "xxh64":
        return widened(xxhash.xxh64_intdigest(data, seed=0))
    first, second = (hashlib.blake2b(data, digest_size=8, person=person).digest() for person in (b"bf1", b"bf2"))
    return first + bytes([second[0] | 1]) + second[1:]


def digest(algorithm, key, data):
    if algorithm in FOREIGN:
        return foreign(algorithm, data)
    if algorithm == "xxh3":
        return xxhash.xxh3_128_intdigest(data, seed=int(key)).to_bytes(16, "little")
    if algorithm == "murmur3":
        return mmh3.hash_bytes(data, int(key), x64arch=True)
    derived = blake3.blake3(bytes.fromhex(key), derive_key_context=CONTEXT[algorithm]).digest()
    if algorithm == "blake2b":
        return hashlib.blake2b(data, digest_size=16, key=derived).digest()
    return siphash(derived[:16], data, *((1, 3) if algorithm == "siphash13" else (2, 4)))


def scalar(encoding, text):
    if encoding in ("bytes", "text"):
        return text.encode()
    if encoding == "uuid":
        return uuid.UUID(text).bytes
    return int(text).to_bytes(int(encoding[1:]) // 8, "little", signed=encoding[0] == "i")


def canonical(encoding, text):
    if encoding.startswith("tuple("):
        parts = zip(encoding[6:-1].split(","), text.split("\t"), strict=True)
        return b"".join(len(part).to_bytes(4, "little") + part for part in (scalar(*part) for part in parts))
    if encoding.startswith("prefix-length("):
        return text.encode()[: int(encoding[14:-1])]
    if encoding.startswith("prefix-delimiter("):
        delimiter, count = encoding[17:-1].rsplit(",", 1)
        parts = text.split(delimiter)
        return (delimiter.join(parts[: int(count)]) + delimiter if len(parts) > int(count) else text).encode()
    return scalar(encoding, text)


KEYS = [
    *(("bytes", "abcdefghijklmnopqrstuvwxyz0123456789ABCD"[:n]) for n in (0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 40)),
    *(("bytes", "bloomgate/" * n) for n in (13, 24, 25, 30)),
    ("text", "caf\u00e9"),
    ("text", "cafe\u0301"),
    ("text", "42"),
    *(("u64", str(n)) for n in (0, 1, 42, 255, 65536, 2**32, 2**63, 2**64 - 1)),
    *(("i64", str(n)) for n in (0, 42, -1, -42, 2**63 - 1, -(2**63))),
    *(("u128", str(n)) for n in (0, 42, 2**64, 2**128 - 1)),
    *(("i128", str(n)) for n in (42, -1, -(2**127))),
    ("uuid", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
    ("uuid", "00112233-4455-6677-8899-aabbccddeeff"),
    ("tuple(u64,text)", "42\tuser"),
    ("tuple(text,text)", "ab\tc"),
    ("tuple(text,text)", "a\tbc"),
    ("tuple(i64,uuid,bytes)", "-7\tf81d4fae-7dec-11d0-a765-00a0c91e6bf6\t"),
    ("prefix-length(8)", "short"),
    ("prefix-length(8)", "longer than eight"),
    ("prefix-delimiter(/,2)", "a/b/c/d"),
    ("prefix-delimiter(/,2)", "a/b"),
]
SECRETS = ["00" * 32, bytes(range(32)).hex()]
CONTRACTS = [
    *(("xxh3", seed) for seed in ("0", "1", str(2**64 - 1))),
    *((algorithm, secret) for algorithm in CONTEXT for secret in SECRETS),
    *(("murmur3", seed) for seed in ("0", str(2**32 - 1))),
    *((algorithm, "0") for algorithm in FOREIGN),
]

if __name__ == "__main__":
    print("# algorithm\tseed or secret\tencoding\tkey (\\t is a tab)\tcanonical bytes\tdigest")
    for algorithm, key in CONTRACTS:
        for encoding, text in KEYS:
            data = canonical(encoding, text)
            shown = text.replace("\t", "\\t")
            print(algorithm, key, encoding, shown, data.hex(), digest(algorithm, key, data).hex(), sep="\t")
