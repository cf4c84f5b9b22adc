// How large a filter of each kind is, and its rate with so many keys: the arithmetic of the library's `math`, so that the
// planner answers while a slider moves. Pure functions. `scripts/test-pages` holds them against `bloomgate plan --json`: sizes
// within 0.5 % from 10,000 keys up. Below that the library counts exactly what is an approximation here.

const LINE_BITS = 512;
const MAX_LINES = 8;
const SLACK = 1e-4;
const GENERATIONS = 4;
const LN2_SQUARED = Math.LN2 * Math.LN2;

const allowed = (rate) => rate * (1 + SLACK);

// --- classic: m bits, k probes anywhere ---

/** `(1 - e^(-kn/m))^k`. */
export function classicRate(bits, probes, items) {
  return items <= 0 ? 0 : Math.pow(-Math.expm1((-probes * items) / bits), probes);
}

function classicSize(items, rate) {
  const bits = Math.ceil((items * -Math.log(rate)) / LN2_SQUARED);
  const near = Math.min(64, Math.max(1, Math.round((bits / items) * Math.LN2)));
  if (classicRate(bits, near, items) <= allowed(rate)) return { bits, probes: near };
  let best = null;
  for (let probes = Math.max(1, near - 2); probes <= near + 2; probes += 1) {
    const needed = Math.ceil((probes * items) / -Math.log1p(-Math.pow(rate, 1 / probes)));
    if (!best || needed < best.bits) best = { bits: needed, probes };
  }
  return best;
}

// --- blocked: every probe in one line of 512 bits, whose loads follow a Poisson law ---

/** The chance that an absent key passes a line that holds `load` keys. */
export function linePass(load, paired) {
  if (load === 0) return 0;
  if (paired) {
    const [a, b, c, d] = [(63 / 64) ** 2, (62 / 64) ** 2, 127 / 64, 63 / 64];
    const mean = (x) => Math.pow((1 + x) / 2, load);
    const pair = 1 - 2 * c * mean(a) + 2 * d * mean(b) + c * c * mean(a * a) - 2 * c * d * mean(a * b) + d * d * mean(b * b);
    return pair * pair;
  }
  const one = Math.pow((1 + (63 / 64) ** 2) / 2, load);
  const two = Math.pow((1 + (62 / 64) ** 2) / 2, load);
  return Math.pow((1 - one) / 64 + ((1 - 2 * one + two) * 63) / 64, 4);
}

const passes = [[], []];
function knownPass(load, paired) {
  const table = passes[paired ? 1 : 0];
  while (table.length <= load) table.push(linePass(table.length, paired));
  return table[load];
}

/** The rate of one line at a mean load: the mixture over how unevenly keys fall. */
function lineRate(mean, paired) {
  if (mean <= 0) return 0;
  if (mean > 2048) return 1;
  const mode = Math.floor(mean);
  let [sum, total] = [knownPass(mode, paired), 1];
  for (let load = mode, weight = 1; load > 0; load -= 1) {
    weight *= load / mean;
    if (weight < 1e-18) break;
    total += weight;
    sum += weight * knownPass(load - 1, paired);
  }
  for (let load = mode, weight = 1; ; load += 1) {
    const ratio = mean / (load + 1);
    weight *= ratio;
    total += weight;
    sum += weight * knownPass(load + 1, paired);
    if (ratio < 1 && (weight * ratio) / (1 - ratio) < 1e-9 * sum) break;
  }
  return Math.min(1, sum / total);
}

/** The rate of `blocks` lines, `lines` of them a key, after so many keys. */
export function blockedRate(blocks, lines, paired, items) {
  return Math.pow(lineRate((items * lines) / blocks, paired), lines);
}

const loads = new Map();
function loadFor(rate, lines, paired) {
  const name = `${rate} ${lines} ${paired}`;
  if (loads.has(name)) return loads.get(name);
  const each = Math.pow(rate, 1 / lines);
  let [low, high] = [1e-9, 2048];
  for (let step = 0; step < 60; step += 1) {
    const middle = Math.sqrt(low * high);
    if (lineRate(middle, paired) <= each) low = middle;
    else high = middle;
  }
  if (loads.size > 4096) loads.clear();
  loads.set(name, low);
  return low;
}

/** Lines of a key: one above a rate of 3e-4, below it the fewest that cost at most 1.08 times the classic filter. */
export function linesFor(rate) {
  if (rate > 3e-4) return 1;
  const classic = -Math.log(rate) / LN2_SQUARED;
  for (let lines = 1; lines < MAX_LINES; lines += 1) {
    if ((LINE_BITS * lines) / loadFor(rate, lines, false) <= 1.08 * classic) return lines;
  }
  return MAX_LINES;
}

function blockedSize(items, rate, paired) {
  const lines = linesFor(rate);
  const blocks = Math.max(1, Math.ceil((items * lines) / loadFor(allowed(rate), lines, paired)));
  return { blocks, lines, bits: blocks * LINE_BITS };
}

// --- cuckoo: fingerprints, four to a bucket ---

const fingerprints = (width) => ((1 << Math.min(width, 8)) - 1) * 2 ** (width - Math.min(width, 8));
const crowded = (items) => items + Math.floor(items / 64) + 12;

/** `1 - (1 - 2 / (m F))^n`. */
export function cuckooRate(buckets, width, items) {
  return -Math.expm1(items * Math.log1p(-Math.min(1, 2 / (buckets * fingerprints(width)))));
}

/** Buckets and bits of a fingerprint. */
export function cuckooSize(items, rate) {
  const even = (number) => number + (number % 2);
  const narrowest = items < 4096 ? 8 : 5;
  const buckets = Math.max(16, even(Math.ceil((items / 0.947 + 2.2 * Math.sqrt(items) + 48) / 4)));
  let width = narrowest;
  while (width < 56 && cuckooRate(buckets, width, crowded(items)) > allowed(rate)) width += 1;
  let best = { buckets, width };
  if (width - 1 >= narrowest) {
    const each = -Math.expm1(Math.log1p(-rate) / crowded(items));
    const airy = even(Math.ceil(2 / (each * fingerprints(width - 1))));
    if (airy >= buckets && airy * (width - 1) < buckets * width) best = { buckets: airy, width: width - 1 };
  }
  return { ...best, bits: 64 * (Math.ceil((best.buckets * 4 * best.width) / 64) + 1) };
}

// --- quotient: sorted remainders in blocks of 512 bits ---

function quotientWords(slots, interval) {
  const bits = Math.ceil(Math.log2(interval));
  let perBlock = 56;
  const offset = (slots) => Math.max(0, 16 - (64 - slots));
  while (perBlock > 0 && 64 + perBlock + offset(perBlock) + perBlock * bits > 512) perBlock -= 1;
  return perBlock === 0 ? Infinity : 8 * Math.ceil((slots + Math.min(64, slots)) / perBlock);
}

function quotientSize(items, rate) {
  const needed = Math.max(2, 1 / -Math.expm1(Math.log1p(-Math.min(allowed(rate), 0.999999)) / items));
  const least = Math.ceil(items / 0.82 / 3) * 3;
  let best = null;
  for (let bits = 1; bits <= 48; bits += 1) {
    const interval = 2 ** bits;
    const slots = Math.max(least, Math.ceil(needed / interval / 3) * 3);
    const words = quotientWords(slots, interval);
    if (Number.isFinite(words) && (!best || words <= best.words)) best = { slots, interval, words };
    if (bits >= 6 && slots === least && slots * interval >= needed) break;
  }
  return best ? { ...best, bits: best.words * 64 } : null;
}

// --- fuse and ribbon: built once ---

const widthFor = (rate) => Math.max(1, Math.ceil(-Math.log2(allowed(rate))));

function fuseSize(items, rate) {
  const width = widthFor(rate);
  if (width > 32) return null;
  const shards = Math.max(Math.min(16, Math.max(1, Math.floor(items / 4_000_000) * 2)), Math.ceil(items / 2 ** 30));
  const keys = Math.ceil(items / shards);
  const best = Math.floor(Math.log(keys) / Math.log(3.33) + 2.25);
  const [longer, shorter] = [best, best - 1].map((bits) => {
    const segment = 2 ** Math.min(18, Math.max(2, bits));
    return segment * (Math.max(1, Math.ceil((keys * (1.0837 + 0.56 / Math.cbrt(segment))) / segment)) + 2);
  });
  const cells = shards * (longer <= 1.002 * shorter ? longer : shorter);
  return { width, bits: 64 * (Math.ceil((cells * width) / 64) + ([8, 16, 32].includes(width) ? 0 : 1)) };
}

function ribbonSize(items, rate) {
  const width = widthFor(rate);
  return width > 32 ? null : { width, bits: 64 * Math.ceil((items * width * 1.006) / 64) };
}

// --- stable: lines of 8 words of 32 cells, which a hand lowers once in a round ---

const GAUSS = [[0.069431844202974, 0.173927422568727], [0.330009478207572, 0.326072577431273], [0.669990521792428, 0.326072577431273], [0.930568155797026, 0.173927422568727]];

/** The chance that an absent key passes a line, of which each key takes a `share`: see math/stable.rs. */
function stableLineRate(share, round, inserted) {
  let sum = 0;
  for (const [x, weight] of GAUSS) {
    const window = (word) => Math.min(2 * round + ((x + word) * round) / 8, inserted);
    const terms = [1, 0, 0, 0, 0, 0, 0, 0, 0];
    for (let word = 7; word >= 0; word -= 1) {
      for (let chosen = 8; chosen >= 1; chosen -= 1) terms[chosen] -= terms[chosen - 1];
      const keys = window(word) - (word === 0 ? 0 : window(word - 1));
      for (let chosen = 1; chosen <= 8; chosen += 1) terms[chosen] *= Math.exp(keys * Math.log1p(-share * (1 - (31 / 32) ** chosen)));
    }
    sum += weight * Math.min(1, Math.max(0, terms.reduce((all, term) => all + term, 0)));
  }
  return Math.min(1, Math.max(0, sum));
}

/** The greatest number for which a rising rate is allowed. */
function greatestFor(rateOf, limit, low, high) {
  for (let step = 0; step < 64; step += 1) {
    const middle = Math.sqrt(low * high);
    if (rateOf(middle) <= limit) low = middle;
    else high = middle;
  }
  return low;
}

/** Rows, lines of a key and the round of one that remembers so many keys for certain, which are two rounds. */
function stableShape(items, rate) {
  const loads = Array.from({ length: MAX_LINES }, (_, at) =>
    greatestFor((load) => stableLineRate(1e-9, load * 1e9, Infinity), rate ** (1 / (at + 1)), 1e-6, 1e6));
  const costs = loads.map((load, at) => (at + 1) / load);
  const lines = 1 + costs.findIndex((cost) => cost <= 1.08 * Math.min(...costs));
  const round = Math.max(1, Math.ceil(items / 2));
  const settled = (rows) => stableLineRate(1 / rows, round, Infinity) ** lines;
  let rows = Math.max(1, Math.ceil(round / loads[lines - 1]));
  while (rows > 1 && settled(rows - 1) <= allowed(rate)) rows -= 1;
  while (settled(rows) > allowed(rate)) rows += 1;
  return { rows, lines, round };
}

// --- chains and rings ---

/** The share of the promise that stage `i` of a chain gets: rising by 1.05 for twelve stages, then falling by 0.7. */
export function stageShare(i) {
  const [stages, rise, then] = [12, 1.05, 0.7];
  const top = rise ** (stages - 1);
  const weight = i < stages ? rise ** i : top * then ** (i - stages + 1);
  return weight / ((top * rise - 1) / (rise - 1) + (top * then) / (1 - then));
}

const ringShare = (rate) => -Math.expm1(Math.log1p(-rate) / (GENERATIONS + 1));
const ringRate = (each) => -Math.expm1(Math.log1p(-each) * (GENERATIONS + 1));

/** Stages of a chain whose first holds `first` keys, each `growth` times the one before it, up to `items` keys. */
function chainRate(first, items, growth, rateOf) {
  let quiet = 0;
  for (let stage = 0, left = items; stage < 200; stage += 1) {
    const capacity = Math.max(first + stage, Math.ceil(first * growth ** stage));
    quiet += Math.log1p(-Math.min(1 - 1e-12, rateOf(capacity, stage, Math.min(left, capacity))));
    if (left <= capacity) break;
    left -= capacity;
  }
  return -Math.expm1(quiet);
}

/** The kinds that are sized by keys and a rate, in the order in which the command line lists them. (A stable one, which is not
 * planned but drawn, is known below.) */
export const KINDS = [
  { kind: "blocked", what: "one cache line a key: the fastest", deletes: false, grows: false, window: false, changes: true },
  { kind: "classic", what: "the fewest bits that take inserts", deletes: false, grows: false, window: false, changes: true },
  { kind: "partitioned", what: "classic, with a slice for each hash", deletes: false, grows: false, window: false, changes: true },
  { kind: "counting", what: "removals, simple and robust", deletes: true, grows: false, window: false, changes: true },
  { kind: "scalable", what: "a chain for an unknown number of keys", deletes: false, grows: true, window: false, changes: true },
  { kind: "rotating", what: "the last hour, day or week", deletes: false, grows: false, window: true, changes: true },
  { kind: "cuckoo", what: "removals in few bits", deletes: true, grows: false, window: false, changes: true },
  { kind: "growing-cuckoo", what: "removals, unknown number of keys", deletes: true, grows: true, window: false, changes: true },
  { kind: "quotient", what: "counts, lists, merges and grows", deletes: true, grows: true, window: false, changes: true },
  { kind: "fuse", what: "a set that never changes", deletes: false, grows: false, window: false, changes: false },
  { kind: "ribbon", what: "the same, at the least size there is", deletes: false, grows: false, window: false, changes: false },
];

/** The size of a kind for so many keys at a rate, with its rate as a function of keys; nothing if it cannot be built so. */
export function sizeOf(kind, items, rate) {
  switch (kind) {
    case "classic": {
      const { bits, probes } = classicSize(items, rate);
      return { bits, probes, rateAt: (n) => classicRate(bits, probes, n) };
    }
    case "partitioned": {
      const { bits, probes } = classicSize(items, rate);
      return { bits, probes, rateAt: (n) => classicRate(bits, probes, n) };
    }
    case "blocked": {
      const { bits, blocks, lines } = blockedSize(items, rate, false);
      return { bits, probes: lines, rateAt: (n) => blockedRate(blocks, lines, false, n) };
    }
    case "counting": {
      const { bits, blocks, lines } = blockedSize(items, rate, true);
      return { bits: bits * 4, probes: lines, rateAt: (n) => blockedRate(blocks, lines, true, n) };
    }
    case "scalable": {
      const { bits, lines } = blockedSize(items, rate * stageShare(0), false);
      const stage = (capacity, i, n) => {
        const shape = blockedSize(capacity, rate * stageShare(i), false);
        return blockedRate(shape.blocks, shape.lines, false, n);
      };
      return { bits, probes: lines, rateAt: (n) => chainRate(items, n, 1.75, stage) };
    }
    case "rotating": {
      const { bits, blocks, lines } = blockedSize(Math.ceil(items / GENERATIONS), ringShare(rate), false);
      const rateAt = (n) => ringRate(blockedRate(blocks, lines, false, Math.ceil(n / GENERATIONS)));
      return { bits: bits * (GENERATIONS + 1), probes: lines, rateAt };
    }
    case "cuckoo": {
      const { bits, buckets, width } = cuckooSize(items, rate);
      return { bits, probes: 0, width, most: items, rateAt: (n) => cuckooRate(buckets, width, n) };
    }
    case "growing-cuckoo": {
      const { bits, width } = cuckooSize(items, rate * stageShare(0));
      const stage = (capacity, i, n) => {
        const shape = cuckooSize(capacity, rate * stageShare(i));
        return cuckooRate(shape.buckets, shape.width, n);
      };
      return { bits, probes: 0, width, rateAt: (n) => chainRate(items, n, 2, stage) };
    }
    case "quotient": {
      const shape = quotientSize(items, rate);
      if (!shape) return null;
      return { bits: shape.bits, probes: 0, rateAt: (n) => -Math.expm1(n * Math.log1p(-1 / (shape.slots * shape.interval))) };
    }
    case "fuse": {
      const shape = fuseSize(items, rate);
      return shape && { ...shape, probes: 0, most: items, rateAt: () => 2 ** -shape.width };
    }
    case "ribbon": {
      const shape = ribbonSize(items, rate);
      return shape && { ...shape, probes: 0, most: items, rateAt: () => 2 ** -shape.width };
    }
    case "stable": {
      const { rows, lines, round } = stableShape(items, rate);
      return { bits: rows * lines * LINE_BITS, probes: lines, rateAt: (n) => stableLineRate(1 / rows, round, n) ** lines };
    }
    default:
      return null;
  }
}
