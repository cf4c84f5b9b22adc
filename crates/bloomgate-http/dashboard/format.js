// Numbers as people read them. Pure functions; `scripts/test-pages` tests them.

// A number and its unit stay on one line.
const GAP = "\u00a0";
const GROUPED = new Intl.NumberFormat("en-US");

/** 1234567 as "1,234,567". */
export function count(number) {
  return Number.isFinite(number) ? GROUPED.format(Math.round(number)) : "–";
}

/** Three digits and a unit: 1234567 as "1.23 M". Below 10,000 every digit is shown. */
export function short(number) {
  if (!Number.isFinite(number)) return "–";
  const size = Math.abs(number);
  if (size < 10_000) return size < 100 && !Number.isInteger(number) ? digits(number, 2) : count(number);
  const [unit, name] = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([unit]) => size >= unit * 0.9995);
  return `${digits(number / unit, 3)}${GAP}${name}`;
}

/** So many significant digits, without an exponent and without zeros that say nothing. */
export function digits(number, significant) {
  if (number === 0) return "0";
  const places = Math.max(0, significant - 1 - Math.floor(Math.log10(Math.abs(number)) + 1e-12));
  const text = number.toFixed(Math.min(places, 20));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** Bytes in powers of ten, as the command line writes them: 1.26 MB. */
export function bytes(number) {
  if (!Number.isFinite(number)) return "–";
  if (number < 1000) return `${Math.round(number)}${GAP}B`;
  const units = ["kB", "MB", "GB", "TB", "PB"];
  let value = number / 1000;
  let at = 0;
  while (value >= 999.5 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${digits(value, 3)}${GAP}${units[at]}`;
}

/** A rate or a share: "1 %", "0.0257 %"; below one in a million as "3.2e-8". */
export function rate(number) {
  if (number === null || number === undefined || !Number.isFinite(number)) return "–";
  if (number === 0) return `0${GAP}%`;
  if (number < 1e-6) return exponent(number);
  if (number > 0.99995 && number < 1) return `>${GAP}99.99${GAP}%`;
  return `${digits(number * 100, number >= 0.99 ? 4 : 3)}${GAP}%`;
}

const exponent = (number) => number.toExponential(1).replace(".0e", "e");

/** How rates are written on one chart, whose axis begins at `low`: all in percent or all as "1e-9", never one beside the other. */
export function rateFormat(low) {
  if (low < 1e-8) return (number) => (number > 0 ? exponent(number) : "0");
  return (number) => (number > 0 && number < 1e-6 ? `${digits(number * 100, 2)}${GAP}%` : rate(number));
}

/** A rate where the exact one is nobody's concern below one in a million: "0.0257 %", "< 0.0001 %". */
export function roughRate(number) {
  return number > 0 && number < 1e-6 ? `<${GAP}0.0001${GAP}%` : rate(number);
}

/** A sentence of the server, with no line between a number and its percent sign. */
export const heldTogether = (text) => text.replace(/(\d) %/g, `$1${GAP}%`);

/** "one in 1,000" for a rate. */
export function oneIn(number) {
  if (!(number > 0)) return "none";
  return number >= 0.5 ? "more than one in two" : `one in ${count(1 / number)}`;
}

/** A time that passes: 0.0000123 s as "12.3 µs", 7260 s as "2 h 1 min". */
export function time(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 0) return `-${time(-seconds)}`;
  if (seconds === 0) return `0${GAP}s`;
  if (seconds < 1e-6) return `${digits(seconds * 1e9, 3)}${GAP}ns`;
  if (seconds < 1e-3) return `${digits(seconds * 1e6, 3)}${GAP}µs`;
  if (seconds < 1) return `${digits(seconds * 1e3, 3)}${GAP}ms`;
  if (seconds < 60) return `${digits(seconds, seconds < 10 ? 2 : 3)}${GAP}s`;
  const parts = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];
  const at = parts.findIndex(([unit]) => seconds >= unit);
  const [unit, name] = parts[at];
  const whole = Math.floor(seconds / unit);
  const [next, nextName] = parts[at + 1];
  const rest = Math.floor((seconds - whole * unit) / next);
  return rest > 0 && whole < 10 ? `${whole}${GAP}${name} ${rest}${GAP}${nextName}` : `${whole}${GAP}${name}`;
}

/** A time that passes in its largest unit alone, for columns: 7260 s as "2 h". */
export function roughTime(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  const [unit, name] = [[365 * 86_400, "y"], [86_400, "d"], [3_600, "h"], [60, "min"]].find(([unit]) => seconds >= unit) ?? [1, "s"];
  return `${Math.max(0, Math.floor(seconds / unit))}${GAP}${name}`;
}

/** How long ago: "just now", "3 min ago". */
export function ago(seconds) {
  if (!Number.isFinite(seconds)) return "never";
  return seconds < 2 ? "just now" : `${time(Math.floor(seconds))} ago`;
}

/** "1 filter", "2 filters". */
export function counted(number, thing, things = `${thing}s`) {
  return `${count(number)} ${number === 1 ? thing : things}`;
}

/** The time of day of a moment in milliseconds since 1970. */
export function clock(milliseconds) {
  const date = new Date(milliseconds);
  const two = (number) => String(number).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** Day and time of a moment in milliseconds since 1970, with the month as a word. */
export function moment(milliseconds) {
  const date = new Date(milliseconds);
  const month = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ")[date.getMonth()];
  return `${date.getDate()} ${month} ${date.getFullYear()}, ${clock(milliseconds)}`;
}

/** A number that people typed: "10M", "1e6", "2,500". Nothing if it is none. */
export function parseCount(text) {
  const match = /^([0-9][0-9,_ ]*(?:\.[0-9]+)?(?:e[0-9]{1,2})?)\s*([kKMGTB]?)$/.exec(text.trim());
  if (!match) return null;
  const unit = { "": 1, k: 1e3, K: 1e3, M: 1e6, G: 1e9, B: 1e9, T: 1e12 }[match[2]];
  const number = Number(match[1].replace(/[,_ ]/g, "")) * unit;
  return Number.isFinite(number) ? Math.round(number) : null;
}

/** A rate that people typed: "1%", "0.01", "1e-6". Nothing if it is not between 0 and 1. */
export function parseRate(text) {
  const match = /^([0-9]*\.?[0-9]+(?:e-?[0-9]{1,2})?)\s*(%?)$/i.exec(text.trim());
  if (!match) return null;
  // Back through text: 0.01 % is 0.0001 and not 0.00009999999999999999.
  const number = match[2] ? Number((Number(match[1]) / 100).toPrecision(12)) : Number(match[1]);
  return number > 0 && number < 1 ? number : null;
}
