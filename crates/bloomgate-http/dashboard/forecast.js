// When is it full? A straight line through what was seen. Pure.

import { time } from "./format.js";

/** Seconds until `items` reach `capacity` at `perSecond`; nothing if they do not grow, 0 if they are there. */
export function secondsUntilFull(items, capacity, perSecond) {
  if (!(capacity > 0)) return null;
  if (items >= capacity) return 0;
  if (!(perSecond > 0)) return null;
  return (capacity - items) / perSecond;
}

/** "full in 3 days"; beyond two years it is no forecast any more. */
export function fullIn(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "not growing";
  if (seconds <= 0) return "full";
  if (seconds > 2 * 365 * 86_400) return "full in years";
  const days = seconds / 86_400;
  if (days >= 60) return `full in ${Math.round(days / 30.4)} months`;
  if (days >= 2) return `full in ${Math.round(days)} days`;
  return `full in ${time(seconds)}`;
}
