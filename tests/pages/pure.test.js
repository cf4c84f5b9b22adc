// The functions of the dashboard that need no browser: `node --test`, in the folder that scripts/test-pages makes.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";

import { curveOf, standsAt } from "./dashboard/curve.js";
import { firstCommands } from "./dashboard/terminal.js";
import { forecast, isFull, soonest, within } from "./dashboard/forecast.js";
import * as format from "./dashboard/format.js";
import { funnel } from "./dashboard/funnel.js";
import { chooseKind, compare, GROWTH_STEPS, growthWords, lines, needFrom, parametersOf, stepOf, USUAL, WINDOW_STEPS, windowWords } from "./dashboard/plan.js";
import { linearTicks, logTicks, roundUp, scale } from "./dashboard/scale.js";
import { breaksPromise } from "./dashboard/promise.js";
import { blockedRate, classicRate, cuckooRate, KINDS, linesFor, sizeOf, stageShare } from "./dashboard/sizing.js";
import { dice, findFalsePositive, measure, murmur3, randomWord, sketch } from "./dashboard/sketch.js";
import { parser, patience } from "./dashboard/stream.js";
import { stateOf } from "./dashboard/pages/filters.js";
import { commandsLine, filtersLine } from "./dashboard/pages/workbench.js";
import { base64, replyText, splitWords } from "./dashboard/words.js";

const near = (got, want, within) => assert.ok(Math.abs(got / want - 1) <= within, `${got}, not ${want}`);
// Numbers and units are held together by a space that does not break.
const plain = (text) => text.replaceAll("\u00a0", " ");

test("numbers are written for people", () => {
  assert.equal(format.count(1234567), "1,234,567");
  assert.equal(plain(format.short(1234567)), "1.23 M");
  assert.equal(plain(format.short(999_999)), "1 M");
  assert.equal(format.short(9_999), "9,999");
  assert.equal(format.short(3.14159), "3.1");
  assert.equal(plain(format.bytes(1_264_320)), "1.26 MB");
  assert.equal(plain(format.bytes(999_999)), "1 MB");
  assert.equal(plain(format.bytes(12)), "12 B");
  assert.equal(plain(format.rate(0.01)), "1 %");
  assert.equal(plain(format.rate(0.000257)), "0.0257 %");
  assert.equal(plain(format.rate(0.9987)), "99.87 %");
  assert.equal(plain(format.rate(0.999999)), "> 99.99 %");
  assert.equal(format.rate(3.2e-8), "3.2e-8");
  assert.equal(plain(format.rate(0)), "0 %");
  assert.equal(plain(format.roughRate(3.2e-8)), "< 0.0001 %");
  assert.equal(plain(format.roughRate(0.000257)), "0.0257 %");
  assert.equal(plain(format.roughRate(0)), "0 %");
  for (const nothing of [null, undefined, NaN]) assert.equal(format.rate(nothing), "–");
  assert.equal(plain(format.time(0.0000123)), "12.3 µs");
  assert.equal(plain(format.time(7260)), "2 h 1 min");
  assert.equal(plain(format.time(86_400 * 40)), "40 d");
  assert.equal(plain(format.time(0)), "0 s");
  for (const [seconds, text] of [[0.2, "0 s"], [59.9, "59 s"], [7260, "2 h"], [86_400 * 40, "40 d"], [86_400 * 800, "2 y"], [null, "–"]]) {
    assert.equal(plain(format.roughTime(seconds)), text);
  }
  assert.equal(plain(format.ago(125)), "2 min 5 s ago");
  assert.equal(format.ago(0.3), "just now");
  assert.equal(format.oneIn(0.001), "one in 1,000");
  assert.equal(format.counted(1, "filter"), "1 filter");
  assert.equal(format.counted(2_000, "filter"), "2,000 filters");
});

test("numbers that people type are understood or refused", () => {
  for (const [text, number] of [["10M", 1e7], ["1e6", 1e6], ["2,500", 2500], ["2.5k", 2500], ["1 000 000", 1e6], ["7", 7]]) {
    assert.equal(format.parseCount(text), number, text);
  }
  for (const text of ["", "ten", "-5", "1e400", "5 apples", "0x10"]) assert.equal(format.parseCount(text), null, text);
  for (const [text, number] of [["1%", 0.01], ["0.01", 0.01], ["1e-6", 1e-6], ["0.01 %", 0.0001], [".5", 0.5]]) {
    assert.equal(format.parseRate(text), number, text);
  }
  for (const text of ["0", "1", "100%", "-1%", "", "one", "2"]) assert.equal(format.parseRate(text), null, text);
});

test("forecasts say when, or that there is none", () => {
  assert.equal(within(86_400 * 3), "full in 3 days");
  assert.equal(plain(within(3 * 3600)), "full in 3 h");
  assert.equal(plain(within(6_700, "over capacity")), "over capacity in 112 min");
  assert.equal(plain(within(0.4)), "full in 1 s");
  assert.equal(within(86_400 * 90, "grows"), "grows in 3 months");
  assert.equal(within(1e10), "full in years");
  assert.deepEqual([within(0), within(0, "over capacity")], ["full", "over capacity now"]);
  assert.equal(within(null), "not growing");
});

test("a forecast knows what a filter does when it is full", () => {
  const at = (kind, items, capacity, growth, onFull, more = {}) => ({
    kind, items, capacity, used: items / capacity, growth_per_second: growth, on_full: onFull, refused: 0,
    capacity_in_seconds: growth > 0 && !["stable", "rotating"].includes(kind) ? Math.max(0, capacity - items) / growth : null, ...more });
  for (const [filter, says] of [
    [at("blocked", 50, 100, 1, "refuse"), "full in 50 s"], [at("blocked", 50, 100, 0, "refuse"), "not growing"], [at("blocked", 50, 100, null, "refuse"), "not known yet"],
    [at("blocked", 100, 100, 0, "refuse"), "full"], [at("blocked", 99, 100, 0, "refuse", { refused: 7 }), "not growing"],
    // It goes on, and what was promised does not.
    [at("blocked", 50, 100, 1, "goon"), "over capacity in 50 s"], [at("blocked", 50, 100, 0, "goon"), "not growing"], [at("blocked", 100, 100, 1, "goon"), "over capacity now"],
    [at("blocked", 300, 100, 1, "goon"), "goes on"], [at("blocked", 300, 100, 0, "goon"), "goes on"],
    [at("rotating", 50, 100, 1, "goon"), "keeps its window"], [at("rotating", 300, 100, 1, "goon"), "keeps its window"],
    // A chain keeps its promise with one layer more; one that refuses, of BF.RESERVE ... NONSCALING, is one filter.
    [at("scalable", 50, 100, 1, "grow"), "grows in 50 s"], [at("growing-cuckoo", 50, 100, 0, "grow"), "not growing"],
    [at("scalable", 50, 100, 1, "refuse"), "full in 50 s"], [at("scalable", 100, 100, 0, "grow", { refused: 1 }), "full"],
    [at("stable", 500, 100, 1, "goon"), "never full"], [at("fuse", 100, 100, 0, "refuse"), "never changes"],
    // One that cannot answer.
    [at("blocked", 0, 0, null, null), "not known yet"],
  ]) assert.equal(plain(forecast(filter)), says, JSON.stringify(filter));
  assert.equal(isFull(at("stable", 500, 100, 1, "goon")), false);
  const [full, soon, late] = [at("blocked", 9, 9, 0, "refuse"), at("blocked", 1, 9, 1, "refuse"), at("blocked", 1, 99, 1, "goon")];
  const [chain, ring] = [at("scalable", 8, 9, 1, "grow"), at("rotating", 1, 9, 9, "goon")];
  assert.deepEqual(soonest([chain, ring, late, full, soon], false), [full, soon, late, chain, ring]);
  assert.deepEqual(soonest([chain, ring, late, full, soon], true), [ring, chain, late, soon, full]);
});

test("the first command reaches the server, whatever it listens to and whoever asks", () => {
  const [here, away] = [{ hostname: "127.0.0.1" }, { hostname: "filters.example.com" }];
  const first = (addresses, place, user = null) => firstCommands({ addresses, user: { name: user ?? "default" } }, place, user !== null).first;
  const at = (resp, tls = null) => ({ resp, tls, http: "127.0.0.1:8479" });
  for (const [command, says] of [
    [first(at("127.0.0.1:6479"), here), "redis-cli -p 6479"], [first(at("0.0.0.0:6479"), here), "redis-cli -p 6479"], [first(at("[::1]:6479"), here), "redis-cli -h ::1 -p 6479"],
    [first(at("0.0.0.0:7000"), away), "redis-cli -h filters.example.com -p 7000"], [first(at("[::]:7000"), { ...away, hostname: "[2001:db8::7]" }), "redis-cli -h 2001:db8::7 -p 7000"],
    // It listens on its own machine alone, or on another address than the pages.
    [first(at("127.0.0.1:6479"), away), "redis-cli -p 6479"], [first(at("192.0.2.7:6479"), here), "redis-cli -h 192.0.2.7 -p 6479"],
    [first(at("127.0.0.1:6479"), here, "default"), "redis-cli -p 6479 --user default --askpass"],
    [first(at("127.0.0.1:6479"), here, "it's me"), "redis-cli -p 6479 --user 'it'\\''s me' --askpass"],
    [first(at(null, "0.0.0.0:6480"), away, "alice"), "redis-cli --tls -h filters.example.com -p 6480 --user alice --askpass"],
    // Where both are open the one without certificates does.
    [first(at("127.0.0.1:6479", "127.0.0.1:6480"), here), "redis-cli -p 6479"],
    [first(at("127.0.0.1:6479", "0.0.0.0:6480"), away), "redis-cli --tls -h filters.example.com -p 6480"], [first(at("0.0.0.0:6479", "0.0.0.0:6480"), away), "redis-cli -h filters.example.com -p 6479"],
    // A user of one namespace is told no addresses.
    [first(null, here, "shop"), "redis-cli -p 6479 --user shop --askpass"], [first(null, away, "shop"), "redis-cli -h filters.example.com -p 6479 --user shop --askpass"],
  ]) assert.equal(command, `${says} BF.ADD visitors alice`);
  const note = (addresses) => firstCommands({ addresses, user: null }, here, false).note;
  assert.deepEqual([note(at("127.0.0.1:6479")), /--cacert/.test(note(at(null, "127.0.0.1:6480")))], [null, true]);
});

test("axes have round numbers", () => {
  assert.deepEqual(linearTicks(0, 100, 5), [0, 20, 40, 60, 80, 100]);
  assert.deepEqual(linearTicks(-60, 0, 5), [-60, -40, -20, 0]);
  assert.deepEqual(logTicks(1e-4, 1), [1e-4, 1e-3, 1e-2, 1e-1, 1]);
  assert.ok(logTicks(1e-300, 1).length <= 8);
  assert.equal(roundUp(41_000), 50_000);
  assert.equal(roundUp(0), 1);
  const log = scale("log", [0.01, 1], [100, 0]);
  near(log.to(0.1), 50, 1e-9);
  assert.equal(scale("linear", [0, 10], [0, 100]).to(5), 50);
});

test("the sizes are those that the library's documentation names", () => {
  // math/classic.rs, math/blocked.rs, math/cuckoo.rs, docs/kinds.md
  assert.equal(sizeOf("classic", 1_000_000, 0.001).bits, 14_377_588);
  assert.equal(sizeOf("classic", 1_000_000, 0.001).probes, 10);
  for (const [rate, lineCount, bits] of [[0.01, 1, 10.114], [1e-3, 1, 15.82], [1e-4, 2, 20.23], [1e-6, 3, 30.34], [1e-9, 4, 45.49]]) {
    assert.equal(linesFor(rate), lineCount, `lines at ${rate}`);
    near(sizeOf("blocked", 10_000_000, rate).bits / 1e7, bits, 1e-3);
  }
  near(sizeOf("counting", 1_000_000, 0.01).bits / 1e6, 41, 0.01);
  near(sizeOf("rotating", 1_000_000, 0.01).bits / 1e6, 17.4, 0.01);
  near(sizeOf("cuckoo", 1_000_000, 0.01).bits / 1e6, 10.58, 0.002);
  near(sizeOf("quotient", 1_000_000, 0.01).bits / 1e6, 11.4, 0.01);
  near(sizeOf("fuse", 1_000_000, 0.01).bits / 1e6, 7.9, 0.01);
  near(sizeOf("ribbon", 1_000_000, 0.01).bits / 1e6, 7.04, 0.01);
  assert.equal(sizeOf("fuse", 1_000_000, 1e-12), null);
  assert.equal(sizeOf("nothing", 10, 0.01), null);
});

test("every kind keeps its rate and gets worse with more keys", () => {
  for (const { kind } of KINDS) {
    for (const items of [1, 10, 1_000, 100_000, 10_000_000]) {
      for (const rate of [0.3, 0.01, 1e-4, 1e-8]) {
        const size = sizeOf(kind, items, rate);
        assert.ok(size.bits > 0 && Number.isFinite(size.bits), `${kind} ${items} ${rate}`);
        assert.ok(size.rateAt(items) <= rate * 1.001, `${kind} ${items} ${rate}: ${size.rateAt(items)}`);
        assert.ok(size.rateAt(items * 2) >= size.rateAt(items) * 0.999);
      }
    }
  }
  assert.equal(classicRate(100, 7, 0), 0);
  assert.equal(blockedRate(10, 1, false, 0), 0);
  assert.equal(blockedRate(1, 1, false, 1e9), 1);
  assert.ok(cuckooRate(16, 8, 0) === 0);
});

test("the shares of a chain are at most the promise, for ever", () => {
  let sum = 0;
  for (let stage = 0; stage < 200; stage += 1) sum += stageShare(stage);
  near(sum, 1, 1e-9);
});

test("the curve of a filter is that of the lines that it has", () => {
  const stage = (capacity, lines, perKey, paired = false) => ({ capacity, items: 0, lines, lines_per_key: perKey, paired });
  const filter = (change) => ({ kind: "scalable", capacity: 5_813, on_full: "grow", rate: { asked: 0.01 }, ...change });
  const stages = [1_000, 1_750, 3_063].map((capacity, at) => stage(capacity, sizeOf("blocked", capacity, 0.01 * stageShare(at)).bits / 512, 1));
  const curve = curveOf(filter({ stages }));
  assert.equal(curve.most, 5_813);
  assert.ok(curve.rateAt(5_813) < 0.01 && curve.rateAt(100) < curve.rateAt(2_000));
  near(curve.rateAt(1_000), blockedRate(stages[0].lines, 1, false, 1_000), 1e-9);
  // One layer that has all of the promise uses as many lines as the server says, and goes on when it is full.
  const one = curveOf(filter({ on_full: "refuse", rate: { asked: 1e-5 }, stages: [stage(1_000, 48, 2)] }));
  assert.equal(one.most, undefined);
  near(one.rateAt(1_500), blockedRate(48, 2, false, 1_500), 1e-9);
  near(curveOf(filter({ kind: "counting", stages: [stage(1_000, 21, 1, true)] })).rateAt(700), blockedRate(21, 1, true, 700), 1e-9);
  // A ring goes on as its items lie now.
  const ring = [900, 100, 0].map((items) => ({ ...stage(1_000, 48, 2), items }));
  near(curveOf(filter({ kind: "rotating", stages: ring })).rateAt(1_000), blockedRate(48, 2, false, 900) + blockedRate(48, 2, false, 100), 1e-3);
  // Kinds without lines are drawn as they are planned.
  near(curveOf(filter({ kind: "classic", capacity: 1_000, stages: [stage(1_000, null, null, null)] })).rateAt(700), sizeOf("classic", 1_000, 0.01).rateAt(700), 1e-9);
  assert.equal(curveOf(filter({ capacity: 0, stages: [] })), null);
});

test("it stands where its bits say, if they do not agree with its count", () => {
  const filter = { kind: "classic", items: 5_000, rate: { estimated: 0.4, expected: 0.3 } };
  assert.deepEqual(standsAt({ ...filter, estimate: { items: 6_020, low: 5_900, high: 6_100 } }), { items: 6_020, rate: 0.4, byBits: true });
  assert.deepEqual(standsAt({ ...filter, estimate: { items: 5_010, low: 4_900, high: 5_100 } }), { items: 5_000, rate: 0.4, byBits: false });
  for (const estimate of [undefined, { items: null, low: null, high: null }, { items: 5_000, low: 4_900, high: null }, { items: 5_100, low: 5_050, high: 5_150 }]) {
    assert.equal(standsAt({ ...filter, estimate }).items, 5_000);
  }
  assert.equal(standsAt({ ...filter, kind: "stable", estimate: { items: 9, low: 8, high: 10 } }).items, 5_000);
});

test("a rate is too high when that is certain and matters", () => {
  // The interval that the server tells of so many hits (Wilson 1927).
  const rate = (asked, hits, asks) => {
    const [share, z2] = [hits / asks, 1.96 ** 2];
    const spread = (1.96 / (1 + z2 / asks)) * Math.sqrt((share * (1 - share)) / asks + z2 / (4 * asks * asks));
    return { asked, measured: share, measured_low: hits === 0 ? 0 : (share + z2 / (2 * asks)) / (1 + z2 / asks) - spread };
  };
  for (const [asked, hits, asks, broken] of [
    // Two and four deviations above the promise, five of them that are a fortieth of it, twice the promise, and ten times.
    [0.01, 364, 32_768, false], [0.01, 400, 32_768, false], [0.01, 41_000, 4_000_000, false], [0.01, 655, 32_768, true], [1e-4, 33, 32_768, true],
    // One key that hit, of a promise of one in a million; a few of them are no chance.
    [1e-6, 1, 32_768, false], [1e-6, 4, 32_768, true], [0.01, 0, 32_768, false], [0.5, 32_768, 32_768, true],
  ]) assert.equal(breaksPromise(rate(asked, hits, asks)), broken, `${hits} of ${asks} at ${asked}`);
  assert.equal(breaksPromise({ asked: 0.01, measured: null, measured_low: null }), false);
  const filter = (hits) => ({ available: true, verdict: "ok", used: 0.5, refused: 0, capacity: 10, items: 5, full_in_seconds: null, rate: rate(0.01, hits, 32_768) });
  assert.deepEqual([stateOf(filter(364)), stateOf(filter(655))], [["ok", "fine"], ["warn", "rate too high"]]);
});

test("a plan chooses as the command does, and its link holds it", () => {
  const need = (change) => ({ ...USUAL, ...change });
  for (const [change, kind] of [
    [{}, "blocked"], [{ deletes: true }, "cuckoo"], [{ growth: "unknown" }, "scalable"], [{ growth: "unknown", deletes: true }, "growing-cuckoo"],
    [{ window: 3600 }, "rotating"], [{ still: true }, "fuse"], [{ still: true, growth: 1.5 }, "blocked"],
  ]) {
    assert.equal(chooseKind(need(change)).kind, kind);
    const rows = compare(need(change));
    assert.deepEqual(rows.filter((row) => row.chosen).map((row) => [row.kind, row.misfit]), [[kind, null]]);
  }
  const asked = need({ items: 5_000, rate: 1e-4, growth: 2, deletes: true, window: 86_400, still: true, untrusted: true });
  assert.deepEqual(needFrom(parametersOf(asked)), asked);
  assert.equal(parametersOf(USUAL).toString(), "");
  const nonsense = new URLSearchParams("items=many&rate=7&growth=__proto__&window=-1&deletes=yes");
  assert.deepEqual(needFrom(nonsense), USUAL);
});

test("every value of a slider has a link, and links hold what lies between", () => {
  for (const growth of GROWTH_STEPS) {
    for (const window of WINDOW_STEPS) {
      const asked = { ...USUAL, growth, window };
      assert.deepEqual(needFrom(new URLSearchParams(parametersOf(asked).toString())), asked);
      const chosen = compare(asked).filter((row) => row.chosen);
      assert.ok(chosen.length === 1 && chosen[0].misfit === null && chosen[0].bytes > 0, JSON.stringify(asked));
    }
  }
  const between = needFrom(new URLSearchParams("growth=2.5&window=5400"));
  assert.deepEqual([between.growth, between.window], [2.5, 5400]);
  assert.deepEqual([GROWTH_STEPS[stepOf(GROWTH_STEPS, 2.5)], WINDOW_STEPS[stepOf(WINDOW_STEPS, 5400)]], [2, 3600]);
  assert.equal(GROWTH_STEPS[stepOf(GROWTH_STEPS, "unknown")], "unknown");
  // Links of before said growth in words.
  for (const [word, growth] of [["fixed", 1], ["some", 1.5], ["double", 2], ["tenfold", 10], ["unknown", "unknown"], ["1000", 1]]) {
    assert.equal(needFrom(new URLSearchParams(`growth=${word}`)).growth, growth, word);
  }
  assert.deepEqual([growthWords(1), growthWords(1.5), growthWords("unknown")], ["not at all", "to 1.5 times as many", "nobody knows how far"]);
  assert.deepEqual([0, 1, 90, 5400, 3600, 604_800].map(windowWords), ["everything: no window", "1 second", "90 seconds", "90 minutes", "1 hour", "7 days"]);
  // More keys in the end are a larger filter.
  const sizes = GROWTH_STEPS.slice(0, -1).map((growth) => compare({ ...USUAL, growth }).find((row) => row.chosen).bytes);
  assert.ok(sizes.every((size, at) => at === 0 || size > sizes[at - 1]), String(sizes));
});

test("the lines of a plan are exact", () => {
  const need = { ...USUAL, growth: 2, untrusted: true };
  assert.deepEqual(lines("blocked", need), {
    cli: "bloomgate secret new -o keys.secret\nbloomgate build -o keys.bloom --rate 0.01 --items 1000000 --headroom 2 --secret-file keys.secret keys.txt",
    resp: "BG.CREATE keys KIND blocked CAPACITY 2000000 RATE 0.01",
    rust: "let mut filter = bloomgate::Blocked::builder().items(1_000_000).rate(0.01).headroom(2.0).secret(&secret).build()?;",
  });
  assert.equal(lines("rotating", { ...USUAL, window: 3600 }).resp, "BG.CREATE keys KIND rotating CAPACITY 1000000 RATE 0.01 WINDOW 3600");
  assert.match(lines("rotating", { ...USUAL, window: 90 }).rust, /\.window\(std::time::Duration::from_secs\(90\)\)/);
  assert.equal(lines("fuse", USUAL).rust, "let filter = bloomgate::Fuse::builder().rate(0.01).build_from(keys)?;");
});

// A compiler has to say whether they are Rust: they are written down, and a test of the server compiles and runs what is there.
test("the lines of Rust are those that a test compiles", () => {
  const needs = ["", "items=2000&rate=0.0001&growth=1.5&untrusted=1", "items=50000&rate=1e-7&growth=unknown&window=90"];
  const all = KINDS.flatMap(({ kind, changes }) => needs.map((query) =>
    `    ("${kind}, ${query || "as usual"}", |keys, secret| {\n        ${lines(kind, needFrom(new URLSearchParams(query))).rust}\n        ${changes ? "takes" : "holds"}!(filter)\n    }),\n`));
  const text = `// The lines of Rust that the planner tells: pure.test.js writes them, lines_tests.rs of the server runs them.\n\npub(super) const TOLD: &[Told] = &[\n${all.join("")}];\n`;
  writeFileSync(new URL("planner_lines.new.rs", import.meta.url), text);
  assert.equal(readFileSync(new URL("planner_lines.rs", import.meta.url), "utf8"), text,
    "tests/pages/planner_lines.rs is not what the planner tells: put target/pages-test/planner_lines.new.rs in its place");
});

test("the hash is MurmurHash3", () => {
  // Published values of the 32-bit variant.
  for (const [text, seed, hash] of [["", 0, 0], ["", 1, 0x514e28b7], ["test", 0, 0xba6bd213], ["Hello, world!", 0, 0xc0363e43], ["The quick brown fox jumps over the lazy dog", 0, 0x2e4ff723]]) {
    assert.equal(murmur3(text, seed), hash, text);
  }
});

test("small filters never say a wrong no, and their rate is that of the theory", () => {
  for (const kind of ["classic", "blocked", "counting", "cuckoo"]) {
    const filter = sketch(kind, 256, 3);
    const roll = dice(3);
    const words = new Set();
    while (words.size < 45) words.add(randomWord(roll) + words.size);
    for (const word of words) assert.equal(filter.insert(word).ok, true);
    for (const word of words) assert.deepEqual([filter.query(word).maybe, filter.query(word).truth], [true, true], word);
    const [measured, expected] = [measure(filter, 40_000, 9), filter.expectedWith(words.size)];
    // One small filter has its own luck: its bits, not the theory's, decide. Half to double holds for all of them.
    assert.ok(measured > expected / 2.2 && measured < expected * 2.2, `${kind}: ${measured}, expected ${expected}`);
  }
});

test("the theory is the mean over many filters", () => {
  for (const kind of ["classic", "blocked", "cuckoo"]) {
    let sum = 0;
    for (let seed = 1; seed <= 60; seed += 1) {
      const filter = sketch(kind, 128, 3);
      const roll = dice(seed);
      while (filter.words.size < 20) filter.insert(randomWord(roll) + seed);
      sum += measure(filter, 1_000, seed + 1000);
    }
    near(sum / 60, sketch(kind, 128, 3).expectedWith(20), 0.2);
  }
});

test("words can be removed where they can, and nothing is lost", () => {
  for (const kind of ["counting", "cuckoo"]) {
    const filter = sketch(kind, 128, 3);
    const words = ["apple", "plum", "pear", "fig", "kiwi", "lime"];
    for (const word of words) filter.insert(word);
    assert.equal(filter.remove("plum").ok, true);
    for (const word of words.filter((word) => word !== "plum")) assert.equal(filter.query(word).maybe, true, word);
    assert.equal(filter.words.has("plum"), false);
  }
  assert.equal(sketch("classic", 128, 3).remove("apple").ok, false);
  const never = sketch("counting", 128, 3);
  assert.equal(never.remove("apple").ok, false);
});

test("a full cuckoo table refuses and keeps what it has", () => {
  const table = sketch("cuckoo", 64);
  const roll = dice(5);
  const inside = [];
  let refused = null;
  while (refused === null) {
    const word = randomWord(roll) + inside.length;
    if (table.insert(word).ok) inside.push(word);
    else refused = word;
    assert.ok(inside.length <= table.size);
  }
  assert.ok(inside.length > table.size * 0.7, `${inside.length} of ${table.size}`);
  for (const word of inside) assert.equal(table.query(word).maybe, true, word);
});

test("a false positive is found, and it is one", () => {
  const filter = sketch("classic", 64, 2);
  for (const word of ["apple", "plum", "pear", "fig", "kiwi", "lime", "date", "nut"]) filter.insert(word);
  const found = findFalsePositive(filter, 1);
  assert.equal(found.maybe, true);
  assert.equal(found.truth, false);
  assert.equal(findFalsePositive(sketch("classic", 64, 2), 1), null);
});

test("events are read however the bytes are cut", () => {
  const text = ": alive\r\n\r\nevent: stats\ndata: {\"a\":1}\n\nid: 7\rdata: one\rdata: two\r\rdata\n\nevent: gone\n\n";
  const want = [
    { event: "stats", data: "{\"a\":1}", id: null }, { event: "message", data: "one\ntwo", id: "7" }, { event: "message", data: "", id: "7" },
  ];
  for (let size = 1; size <= text.length; size += 1) {
    const got = [];
    const take = parser((event) => got.push(event));
    for (let at = 0; at < text.length; at += size) take(text.slice(at, at + size));
    assert.deepEqual(got, want, `pieces of ${size}`);
  }
  assert.ok(patience(1, 0.5) === 2 && patience(50, 1) <= 37.5);
});

test("commands are cut as redis-cli cuts them", () => {
  const texts = (line) => splitWords(line).map((word) => Buffer.from(word).toString());
  assert.deepEqual(texts("  BF.ADD seen  alice "), ["BF.ADD", "seen", "alice"]);
  assert.deepEqual(texts("a \"b c\\n\\x41\\\"\" 'd \\'e' \"\""), ["a", "b c\nA\"", "d 'e", ""]);
  // What the server writes for a name that is no plain text is that name, and one that is typed too.
  const bytes = (line) => splitWords(line).map((word) => Buffer.from(word).toString("hex"));
  assert.deepEqual(bytes("\"caf\\xc3\\xa9\" café \"é\\xff\" 🌸 '🌸'\"\\x00\""), ["636166c3a9", "636166c3a9", "c3a9ff", "f09f8cb8", "f09f8cb800"]);
  assert.deepEqual(splitWords("\"\\xff\\xfe\" a \"\"").map(base64), ["//4=", "YQ==", ""]);
  const long = splitWords("x".repeat(200_000))[0];
  assert.equal(Buffer.from(base64(long), "base64").length, 200_000);
  assert.throws(() => splitWords("a \"b"), /not closed/);
  assert.deepEqual(splitWords(""), []);
});

test("replies are read like redis-cli's", () => {
  assert.equal(replyText(1), "(integer) 1");
  assert.equal(replyText(0.01), "(double) 0.01");
  assert.equal(replyText(null), "(nil)");
  assert.equal(replyText("OK"), "OK");
  assert.equal(replyText([1, [2, "a"]]), "1) (integer) 1\n2) 1) (integer) 2\n   2) \"a\"");
  assert.equal(replyText([]), "(empty array)");
  assert.equal(replyText({ kind: "blocked", list: [1] }), "kind => \"blocked\"\nlist => \n  1) (integer) 1");
  assert.equal(replyText({ base64: "AAE=" }), "(bytes, base64) AAE=");
});

test("a second of work is one line, by names and numbers", () => {
  const command = (name, calls, failed = 0, rejected = 0) => ({ name, calls, failed, rejected });
  assert.equal(commandsLine([command("BF.EXISTS", 1200), command("BF.ADD", 3, 1, 2)]), "BF.EXISTS 1,200 · BF.ADD 3, 1 failed, 2 refused");
  assert.equal(commandsLine("ABCDEFGH".split("").map((name) => command(name, 1))), "A 1 · B 1 · C 1 · D 1 · E 1 · F 1 · 2 others");
  const line = filtersLine();
  const filter = (name, lookups, spared, adds) => ({ path: `/${name}`, name, lookups, definitely_not: spared, adds });
  // What was counted before somebody looked is not told as if it had happened now.
  assert.equal(line([filter("users", 500, 400, 7)]), null);
  assert.equal(line([filter("users", 510, 409, 7), filter("new", 9, 9, 9)]), "users: 10 lookups, 9 spared");
  assert.equal(line([filter("new", 9, 9, 10), filter("users", 511, 409, 8)]), "new: 1 add · users: 1 lookup, 0 spared, 1 add");
  assert.equal(line([]), null);
});

test("the funnel says what a row means", () => {
  const what = (meaning) => funnel({}, meaning).steps.map((step) => step.what).join(" ");
  assert.ok(/404/.test(what("present")) && !/403/.test(what("present")));
  assert.ok(/403/.test(what("deny")) && !/404/.test(what("deny")));
});

test("the funnel holds every lookup once", () => {
  const { total, steps } = funnel({ "absent-by-filter": 90, "negative-cached": 1, cache: 4, source: 3, "not-found": 1, bypass: 1, failed: 2, joined: 50 });
  assert.equal(total, 102);
  assert.deepEqual(steps.map((step) => step.before), [0, 90, 91, 95, 98, 99, 100]);
});
