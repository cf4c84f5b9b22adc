// The planner's arithmetic beside the command's: `sizes.js BINARY`.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";

import { chooseKind, compare, lines, needFrom } from "./dashboard/plan.js";
import { sizeOf } from "./dashboard/sizing.js";

const binary = process.argv[2];
const planned = (options) => JSON.parse(execFileSync(binary, ["plan", "--json", "--plot", "none", ...options], { encoding: "utf8" }));

let compared = 0;
for (const items of [10_000, 123_456, 1_000_000, 50_000_000, 3_000_000_000]) {
  for (const rate of [0.1, 0.01, 0.003, 0.001, 1e-4, 1e-6, 1e-9]) {
    const { table } = planned(["--items", String(items), "--rate", String(rate)]);
    for (const row of table) {
      const size = sizeOf(row.kind, items, rate);
      if (size === null) continue;
      const off = size.bits / row.bits - 1;
      assert.ok(Math.abs(off) < 0.005, `${row.kind}, ${items} keys at ${rate}: ${size.bits} bits, not ${row.bits}`);
      compared += 1;
    }
  }
}
for (const [query, options] of [
  ["items=1000000", []], ["items=1000000&deletes=1", ["--deletes"]], ["items=1000000&growth=unknown", ["--growth", "unknown"]],
  ["items=1000000&growth=unknown&deletes=1", ["--growth", "unknown", "--deletes"]], ["items=1000000&window=3600", ["--window"]],
  ["items=1000000&still=1", ["--static"]], ["items=1000000&growth=double&untrusted=1", ["--growth", "2", "--untrusted"]],
]) {
  const need = needFrom(new URLSearchParams(query));
  const said = planned(["--items", "1000000", "--rate", "0.01", ...options]);
  assert.equal(chooseKind(need).kind, said.kind, query);
  const row = compare(need).find((row) => row.chosen);
  assert.ok(Math.abs(row.bytes / said.plan.bytes - 1) < 0.005, `${query}: ${row.bytes} bytes, not ${said.plan.bytes}`);
  // The command says window lines where the page says a time.
  if (said.kind !== "rotating") assert.deepEqual(lines(said.kind, need).cli.split("\n").at(-1).split(" ").sort(), said.next.at(-1).split(" ").sort(), query);
  compared += 1;
}
console.log(`ok sizes: ${compared} sizes and choices are the command's`);
