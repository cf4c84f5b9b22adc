// Where the lookups of a gate ended, from the first step to the last. Pure.

const STEPS = [
  ["absent-by-filter", "filter", "Filter says no", "404; nothing behind it is asked", "204, allowed; nothing is asked"],
  ["negative-cached", "negative", "Remembered as absent", "404; the source said so before", "204, allowed; the source said so before"],
  ["cache", "cache", "Cache", "200; the row was at hand", "403, denied; the row was at hand"],
  ["source", "source", "Source says yes", "200; read from the database", "403, denied; read from the database"],
  ["not-found", "false", "Source says no", "404; the filter’s false positives", "204, allowed; the filter’s false positives"],
  ["bypass", "pass", "Not filtered", "it was not ready, or only watches", "it was not ready, or only watches"],
  ["failed", "pass", "Failed or refused", "an error, never a 404", "an error, never a 403"],
];

/** All lookups, and for each step how many ended there and how many had ended before. What an end means to the client hangs on
 * what a row means: `present`, or `deny` of a deny list. */
export function funnel(lookups, meaning = "present") {
  let before = 0;
  const steps = STEPS.map(([key, name, title, present, deny]) => {
    const number = lookups[key] ?? 0;
    const step = { name, title, what: meaning === "deny" ? deny : present, number, before };
    before += number;
    return step;
  });
  return { total: before, steps };
}
