// From a need to a kind, a size and the lines that make it: what `bloomgate plan` advises, for the planner. Pure functions.

import { KINDS, sizeOf } from "./sizing.js";
import { bytes, count, counted, rate as percent } from "./format.js";

/** Fewer keys are better kept in a hash set. */
export const HASH_SET_BELOW = 10_000;

/** What is asked when the link says nothing. */
export const USUAL = { items: 1_000_000, rate: 0.01, growth: 1, deletes: false, window: 0, still: false, untrusted: false };

/** Words that links may have in place of how many times the set grows. */
const GROWTHS = { fixed: 1, some: 1.5, double: 2, tenfold: 10 };
const LIMITS = { items: [1, 1e12], rate: [1e-12, 0.5], growth: [1, 100], window: [0, 400 * 86_400] };

/** Where the sliders of the planner stop; a link may say what lies between. Growth: how many times as many keys in the end. */
export const GROWTH_STEPS = [1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, "unknown"];
export const WINDOW_STEPS = [0, 10, 60, 300, 900, 3_600, 21_600, 43_200, 86_400, 259_200, 604_800, 2_592_000, 7_776_000, 31_536_000];

/** The step of a slider that is nearest below a value: where its thumb stands. */
export function stepOf(steps, value) {
  const exact = steps.indexOf(value);
  if (exact >= 0) return exact;
  return Math.max(0, steps.findLastIndex((step) => typeof step === "number" && step <= value));
}

/** How the set grows, in words. */
export function growthWords(growth) {
  if (growth === "unknown") return "nobody knows how far";
  return growth === 1 ? "not at all" : `to ${growth} times as many`;
}

/** A window of time in words, in the largest unit that is exact. */
export function windowWords(seconds) {
  if (seconds === 0) return "everything: no window";
  const [unit, name] = [[86_400, "day"], [3_600, "hour"], [60, "minute"]].find(([unit]) => seconds % unit === 0) ?? [1, "second"];
  return counted(seconds / unit, name);
}

/** A need from the parameters of a link; what is not there or no number is as usual. */
export function needFrom(parameters) {
  const number = (name) => {
    const value = Number(parameters.get(name));
    const [least, most] = LIMITS[name];
    return parameters.get(name) !== null && value >= least && value <= most ? value : USUAL[name];
  };
  const growth = parameters.get("growth") ?? "";
  return {
    items: Math.round(number("items")),
    rate: number("rate"),
    growth: growth === "unknown" ? growth : Object.hasOwn(GROWTHS, growth) ? GROWTHS[growth] : number("growth"),
    deletes: parameters.get("deletes") === "1",
    window: Math.round(number("window")),
    still: parameters.get("still") === "1",
    untrusted: parameters.get("untrusted") === "1",
  };
}

/** The parameters of a link for a need: only what is not as usual. */
export function parametersOf(need) {
  const parameters = new URLSearchParams();
  for (const [name, usual] of Object.entries(USUAL)) {
    if (need[name] !== usual) parameters.set(name, need[name] === true ? "1" : String(need[name]));
  }
  return parameters;
}

/** Room for growth in a filter that cannot grow. */
export function headroom(need) {
  if (need.growth === "unknown") return need.window ? 3 : 1;
  return need.growth;
}

/** Why a kind does not do what is needed; nothing if it does. */
export function misfit(row, need) {
  if (need.window && !row.window) return "keeps keys for ever";
  if (row.window && !need.window) return "forgets keys after a time";
  if (need.deletes && !row.deletes && !row.window) return "cannot remove keys";
  if (need.growth === "unknown" && !row.grows && !row.window) return "cannot grow";
  if (!row.changes && (!need.still || need.deletes || need.growth !== 1)) return "is built once and never changed";
  return null;
}

/** The kind that `bloomgate plan` chooses, and why. */
export function chooseKind(need) {
  if (need.window) {
    return { kind: "rotating", why: "Only the recent past counts: the generations of a rotating filter age out one after the other." };
  }
  if (need.deletes && need.growth === "unknown") {
    return { kind: "growing-cuckoo", why: "Keys are removed and nobody knows how many will come: a chain of cuckoo tables grows and keeps the rate." };
  }
  if (need.deletes) {
    return { kind: "cuckoo", why: "Keys are removed one by one: a cuckoo filter keeps fingerprints, which can be taken out again, in about the bits of a plain filter." };
  }
  if (need.growth === "unknown") {
    return { kind: "scalable", why: "Nobody knows how many keys will come: a chain of stages grows and keeps the rate over the whole chain." };
  }
  if (need.still && need.growth === 1) {
    return { kind: "fuse", why: "All keys are known before it is built: a fuse filter takes a fifth fewer bits than a Bloom filter." };
  }
  return { kind: "blocked", why: "A blocked filter reads one cache line a key; more only below a rate of 0.03 %." };
}

/** Every kind, sized for a need; the chosen one is marked, and those that do not fit say why. */
export function compare(need) {
  const items = Math.ceil(need.items * headroom(need));
  const chosen = chooseKind(need).kind;
  return KINDS.map((row) => {
    const size = sizeOf(row.kind, items, need.rate);
    return {
      ...row,
      items,
      chosen: row.kind === chosen,
      misfit: misfit(row, need) ?? (size ? null : "has no fingerprints for so low a rate"),
      bits: size?.bits ?? null,
      bytes: size ? Math.ceil(size.bits / 8) : null,
      bitsPerItem: size ? size.bits / items : null,
      rate: size ? size.rateAt(items) : null,
      rateAtTwice: size && !(size.most < items * 2) ? size.rateAt(items * 2) : null,
      rateAt: size?.rateAt ?? null,
      most: size?.most ?? Infinity,
    };
  });
}

/** What is worth saying beside the size. */
export function remarks(need, row) {
  const said = [];
  if (row.items < HASH_SET_BELOW && need.growth !== "unknown") {
    said.push(`A hash set of ${count(row.items)} keys takes about ${bytes(row.items * 64)}, is never wrong and can list its keys: take that instead, unless the set is sent to many machines.`);
  }
  if (need.deletes) said.push("Remove only what was added: another key may look alike, and then a “no” would be wrong.");
  if (need.window) said.push("A key is kept for at least the window, and for at most a quarter longer (four generations).");
  if (need.untrusted) said.push("Keys come from outside: they are hashed under a secret, or somebody could send keys that all say “maybe”.");
  if (row.rateAtTwice !== null && row.rateAtTwice > 2 * need.rate) {
    said.push(`With twice the keys the rate is ${percent(row.rateAtTwice)}.`);
  } else if (row.rateAtTwice === null && row.changes) {
    said.push("When it is full it refuses more keys: nothing that it took is lost.");
  }
  return said;
}

const TYPES = {
  "blocked": "Blocked", "classic": "Classic", "partitioned": "Partitioned", "counting": "Counting", "scalable": "Scalable",
  "rotating": "Rotating", "cuckoo": "Cuckoo", "growing-cuckoo": "GrowingCuckoo", "quotient": "Quotient", "fuse": "Fuse", "ribbon": "Ribbon",
};

/** The exact lines that make a kind for a need: command line, RESP and Rust. */
export function lines(kind, need) {
  const row = KINDS.find((row) => row.kind === kind);
  const room = headroom(need);
  const items = Math.ceil(need.items * room);
  return { cli: commandLine(kind, need, row, room), resp: respLine(kind, need, row, items), rust: rustLine(kind, need, row, room) };
}

function commandLine(kind, need, row, room) {
  const secret = need.untrusted ? ["bloomgate secret new -o keys.secret"] : [];
  const keyed = need.untrusted ? " --secret-file keys.secret" : "";
  if (row.window) {
    const window = `--window ${need.window || 3600}s --items ${Math.ceil(need.items * room)}`;
    return [...secret, `bloomgate dedup --filter keys.bloom --rate ${need.rate} ${window}${keyed} keys.txt`].join("\n");
  }
  const size = !row.changes ? "" : room > 1 ? ` --items ${need.items} --headroom ${room}` : ` --items ${need.items}`;
  const named = kind === "blocked" ? "" : ` --kind ${kind}`;
  return [...secret, `bloomgate build -o keys.bloom --rate ${need.rate}${named}${size}${keyed} keys.txt`].join("\n");
}

// The server hashes under a secret of its own unless told otherwise, so nothing is said of it here.
function respLine(kind, need, row, items) {
  if (!row.changes) return `BG.BUILD keys FROM keys.txt KIND ${kind} RATE ${need.rate}`;
  if (kind === "scalable") return `BF.RESERVE keys ${need.rate} ${items}`;
  if (kind === "growing-cuckoo") return `CF.RESERVE keys ${items} RATE ${need.rate}`;
  const window = row.window ? ` WINDOW ${need.window || 3600}` : "";
  return `BG.CREATE keys KIND ${kind} CAPACITY ${items} RATE ${need.rate}${window}`;
}

function rustLine(kind, need, row, room) {
  const type = `bloomgate::${TYPES[kind]}::builder()`;
  const secret = need.untrusted ? ".secret(&secret)" : "";
  if (!row.changes) return `let filter = ${type}.rate(${need.rate})${secret}.build_from(keys)?;`;
  const window = row.window ? `.window(std::time::Duration::from_secs(${need.window || 3600}))` : "";
  const grown = room > 1 ? `.headroom(${Number.isInteger(room) ? `${room}.0` : room})` : "";
  return `let mut filter = ${type}${window}.items(${rustInteger(need.items)}).rate(${rustFloat(need.rate)})${grown}${secret}.build()?;`;
}

const rustInteger = (number) => count(number).replaceAll(",", "_");
const rustFloat = (number) => (Number.isInteger(number) ? `${number}.0` : String(number));
