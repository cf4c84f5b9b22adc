#!/usr/bin/env python3
"""Asks the golden files, by docs/format.md alone: a second reader, which shares no code with the library.

It takes raw files whose keys are `key-I` or i squared and whose hash needs no secret, and compares every answer with the
table in ../it/golden.rs. Needs: pip install xxhash mmh3.

    python3 reader.py
"""

import hashlib
import pathlib
import re
import struct

import mmh3
import xxhash

M = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
ROUND = 0xD6E8FEB86659FD93
SALT = [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31]


def scale(x, n):
    return x * n >> 64


def rotl(x, by):
    return (x << by | x >> (64 - by)) & M


def fields(body):
    found = {}
    while body:
        tag, length = struct.unpack_from("<HH", body)
        found[tag & 0x7FFF] = body[4 : 4 + length]
        body = body[4 + length :]
    return {tag: int.from_bytes(value, "little") if len(value) <= 8 else value for tag, value in found.items()}


class Bits:
    """A payload: bits and words from its bytes."""

    def __init__(self, data):
        self.all = int.from_bytes(data, "little")

    def get(self, bit, width=1):
        return self.all >> bit & ((1 << width) - 1)

    def word(self, at):
        return self.get(64 * at, 64)


def murmur64a(data, seed):
    m = 0xC6A4A7935BD1E995
    h = (seed ^ (len(data) * m)) & M
    whole = len(data) // 8 * 8
    for (k,) in struct.iter_unpack("<Q", data[:whole]):
        k = k * m & M
        h = (h ^ (k ^ k >> 47) * m & M) * m & M
    if data[whole:]:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & M
    h = (h ^ h >> 47) * m & M
    return h ^ h >> 47


def digest(kind, data):
    if kind == 13:
        lo, hi = (int.from_bytes(hashlib.blake2b(data, digest_size=8, person=p).digest(), "little") for p in (b"bf1", b"bf2"))
        return lo, hi | 1
    if kind == 14:
        lo = murmur64a(data, 0xC6A4A7935BD1E995)
        return lo, murmur64a(data, lo)
    if kind == 15:
        return murmur64a(data, 0), 0
    if kind == 16:
        return struct.unpack("<QQ", mmh3.hash_bytes(data, 0, x64arch=True))
    if kind == 17:
        return xxhash.xxh64_intdigest(data, seed=0), 0
    both = xxhash.xxh3_128_intdigest(data)
    return both & M, both >> 64


def line_hash(lo, hi, line):
    if line < 2:
        return (lo, hi)[line]
    v = (hi + lo * (2 * line + 1)) & M
    for _ in range(2):
        v = (v ^ v >> 32) * ROUND & M
    return v ^ v >> 32


def blocked(shape, counts, bits, lo, hi):
    for line in range(shape[19]):
        h = line_hash(lo, hi, line)
        base = scale(h, shape[18]) * 512
        p = [(h & 0xFFFFFFFF) * SALT[i] & 0xFFFFFFFF for i in range(4)]
        for i in range(4):
            c = p[i // 2 * 2] if shape[20] else p[i]
            word = i + 4 * (c >> 19 & 1)
            if not (bits.get(base + 64 * word + (p[i] >> 26 & 63)) and bits.get(base + 64 * word + (p[i] >> 20 & 63))):
                return False
    return True


def rotating(shape, counts, parts, lo, hi):
    for p, (part, _, bits) in enumerate(parts, 1):
        n = counts[16] - shape[113] + p - 1
        x = (n + 1) * GOLDEN & M
        x = (x ^ x >> 32) * ROUND & M
        s = x ^ x >> 32 | 1
        if blocked(part, None, bits, lo * s & M, hi * (rotl(s, 32) | 1) & M):
            return True
    return False


def stable(shape, counts, bits, lo, hi):
    for i in range(shape[19]):
        h = line_hash(lo, hi, i)
        line = scale(h, shape[48]) * shape[19] + i
        for w in range(8):
            if not bits.get(512 * line + 64 * w + 2 * (((h & 0xFFFFFFFF) * SALT[w] & 0xFFFFFFFF) >> 27), 2):
                return False
    return True


def cuckoo(shape, counts, bits, lo, hi):
    m, f = shape[64], shape[65]
    t = f - min(f, 8)
    product = hi * ((1 << f - t) - 1)
    fp = (product >> 64) + 1 << t | (product & M) >> 64 - t
    z = (m & -m).bit_length() - 1

    def other(b):
        h = ((fp >> t) + 1) * GOLDEN & M
        h = (h ^ h >> 32) * ROUND & M
        low = b % 2**z
        return (scale(h, m >> z) * 2**z - (b - low)) % m + (low ^ (rotl(h, 32) | 1 << 63) >> 64 - z)

    first = scale(lo, m)
    second = other(first)
    assert other(second) == first
    return any(bits.get((4 * b + i) * f, f) == fp for b in (first, second) for i in range(4))


def quotient(shape, counts, bits, lo, hi):
    m, d = shape[72], shape[73]
    r = (d - 1).bit_length()
    s, o = next((s, max(0, s - 48)) for s in range(56, 0, -1) if 64 + s + max(0, s - 48) + s * r <= 512)
    q, x = scale(lo, m), scale(lo * m & M, d)

    def occupied(slot):
        return bits.get(slot // s * 512 + slot % s)

    def end(slot):
        return bits.get(slot // s * 512 + 64 + slot % s)

    if not occupied(q):
        return False
    block = q // s
    offset = bits.get(block * 512 + 48 + o, 16 - o) | bits.get(block * 512 + 64 + s, o) << 16 - o
    at = s * block + offset - 1
    for _ in range(sum(occupied(slot) for slot in range(s * block, q + 1))):
        before = at
        at += 1
        while not end(at):
            at += 1
    run = range(max(q, before + 1), at + 1)
    return any(bits.get(slot // s * 512 + 64 + s + o + slot % s * r, r) == x for slot in run)


def fuse(shape, counts, bits, lo, hi):
    w, length, count, shards = shape[65], shape[80], shape[81], shape[82]
    if shards == 0:
        return False
    product = (lo ^ shape[83]) * GOLDEN
    h = product >> 64 ^ product & M
    a = scale(h * shards & M, (count - 2) * length)
    cells = [a, a + length ^ h >> 18 & length - 1, a + 2 * length ^ h & length - 1]
    base = scale(h, shards) * count * length
    found = 0
    for cell in cells:
        found ^= bits.get((base + cell) * w, w)
    return found == (h * 0xA54FF53A5F1D36F1 & M) >> 64 - w


def ribbon(shape, counts, bits, lo, hi):
    cross = 0xBB67AE8584CAA73B

    def mix(x):
        x = (x ^ x >> 33) * 0xFF51AFD7ED558CCD & M
        x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53 & M
        return x ^ x >> 33

    def row(spot, rest):
        y = (rest ^ spot) * cross & M
        return spot, y ^ y >> 32

    r, columns = shape[96], shape[97]
    if isinstance(columns, int):
        columns = [columns] if columns else []
    else:
        columns = [n for (n,) in struct.iter_unpack("<Q", columns)]
    if not columns:
        return False
    threshold_words = [-(-(-(-(n - 63) // 256)) // 8) for n in columns[:-1]]
    planes, thresholds = sum(threshold_words), 0
    spot, co = row(mix(lo ^ hi * 0x6A09E667F3BCC909 & M), hi)
    for i, n in enumerate(columns):
        last = i == len(columns) - 1
        if last or i > 0:
            salt = mix(mix(shape[83] + GOLDEN & M) ^ cross) if last else mix(i * GOLDEN & M)
            spot, co = row(mix(spot ^ salt), co)
        start = scale(spot, n - 63)
        if last or min(start % 256, 254) < bits.get(64 * thresholds + start // 256 * 8, 8):
            break
        thresholds += threshold_words[i]
        planes += n // 64 * r
    first, k, v = planes + start // 64 * r, start % 64, (spot * 0x3C6EF372FE94F82B & M) >> 64 - r
    co |= 1
    for p in range(r):
        ones = (bits.word(first + p) & co << k & M).bit_count()
        if k:
            ones += (bits.word(first + r + p) & co >> 64 - k).bit_count()
        if ones % 2 != v >> p & 1:
            return False
    return True


def bfv1(shape, counts, bits, lo, hi):
    m, k, seed, _ = struct.unpack_from("<IHII", shape[128], 4)
    return all(bits.get((lo + i * hi + seed) % m) for i in range(k))


def redis_bloom(shape, counts, bits, lo, hi):
    base = 0
    for link in struct.iter_unpack("<QQQddIQB", shape[128][20:]):
        if all(bits.get(base + (lo + i * hi & M) % link[1]) for i in range(link[5])):
            return True
        base += 8 * link[0]
    return False


def redis_cuckoo(shape, counts, bits, lo, hi):
    _, buckets, _, tables, size, _, expansion = struct.unpack("<QQQQHHH", shape[128])
    f, base = lo % 255 + 1, 0
    for _ in range(tables):
        for b in (lo % buckets, (lo ^ f * 0x5BD1E995) % buckets):
            if any(bits.get(8 * (base + b * size + i), 8) == f for i in range(size)):
                return True
        base += buckets * size
        buckets *= expansion
    return False


def guava(shape, counts, bits, lo, hi):
    header = shape[128].to_bytes(6, "little")
    strategy, k, n = struct.unpack(">BBi", header)
    assert strategy == 1
    return all(bits.get(((lo + i * hi) % 2**63) % (64 * n)) for i in range(k))


def parquet(shape, counts, bits, lo, hi):
    number = shift = 0
    for byte in shape[128][1:]:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    block = (lo >> 32) * (number // 2 // 32) >> 32
    return all(bits.get(256 * block + 32 * i + (((lo & 0xFFFFFFFF) * SALT[i] & 0xFFFFFFFF) >> 27)) for i in range(8))


ONE = {2: blocked, 7: stable, 8: cuckoo, 10: quotient, 11: fuse, 12: ribbon}
ONE |= {13: bfv1, 14: redis_bloom, 15: redis_cuckoo, 16: guava, 17: parquet}


def read(path):
    """The kind of a file and what answers for a digest."""
    data = path.read_bytes()
    parts = {}
    for at in range(64, 64 + 32 * struct.unpack_from("<I", data, 12)[0], 32):
        kind, part, _, codec, offset, length = struct.unpack_from("<HHHHQQ", data, at)
        assert kind == 6 or codec == 0
        parts.setdefault(part, {})[kind] = data[offset : offset + length]
    parts = {p: (fields(s[2]), fields(s.get(3, b"")), Bits(s.get(5, b""))) for p, s in parts.items()}
    shape, counts, bits = parts.pop(0)
    if shape[1] == 6:
        return 6, lambda lo, hi: rotating(shape, counts, parts.values(), lo, hi)
    if shape[1] in (5, 9):
        return shape[1], lambda lo, hi: any(ONE[s[1]](s, c, b, lo, hi) for s, c, b in parts.values())
    return shape[1], lambda lo, hi: ONE[shape[1]](shape, counts, bits, lo, hi)


def main():
    here = pathlib.Path(__file__).parent
    table = (here / "../it/golden.rs").read_text().split("const GOLDEN", 1)[1].split("];\n", 1)[0]
    rows = re.findall(r'\(\s*"([\w-]+)",\s*([\d_]+),\s*"\w*",\s*&\[([^\]]*)\],?\s*\)', table)
    asked = 0
    for name, keys, maybes in rows:
        path = here / f"{name}.bloom"
        if re.match(r"blocked-(?!u64|three)|classic|partitioned|counting|scalable-", name):
            continue
        kind, contains = read(path)
        keys, maybes = int(keys), {int(n) for n in re.findall(r"\d+", maybes)}
        squares = name in ("blocked-u64", "cuckoo-u64", "quotient-grown")
        for i in range(keys + 2000):
            lo, hi = digest(kind, struct.pack("<Q", i * i) if squares else b"key-%d" % i)
            assert contains(lo, hi) == (i < keys or i in maybes), f"{name}: key {i}"
        asked += 1
        print(f"{name}: {keys} keys, {len(maybes)} maybes")
    assert asked >= 20
    print(f"{asked} files answer as they should")


if __name__ == "__main__":
    main()
