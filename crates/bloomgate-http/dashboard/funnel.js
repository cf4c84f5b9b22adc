// Where the lookups of a gate ended, from the first step to the last. Pure.

const STEPS = [
  ["absent-by-filter", "filter", "Filter says no", "404; nothing behind it is asked"],
  ["negative-cached", "negative", "Remembered as absent", "404; the source said so a while ago"],
  ["cache", "cache", "Cache", "200; the row was at hand"],
  ["source", "source", "Source says yes", "200; read from the database"],
  ["not-found", "false", "Source says no", "404; the filter’s false positives"],
  ["bypass", "pass", "Not filtered", "the filter was not ready, or only watches"],
  ["failed", "pass", "Failed or refused", "an error, never a 404"],
];

/** All lookups, and for each step how many ended there and how many had ended before. */
export function funnel(lookups) {
  let before = 0;
  const steps = STEPS.map(([key, name, title, what]) => {
    const number = lookups[key] ?? 0;
    const step = { name, title, what, number, before };
    before += number;
    return step;
  });
  return { total: before, steps };
}
