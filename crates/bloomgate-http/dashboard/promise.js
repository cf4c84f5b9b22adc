// Does a measured rate break the promise? Repeated looks at a filter that keeps it come near by chance, so it has to be certain, and
// to matter. Pure.

/** How many standard deviations are no chance: one of 300,000 looks. */
const CERTAIN = 4.5;
/** What is above the promise by less, nobody has to act on: one filter of two lies a little above it. */
const MATTERS = 1.2;
/** The width of the intervals that a server tells. */
const Z = 1.96;

/** Whether the rate that random keys found is above the promised one, certainly and by a fifth at least. */
export function breaksPromise({ asked, measured, measured_low: low }) {
  if (!(asked > 0 && asked < 1) || !(low < measured) || measured <= asked * MATTERS) return false;
  // The lower end of the interval tells how many keys were asked (Wilson 1927).
  const asks = (Z * Z * low * (1 - low)) / (measured - low) ** 2;
  // By the ratio of likelihoods: one hit is no proof however small the promise, as the normal distribution would have it.
  const against = measured < 1 ? (1 - measured) * Math.log((1 - measured) / (1 - asked)) : 0;
  return 2 * asks * (measured * Math.log(measured / asked) + against) > CERTAIN * CERTAIN;
}
