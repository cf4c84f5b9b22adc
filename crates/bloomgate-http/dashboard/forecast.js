// When is it full? What the server foresees by a straight line through the last minutes, in words. Pure.

/** Kinds that are made of layers, and grow by one more unless they were told to refuse. */
const CHAINS = ["scalable", "growing-cuckoo"];

/** Whether it takes no more. One whose last place was just taken is full too, if nothing is known of what it does then. */
export function isFull({ kind, items, capacity, refused, on_full: onFull }) {
  if (!(capacity > 0) || items < capacity || ["stable", "rotating"].includes(kind)) return false;
  if (refused > 0 || onFull) return refused > 0 || onFull === "refuse";
  return items === capacity && !CHAINS.includes(kind);
}

/**
 * "full in 3 days". The server foresees it for filters that refuse keys when they are full, and for no others: a chain grows, a
 * ring forgets what leaves its window, and who was told to go on goes on. Lists do not say which of these a filter does, so one that
 * does not grow is said to do that.
 */
export function forecast(filter) {
  const { kind, growth_per_second: growth, full_in_seconds: seconds, on_full: onFull } = filter;
  if (kind === "stable") return "never full";
  if (["fuse", "ribbon"].includes(kind)) return "never changes";
  if (isFull(filter)) return "full";
  if (seconds !== null && seconds !== undefined && growth > 0) return fullIn(seconds);
  const endless = kind === "rotating" ? "keeps its window" : CHAINS.includes(kind) ? "grows" : "goes on";
  if (onFull ? onFull !== "refuse" : growth > 0 || filter.used > 1) return endless;
  return growth === null ? "not known yet" : "not growing";
}

/** Filters by the time to their end: those that are full, those that will be, and then the others as they came. */
export function soonest(filters, isBackwards) {
  const seconds = (filter) => (isFull(filter) ? 0 : filter.growth_per_second > 0 && filter.full_in_seconds !== null ? filter.full_in_seconds : Infinity);
  const rising = filters.map((filter) => [seconds(filter), filter]).sort(([a], [b]) => (a === b ? 0 : a - b)).map(([, filter]) => filter);
  return isBackwards ? rising.reverse() : rising;
}

/** "full in 3 days"; beyond two years it is no forecast any more. */
export function fullIn(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "not growing";
  if (seconds <= 0) return "full";
  if (seconds > 2 * 365 * 86_400) return "full in years";
  const days = seconds / 86_400;
  if (days >= 60) return `full in ${Math.round(days / 30.4)} months`;
  if (days >= 2) return `full in ${Math.round(days)} days`;
  // One unit: nobody plans by the minutes of tomorrow.
  const [unit, name] = [[3_600, "h"], [60, "min"], [1, "s"]].find(([unit]) => seconds >= 2 * unit) ?? [1, "s"];
  return `full in ${Math.max(1, Math.round(seconds / unit))}\u00a0${name}`;
}
