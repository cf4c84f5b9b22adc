// The planner beside the command: its arithmetic, its choices, and the lines that it tells people to type. `sizes.js BINARY`.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";

import { again } from "./again.js";
import { chooseKind, compare, lines, needFrom } from "./dashboard/plan.js";
import { KINDS, sizeOf } from "./dashboard/sizing.js";
import { keys } from "./talking.js";

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

// Every line does what it says, typed into a shell as it stands.
const folder = mkdtempSync(join(tmpdir(), "bloomgate-lines-"));
try {
  writeFileSync(join(folder, "keys.txt"), `${keys("key-", 2_000).join("\n")}\n`);
  const path = `${dirname(binary)}${delimiter}${process.env.PATH}`;
  for (const { kind } of KINDS) {
    for (const query of ["items=2000&rate=0.01&window=3600", "items=2000&rate=0.001&growth=double&untrusted=1"]) {
      const { cli } = lines(kind, needFrom(new URLSearchParams(query)));
      try {
        execFileSync("sh", ["-ec", cli], { cwd: folder, env: { ...process.env, PATH: path }, stdio: ["ignore", "ignore", "pipe"] });
      } catch (error) {
        throw new Error(`${cli}\n${error.stderr}`);
      }
      for (const made of ["keys.bloom", "keys.secret"]) rmSync(join(folder, made), { force: true });
    }
  }
} finally {
  rmSync(folder, { recursive: true });
}
console.log(`ok lines: the command takes those of ${KINDS.length} kinds`);
await again(binary);
