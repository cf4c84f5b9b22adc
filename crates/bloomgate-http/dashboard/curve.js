// The rate of a filter that is there, as a function of its items, and the point at which it stands. Pure.
//
// A server tells of each part how many lines it has and how a key uses them: a chain of the Bloom family shares its rate out otherwise
// than the planner's does, and a line of a key more or less is a factor of ten. Kinds without lines are drawn as they are planned.

import { blockedRate, cuckooRate, cuckooSize, sizeOf, stageShare } from "./sizing.js";

/** {rateAt, most}: the rate with so many items, and how many its parts have room for, if that is an end. */
export function curveOf(filter) {
  const { kind, stages, capacity, rate } = filter;
  if (!(capacity > 0) || !(rate.asked > 0)) return null;
  const parts = stages.map((stage, at) => partRate(kind, stage, rate.asked * stageShare(at)));
  if (parts.length === 0 || parts.some((part) => part === null)) return sizeOf(kind, capacity, rate.asked);
  if (kind === "rotating") return { rateAt: ringRate(stages, parts) };
  return { rateAt: chainRate(stages, parts), most: filter.on_full === "grow" ? stages.reduce((sum, stage) => sum + stage.capacity, 0) : undefined };
}

/** The rate of a part with so many items, if its shape is known. */
function partRate(kind, { lines, lines_per_key: perKey, paired, capacity }, share) {
  if (lines > 0) return (items) => blockedRate(lines, perKey, paired, items);
  if (kind !== "growing-cuckoo") return null;
  const { buckets, width } = cuckooSize(capacity, share);
  return (items) => cuckooRate(buckets, width, items);
}

/** Parts filled one after the other; what is too much goes into the last. */
function chainRate(stages, parts) {
  return (items) => {
    let left = items;
    return any(parts.map((rateAt, at) => {
      const here = at === parts.length - 1 ? left : Math.min(left, stages[at].capacity);
      left -= here;
      return rateAt(here);
    }));
  };
}

/** Generations that share the items as they do now; alike while there are none. */
function ringRate(stages, parts) {
  const all = stages.reduce((sum, stage) => sum + stage.items, 0);
  return (items) => any(parts.map((rateAt, at) => rateAt(all > 0 ? (items * stages[at].items) / all : items / parts.length)));
}

/** The chance that one of them says yes. */
const any = (rates) => -Math.expm1(rates.reduce((sum, rate) => sum + Math.log1p(-Math.min(1 - 1e-12, rate)), 0));

/** A share of the items by which bits differ from a count is worth a word; one time in twenty they do by less, and by chance. */
const TOLD = 0.05;

/**
 * {items, rate, byBits}: where it stands. Its rate is that of its bits; where these speak of other items than were counted (a full filter
 * takes many for known, and counts them not), it stands at theirs.
 */
export function standsAt({ items, rate, estimate, kind }) {
  const at = rate.estimated ?? rate.expected ?? 0;
  const isKnown = kind !== "stable" && rate.estimated !== null && estimate?.items != null;
  const byBits = isKnown && (items < estimate.low || items > (estimate.high ?? Infinity)) && Math.abs(estimate.items - items) > items * TOLD;
  return { items: byBits ? estimate.items : items, rate: at, byBits };
}
