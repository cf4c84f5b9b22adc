// When is it full? What the server foresees by a straight line through the last minutes, in words. Pure.

/** Whether it takes no more. */
export function isFull({ kind, items, capacity, refused, on_full: onFull }) {
  if (!(capacity > 0) || items < capacity || ["stable", "rotating"].includes(kind)) return false;
  return refused > 0 || onFull === "refuse";
}

/**
 * "full in 3 days" of a filter that refuses keys then, "over capacity in 3 days" of one that goes on, "grows in 3 days" of a chain,
 * which opens another layer and keeps its promise. What forgets is never full, and a ring keeps its window.
 */
export function forecast(filter) {
  const { kind, growth_per_second: growth, capacity_in_seconds: seconds, on_full: onFull } = filter;
  if (kind === "stable") return "never full";
  if (["fuse", "ribbon"].includes(kind)) return "never changes";
  if (isFull(filter)) return "full";
  if (kind === "rotating") return "keeps its window";
  if (onFull === "goon" && filter.used > 1) return "goes on";
  if (growth > 0 && seconds !== null && seconds !== undefined) return within(seconds, WORDS[onFull] ?? "full");
  return growth === null ? "not known yet" : "not growing";
}

const WORDS = { refuse: "full", goon: "over capacity", grow: "grows" };

/** Filters by the time to their end: those that are full, those that will be or will be over their capacity, and then the others as
 * they came. A chain has no end. */
export function soonest(filters, isBackwards) {
  const seconds = (filter) => (isFull(filter) ? 0 : filter.growth_per_second > 0 && filter.on_full !== "grow" ? filter.capacity_in_seconds ?? Infinity : Infinity);
  const rising = filters.map((filter) => [seconds(filter), filter]).sort(([a], [b]) => (a === b ? 0 : a - b)).map(([, filter]) => filter);
  return isBackwards ? rising.reverse() : rising;
}

/** "full in 3 days"; beyond two years it is no forecast any more. */
export function within(seconds, what = "full") {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "not growing";
  if (seconds <= 0) return what === "full" ? what : `${what} now`;
  if (seconds > 2 * 365 * 86_400) return `${what} in years`;
  const days = seconds / 86_400;
  if (days >= 60) return `${what} in ${Math.round(days / 30.4)} months`;
  if (days >= 2) return `${what} in ${Math.round(days)} days`;
  // One unit: nobody plans by the minutes of tomorrow.
  const [unit, name] = [[3_600, "h"], [60, "min"], [1, "s"]].find(([unit]) => seconds >= 2 * unit) ?? [1, "s"];
  return `${what} in ${Math.max(1, Math.round(seconds / unit))}\u00a0${name}`;
}
