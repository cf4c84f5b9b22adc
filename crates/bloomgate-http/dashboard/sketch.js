// Small filters to be looked at: the ones of "How it works". They do what the large ones do, with a hash that fits on a
// line. Pure: no page, no clock, and randomness only from a seed.

/** MurmurHash3 of a text's UTF-8, 32 bits (Appleby 2011). */
export function murmur3(text, seed = 0) {
  const bytes = new TextEncoder().encode(text);
  const [c1, c2] = [0xcc9e2d51, 0x1b873593];
  let hash = seed >>> 0;
  const scramble = (word) => {
    word = Math.imul(word, c1);
    return Math.imul((word << 15) | (word >>> 17), c2);
  };
  const whole = bytes.length & ~3;
  for (let at = 0; at < whole; at += 4) {
    hash ^= scramble(bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24));
    hash = (hash << 13) | (hash >>> 19);
    hash = (Math.imul(hash, 5) + 0xe6546b64) | 0;
  }
  let rest = 0;
  for (let at = bytes.length - 1; at >= whole; at -= 1) rest = (rest << 8) | bytes[at];
  if (bytes.length > whole) hash ^= scramble(rest);
  hash ^= bytes.length;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** A number below `bound` from 32 bits, all alike. */
const scale = (hash, bound) => Math.floor((hash / 2 ** 32) * bound);

/** Random numbers that are the same in every run (mulberry32). */
export function dice(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const STARTS = "b br c ch d f g gr h j k l m n p pl r s sh st t tr v w".split(" ");
const VOWELS = "a e i o u ea oo ou".split(" ");
const ENDS = "b ck d g l m n nd p r rn s st t x".split(" ");

/** A word that can be said, from dice: brack, mousteln. */
export function randomWord(roll) {
  const pick = (list) => list[Math.floor(roll() * list.length)];
  const syllables = roll() < 0.35 ? 1 : 2;
  let word = "";
  for (let at = 0; at < syllables; at += 1) word += pick(STARTS) + pick(VOWELS) + pick(ENDS);
  return word;
}

/** `k` bits among `size`; the two hashes make any number of them. */
function probes(word, count, size, offset = 0) {
  const [first, second] = [murmur3(word, 1), murmur3(word, 2) | 1];
  return Array.from({ length: count }, (_, at) => {
    const hash = (first + Math.imul(at, second) + (at * at * at - at) / 6) >>> 0;
    return offset + scale(hash, size);
  });
}

/** What the Bloom kinds share: cells, and which words lie on each, which a real filter does not know. */
class Cells {
  constructor(kind, cells, hashes) {
    Object.assign(this, { kind, size: cells, hashes, words: new Map(), owners: [] });
    this.cells = new Array(cells).fill(0);
    this.owners = Array.from({ length: cells }, () => new Set());
  }

  places(word) {
    return { places: probes(word, this.hashes, this.size), block: null };
  }

  insert(word) {
    const { places, block } = this.places(word);
    const fresh = [...new Set(places)].filter((place) => this.cells[place] === 0);
    for (const place of new Set(places)) {
      this.cells[place] = this.kind === "counting" ? Math.min(15, this.cells[place] + 1) : 1;
      this.owners[place].add(word);
    }
    this.words.set(word, (this.words.get(word) ?? 0) + 1);
    return { ok: true, places, block, fresh };
  }

  /** What the filter says, and what is true. */
  query(word) {
    const { places, block } = this.places(word);
    const missing = places.find((place) => this.cells[place] === 0);
    return { maybe: missing === undefined, missing: missing ?? null, places, block, truth: this.words.has(word) };
  }

  /** Counting alone: lowers its counters, if it may be there. */
  remove(word) {
    const answer = this.query(word);
    if (this.kind !== "counting" || !answer.maybe) return { ok: false, ...answer };
    for (const place of new Set(answer.places)) {
      if (this.cells[place] < 15) this.cells[place] -= 1;
    }
    const left = (this.words.get(word) ?? 0) - 1;
    if (left > 0) this.words.set(word, left);
    else {
      this.words.delete(word);
      for (const place of new Set(answer.places)) this.owners[place].delete(word);
    }
    return { ok: true, ...answer };
  }

  get used() {
    return this.cells.reduce((sum, cell) => sum + (cell > 0 ? 1 : 0), 0);
  }

  get fill() {
    return this.used / this.size;
  }

  /** The rate that so many words make, by theory. */
  expectedWith(words) {
    return expectedCells(this.size, this.hashes, words);
  }
}

function expectedCells(size, hashes, words) {
  return Math.pow(1 - Math.pow(1 - 1 / size, hashes * words), hashes);
}

class BlockedCells extends Cells {
  constructor(cells, hashes, blockSize) {
    super("blocked", cells, hashes);
    this.blockSize = blockSize;
    this.blocks = cells / blockSize;
  }

  places(word) {
    const block = scale(murmur3(word, 3), this.blocks);
    return { places: probes(word, this.hashes, this.blockSize, block * this.blockSize), block };
  }

  /** Blocks fill unevenly: the mixture over a binomial load. */
  expectedWith(words) {
    const each = 1 / this.blocks;
    let [chance, sum] = [Math.pow(1 - each, words), 0];
    for (let load = 0; load <= words; load += 1) {
      sum += chance * expectedCells(this.blockSize, this.hashes, load);
      chance *= ((words - load) / (load + 1)) * (each / (1 - each));
    }
    return sum;
  }
}

const SLOTS = 4;

/** Fingerprints of 8 bits, four to a bucket, each in one of two buckets. */
class CuckooTable {
  constructor(buckets, seed = 7) {
    Object.assign(this, { kind: "cuckoo", buckets, size: buckets * SLOTS, words: new Map(), roll: dice(seed) });
    this.slots = Array.from({ length: buckets }, () => new Array(SLOTS).fill(null));
  }

  places(word) {
    const print = 1 + (murmur3(word, 4) % 255);
    const first = scale(murmur3(word, 3), this.buckets);
    return { print, first, second: this.other(first, print) };
  }

  /** The other bucket follows from one of them and the fingerprint; twice is back again. */
  other(bucket, print) {
    return bucket ^ (1 + (murmur3(String(print), 5) % (this.buckets - 1)));
  }

  insert(word) {
    const { print, first, second } = this.places(word);
    const before = this.slots.map((bucket) => bucket.slice());
    const moves = [];
    let [carried, bucket] = [{ print, word }, first];
    for (const choice of [first, second]) {
      const slot = this.slots[choice].indexOf(null);
      if (slot >= 0) return this.settle(carried, choice, slot, word, { print, first, second, moves });
    }
    bucket = this.roll() < 0.5 ? first : second;
    for (let kick = 0; kick < 50; kick += 1) {
      const slot = Math.floor(this.roll() * SLOTS);
      const out = this.slots[bucket][slot];
      this.slots[bucket][slot] = carried;
      moves.push({ word: out.word, from: bucket, to: this.other(bucket, out.print) });
      [carried, bucket] = [out, this.other(bucket, out.print)];
      const free = this.slots[bucket].indexOf(null);
      if (free >= 0) return this.settle(carried, bucket, free, word, { print, first, second, moves });
    }
    // Everything is put back: a full table refuses and loses nothing.
    this.slots = before;
    return { ok: false, print, first, second, moves: [] };
  }

  settle(carried, bucket, slot, word, told) {
    this.slots[bucket][slot] = carried;
    this.words.set(word, (this.words.get(word) ?? 0) + 1);
    return { ok: true, ...told };
  }

  query(word) {
    const { print, first, second } = this.places(word);
    const found = [first, second].flatMap((bucket) =>
      this.slots[bucket].flatMap((held, slot) => (held?.print === print ? [{ bucket, slot, word: held.word }] : [])));
    return { maybe: found.length > 0, found, print, first, second, truth: this.words.has(word) };
  }

  remove(word) {
    const answer = this.query(word);
    if (!answer.maybe) return { ok: false, ...answer };
    const mine = answer.found.find((found) => found.word === word) ?? answer.found[0];
    this.slots[mine.bucket][mine.slot] = null;
    const left = (this.words.get(mine.word) ?? 0) - 1;
    if (left > 0) this.words.set(mine.word, left);
    else this.words.delete(mine.word);
    return { ok: true, ...answer };
  }

  get used() {
    return this.slots.reduce((sum, bucket) => sum + bucket.filter(Boolean).length, 0);
  }

  get fill() {
    return this.used / this.size;
  }

  expectedWith(words) {
    return 1 - Math.pow(1 - 2 / (this.buckets * 255), words);
  }
}

/** An empty filter of a kind. */
export function sketch(kind, cells = 128, hashes = 3) {
  if (kind === "cuckoo") return new CuckooTable(cells / 8);
  if (kind === "blocked") return new BlockedCells(cells, hashes, 32);
  return new Cells(kind, cells, hashes);
}

/** The share of words nobody inserted that a filter takes for present, asked so many times. */
export function measure(filter, asks, seed) {
  const roll = dice(seed);
  let [wrong, asked] = [0, 0];
  while (asked < asks) {
    const word = `${randomWord(roll)}${Math.floor(roll() * 1e6)}`;
    if (filter.words.has(word)) continue;
    asked += 1;
    wrong += filter.query(word).maybe ? 1 : 0;
  }
  return wrong / asks;
}

/** A word that was never inserted and is taken for present; nothing if so many tries find none. */
export function findFalsePositive(filter, seed, tries = 20_000) {
  const roll = dice(seed);
  for (let at = 0; at < tries; at += 1) {
    const word = randomWord(roll);
    if (filter.words.has(word)) continue;
    const answer = filter.query(word);
    if (answer.maybe) return { word, tried: at + 1, ...answer };
  }
  return null;
}
