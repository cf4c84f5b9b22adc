// Where a number stands on an axis, and which numbers are written beside it. Pure.

/** A scale from numbers to places: {to(value), ticks}. Kinds: linear, log. */
export function scale(kind, [low, high], [start, end]) {
  if (kind === "log") {
    const [from, to] = [Math.log10(low), Math.log10(high)];
    const span = to - from || 1;
    return { to: (value) => start + ((Math.log10(Math.max(value, 1e-300)) - from) / span) * (end - start), ticks: logTicks(low, high) };
  }
  const span = high - low || 1;
  return { to: (value) => start + ((value - low) / span) * (end - start), ticks: linearTicks(low, high, 5) };
}

/** About `wanted` round numbers from `low` to `high`. */
export function linearTicks(low, high, wanted) {
  if (!(high > low)) return [low];
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((step) => step >= rough * 0.999);
  const ticks = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) ticks.push(Number((at * step).toPrecision(12)));
  return ticks;
}

/** Powers of ten from `low` to `high`, seven at most. */
export function logTicks(low, high) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const every = Math.max(1, Math.ceil((last - first + 1) / 7));
  const ticks = [];
  for (let power = first; power <= last; power += every) ticks.push(Number(`1e${power}`));
  return ticks;
}

/** The next round number at or above a value, so that an axis does not change with every new point. */
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((factor) => factor * power).find((round) => round >= value * 0.999999);
}
