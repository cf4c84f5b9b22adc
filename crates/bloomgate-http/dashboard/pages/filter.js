// One filter: its rate against its items with "you are here", how evenly its bits are set, what it is made of, how to make
// it again, and what it says of a key.

import { heatMap, histogram, lineChart } from "../chart.js";
import { curveOf, standsAt } from "../curve.js";
import { el, replace, setText } from "../dom.js";
import { forecast } from "../forecast.js";
import { ago, bytes, count, counted, digits, moment, rate as percent, rateFormat, roughRate, short, time } from "../format.js";
import { bar, card, code, empty, figure, head, loading, pill, setFigure, trouble } from "../parts.js";
import { shellWord } from "../terminal.js";
import { perItem, stateOf } from "./filters.js";

/** Milliseconds between two looks at all there is to know; of a filter whose bits take long to count, so many times that. */
const AGAIN = 5_000;
const COSTS = 20;

export function show({ api, live, parameters, rename }) {
  const path = parameters.get("path") ?? "";
  const node = el("div", { class: "stack" }, back(), loading("the filter"));
  if (!path.startsWith("/v1/filters/")) {
    replace(node, back(), trouble({ title: "Which filter?", message: "The address names none. Take one from the list of filters." }));
    return { node };
  }
  const at = path.slice(1);
  const ends = [];
  let filter = null;
  let over = false;
  const leave = () => {
    over = true;
    ends.forEach((end) => end());
  };

  async function begin() {
    try {
      filter = await api.get(at);
      if (over) return;
    } catch (error) {
      if (over) return;
      replace(node, back(), error.status === 404 ? gone() : trouble(error, begin));
      return;
    }
    rename(filter.name);
    const figures = keyFigures(filter);
    if (!filter.stages) {
      replace(node, back(), head(filter.name, filter.kind, pill("bad", "cannot answer")),
        el("div", { class: "notice bad" }, el("strong", {}, "This filter cannot answer"), el("p", {}, filter.unavailable_because ?? "The server does not say why; its log does."),
          el("p", {}, "Whoever asks it gets an error and never a “no”.")), figures.node);
      return;
    }
    const rates = ratesCard(filter);
    const heat = heatCard(api, at, filter.kind);
    const structure = el("div", { class: "contents" }, structureCard(filter));
    const parameters = el("div", { class: "contents" }, parametersCard(filter));
    const state = el("div", {}, pill(...stateOf(filter)));
    replace(node, back(),
      head(filter.name, `${filter.kind} · ${meaning(filter)}`, state),
      figures.node,
      el("div", { class: "halves" },
        el("div", { class: "stack" }, rates.node, structure, heat.node),
        el("div", { class: "stack" }, tryCard(api, at), recreateCard(filter, api.loginName()))),
      parameters);
    const draw = () => {
      figures.update(filter);
      rates.update(filter);
      replace(state, pill(...stateOf(filter)));
    };
    // The stream tells a few figures each second, of the filters that most is done with: on a busy server this one may never be
    // among them. So all there is to know is asked for by the clock.
    let [timer, moved] = [0, false];
    const look = async () => {
      const began = performance.now();
      let wait = AGAIN;
      try {
        const told = document.visibilityState === "visible" ? await api.get(at) : null;
        if (over) return;
        if (told?.stages) {
          if (moved || ["version", "items", "adds", "removed", "rekeying"].some((name) => told[name] !== filter[name])) heat.load();
          [filter, moved] = [told, false];
          draw();
          put(structure, structureCard(filter));
          put(parameters, parametersCard(filter));
          wait = Math.max(AGAIN, COSTS * (performance.now() - began));
        }
      } catch (error) {
        if (over) return;
        // Of a lost line the page says so itself.
        if (error.status === 404) {
          leave();
          replace(node, back(), gone());
          return;
        }
      }
      timer = setTimeout(look, wait);
    };
    timer = setTimeout(look, AGAIN);
    ends.push(rates.stop, () => clearTimeout(timer), live.on("stats", ({ filters }) => {
      const now = filters.find((each) => each.path === path);
      if (!now) return;
      moved = true;
      Object.assign(filter, now);
      draw();
    }));
    // Whoever has gone on meanwhile stays where they are.
    if (document.activeElement === document.body) node.querySelector("h1").focus({ preventScroll: true });
  }

  begin();
  return { node, stop: leave };
}

const gone = () => empty("This filter is not there any more", "It was deleted, renamed, or it expired.", el("a", { class: "button", href: "#/filters" }, "All filters"));

/** Puts a card in the place of one that says something else: what is selected in one that says the same stays so. */
const put = (place, now) => place.textContent === now.textContent || replace(place, now);

const back = () => el("p", {}, el("a", { href: "#/filters" }, "← All filters"));

/** Kinds out of which keys can be taken. */
const REMOVES = ["counting", "cuckoo", "growing-cuckoo", "quotient", "redis-cuckoo"];

function meaning({ guarantee, kind }) {
  return { superset: `a “no” is certain: never inserted${REMOVES.includes(kind) ? ", or removed" : ""}`, window: "a “no” is certain within its window", forgetful: "a “no” means: not seen lately" }[guarantee] ?? guarantee;
}

function keyFigures(first) {
  const parts = { items: figure("Items"), spared: figure("Lookups spared"), rate: figure("Rate"), size: figure("Size"), forecast: figure("Forecast") };
  const update = (filter) => {
    setFigure(parts.items, count(filter.items), filter.kind === "stable" ? `so far; the last ${count(filter.capacity)} are remembered for certain` : filter.capacity > 0 ? `${percent(Number(filter.used.toPrecision(3)))} of ${count(filter.capacity)}` : "no fixed capacity");
    setFigure(parts.spared, count(filter.definitely_not), filter.lookups > 0 ? `${percent(filter.definitely_not / filter.lookups)} of ${short(filter.lookups)} lookups` : "never asked yet");
    setFigure(parts.rate, roughRate(filter.rate.estimated ?? filter.rate.expected), `${percent(filter.rate.asked)} promised${filter.rate.measured === null ? "" : `, ${percent(Number(filter.rate.measured.toPrecision(3)))} measured`}`);
    setFigure(parts.size, bytes(filter.bytes), perItem(filter) ? `${perItem(filter)}${filter.used < 0.5 ? " when it is full" : ""}` : "nothing in it yet");
    setFigure(parts.forecast, forecast(filter), filter.growth_per_second > 0 ? `${short(filter.growth_per_second)} new items a second` : `made ${ago(filter.age_seconds)}`);
  };
  update(first);
  return { node: el("dl", { class: "figures" }, Object.values(parts).map((part) => part.node)), update };
}

/** The curve of the shape that was made, the point at which it stands, and what was measured. */
function ratesCard(first) {
  const chart = lineChart(270);
  const update = (filter) => {
    const size = curveOf(filter);
    const { items: at, rate: here, byBits } = standsAt(filter);
    // What forgets has settled after a few times what it remembers, and counts on: the curve goes no further.
    const forgets = filter.kind === "stable";
    const far = forgets ? Math.max(filter.capacity * 4, 10) : Math.max(filter.capacity * 1.6, at * 1.25, 10);
    const points = [];
    if (size) {
      for (let step = 1; step <= 80; step += 1) {
        const items = (far * step) / 80;
        if (!(items > (size.most ?? Infinity))) points.push([items, size.rateAt(items)]);
      }
    }
    const values = [...points.map(([, value]) => value), here, filter.rate.asked].filter((value) => value > 0);
    // Four powers of ten below the promise nobody cares how many more there are.
    const low = 10 ** Math.floor(Math.log10(Math.max(filter.rate.asked / 1e4, Math.min(filter.rate.asked / 100, here > 0 ? here : 1))));
    const high = Math.min(1, Math.max(...values, low * 100) * 1.7);
    const { measured, measured_low: from, measured_high: to } = filter.rate;
    const format = rateFormat(low);
    const settled = forgets && filter.items > far;
    const x = settled ? far : at;
    const place = settled ? `you are here: settled at ${short(at)} items` : byBits ? `you are here: ${short(at)} items by its bits` : "you are here";
    chart.draw({
      title: "Rate against items",
      words: `${forgets ? `It was given ${count(filter.items)} items, and its rate is` : `It holds ${count(filter.items)} items at a rate of`} ${percent(here)}; ${percent(filter.rate.asked)} was promised${forgets ? "" : ` for ${count(filter.capacity)}`}.`,
      x: { label: forgets ? "items so far" : "items", kind: "linear", range: [0, far], format: short },
      y: { label: "false positives", kind: "log", range: [low, high], format },
      series: [{ name: "expected", points, tone: 1, area: true }],
      marks: [
        ...(here > low ? [{ x, y: here, label: place, low: from > low ? from : undefined, high: to ?? undefined }] : [{ x, y: low, label: `you are here: below ${format(low)}` }]),
      ],
      limit: { y: filter.rate.asked, label: `promised: ${format(filter.rate.asked)}` },
    });
    setText(note, measured === null ? "Nothing was measured yet: the server asks it for random keys when it is idle."
      : `Measured: ${percent(Number(measured.toPrecision(3)))}; 95 of 100 such intervals hold the truth, this one is ${percent(from)} to ${percent(to)}.`);
  };
  const note = el("small", {});
  const node = card(null, chart.node, note);
  update(first);
  return { node, update, stop: chart.stop };
}

/** What it says of a key, and why. */
function tryCard(api, at) {
  const key = el("input", { type: "text", id: "try-key", autocomplete: "off", autocapitalize: "off", spellcheck: "false", placeholder: "alice", maxlength: "4096" });
  const answer = el("div", { class: "stack", role: "status" }, el("p", {}, el("small", {}, "Nothing is added. It counts as one lookup.")));
  const ask = async (event) => {
    event.preventDefault();
    if (key.value === "") return key.focus();
    try {
      replace(answer, explained(await api.get(`${at}/explain?key=${encodeURIComponent(key.value)}`)));
    } catch (error) {
      replace(answer, trouble(error));
    }
  };
  return card("Try a key", el("form", { class: "stack", on: { submit: ask } },
    el("div", { class: "field" }, el("label", { for: "try-key" }, "Key"), el("div", { class: "inline" }, key, el("button", { class: "primary" }, "Ask")))), answer);
}

function explained(found) {
  const no = found.verdict === "no";
  return [
    el("div", { class: `notice ${no ? "ok" : ""}` },
      el("div", { class: "row" }, el("strong", {}, no ? "Certainly not" : "Maybe"), found.count === null || found.count === undefined ? null : pill("none", `added ${counted(found.count, "time")} at most`)),
      found.note ? el("p", {}, `${found.note[0].toUpperCase()}${found.note.slice(1)}.`) : null),
    el("dl", { class: "facts" }, el("dt", {}, "Key"), el("dd", { class: "mono" }, found.key ?? `${found.key_base64} (base64)`),
      el("dt", {}, "Hash"), found.digest ? el("dd", { class: "mono" }, found.digest)
        : el("dd", {}, "kept back: it is under a secret, and would find the key in every filter of the contract"),
      el("dt", {}, "Contract"), el("dd", {}, found.contract)),
    found.stages.map((stage) => el("div", { class: "stack" },
      found.stages.length > 1 ? el("h3", {}, `Layer ${stage.stage + 1}, ${stage.kind}: ${stage.verdict === "no" ? "not here" : "maybe here"}`) : null,
      placeOf(stage) ? el("p", {}, placeOf(stage)) : null,
      stage.bits ? el("div", { class: "bits" }, stage.bits.map((bit, index) =>
        el("span", { class: `bit${stage.set?.[index] ? " set" : ""}`, title: stage.set?.[index] ? "set" : "not set" }, `${count(bit)} ${stage.set?.[index] ? "set" : "unset"}`)))
        : stage.counters ? countersOf(stage) : stage.buckets?.some((bucket) => bucket.slots.length > 0) ? bucketsOf(stage)
          : found.digest || found.note?.includes("nobody else") ? el("p", {}, el("small", {}, noBits(stage.kind))) : null)),
  ];
}

/** Where a key belongs, in words. */
function placeOf(stage) {
  const block = stage.block === null || stage.block === undefined ? "" : `Block ${count(stage.block)}`;
  if (!stage.fingerprint) return block;
  const print = `${stage.kind === "quotient" ? "Remainder" : "Fingerprint"} ${stage.fingerprint}`;
  return stage.kind === "quotient" ? `${block}, home slot ${count(stage.buckets[0].bucket)}. ${print}` : print;
}

/** The counters of a key: one that is 0 proves that it is not there. */
function countersOf(stage) {
  return el("div", { class: "bits" }, stage.counters.map(({ counter, holds }) =>
    el("span", { class: `bit${holds > 0 ? " set" : ""}` }, `${count(counter)} holds ${holds}`)));
}

/** The buckets where a fingerprint may lie, and what lies there. */
function bucketsOf(stage) {
  return el("div", { class: "buckets wide" }, stage.buckets.map(({ bucket, slots }) => el("div", { class: "bucket", role: "group", "aria-label": `Bucket ${bucket}` },
    el("span", { class: "name" }, count(bucket)),
    slots.map((held) => el("span", { class: `slot${held ? " set" : ""}${held === stage.fingerprint ? " hit" : ""}`, title: held === null ? "free" : held === stage.fingerprint ? "this fingerprint" : "another one" }, held ?? "free")))));
}

/** Why the bits of a key are not shown to somebody who may see them. */
function noBits(kind) {
  if (kind === "quotient") return "The run of a home slot holds the remainders of its keys, wherever others pushed it.";
  if (["fuse", "ribbon"].includes(kind)) return `A ${kind} filter mixes the fingerprints of many keys: none has bits of its own.`;
  return "A filter of another system: its bits are not told.";
}

/** Kinds that keep fingerprints in slots, and what these lie in. */
const TABLES = { cuckoo: "buckets", "growing-cuckoo": "buckets", quotient: "blocks" };

/** How full stretches of its bits or of its slots are: even for honest keys. */
function heatCard(api, at, kind) {
  const table = TABLES[kind];
  const share = table ? "of the slots in use" : "set";
  const place = el("div", { class: "stack" }, loading(`its ${table ?? "bits"}`));
  const load = async () => {
    try {
      const heat = await api.get(`${at}/heat?cells=256`);
      if (!heat.cells?.length) {
        replace(place, el("p", {}, "Filters of this kind have no bits whose evenness would tell something."));
        return;
      }
      const [low, high] = [Math.min(...heat.cells), Math.max(...heat.cells)];
      const mean = heat.cells.reduce((sum, value) => sum + value, 0) / heat.cells.length;
      const words = `From ${percent(low)} to ${percent(high)} ${share}, ${percent(mean)} on average${heat.expected === null ? "" : `; ${percent(heat.expected)} expected of random keys`}.`;
      // Differences that chance makes stay pale: the scale spans at least a fifth of what there is.
      const spread = Math.max(high - low, mean * 0.2, 0.01);
      const middle = (high + low) / 2;
      replace(place, el("p", {}, words, heat.sampled ? ` A sample of its ${table ?? "lines"}.` : "", table && !heat.sampled && heat.bits_per_cell <= (kind === "quotient" ? 56 : 4) ? ` Each square is one of its ${table}.` : ""),
        heatMap(heat.cells, { title: "How full each stretch is", words, low: Math.max(0, middle - spread / 2 - mean * 0.1), high: Math.min(1, middle + spread / 2 + mean * 0.1), format: percent }),
        el("div", { class: "scale-key" }, "emptier", el("span", { class: "ramp", "aria-hidden": "true" }), "fuller"),
        heat.histogram?.length > 1 ? [el("h3", {}, "How many stretches are how full"),
          histogram(heat.histogram.map((bucket) => ({ label: percent(bucket.fill), share: bucket.share, title: `${percent(bucket.fill)} ${share}: ${percent(bucket.share)} of the stretches` })),
            { title: "Stretches by how full they are", words })] : null);
    } catch (error) {
      replace(place, trouble(error, load));
    }
  };
  load();
  return { node: card(table ? `How full its ${table} are` : "How evenly its bits are set", place), load };
}

/** What becomes of a chain of one layer, by what it does when it is full. */
const ONE_LAYER = {
  grow: "One layer so far. When it is full, a larger one is put beside it, and all together keep the promise.",
  refuse: "One layer, and no more come: when it is full, it refuses more.",
  goon: "One layer, and no more come: when it is full, it goes on, and the rate rises.",
};

function structureCard(filter) {
  if (filter.generation_list.length > 0) {
    return card("Its generations", el("p", {}, `Together they cover ${time(filter.window_seconds)}; the oldest is cleared when its last key is that old.`),
      el("div", { class: "ring" }, filter.generation_list.map((generation, index) => el("div", { class: `generation${index === 0 ? " filling" : ""}` },
        el("strong", {}, index === 0 ? "filling now" : `${index} before`), el("span", {}, counted(generation.items, "item")), bar(generation.fill),
        el("small", {}, `${generation.fill === null ? "" : `${percent(generation.fill)} of its bits set, `}begun ${ago(generation.age_seconds)}`)))));
  }
  const most = Math.max(...filter.stages.map((stage) => stage.capacity ?? 0), 1);
  const chain = filter.stages.length > 1 || ["scalable", "growing-cuckoo"].includes(filter.kind);
  return card(chain ? "Its layers" : "Its shape",
    chain ? el("p", {}, filter.stages.length === 1 ? ONE_LAYER[filter.on_full] ?? ONE_LAYER.grow : `${counted(filter.stages.length, "layer")}: each is larger than the one before, and all together keep the promise.`) : null,
    el("div", { class: "stages" }, filter.stages.map((stage, index) => el("div", { class: "stage" },
      el("span", {}, chain ? `Layer ${index + 1}` : stage.kind),
      el("div", {}, sized(stage, most), el("small", {}, stage.kind === "stable" ? `${count(stage.items)} items so far` : stage.capacity ? `${count(stage.items)} of ${count(stage.capacity)} items` : `${count(stage.items)} items`)),
      el("small", {}, `${bytes(stage.bytes)}${stage.rate === null ? "" : `, rate ${roughRate(stage.rate)}`}`)))),
    el("dl", { class: "facts" }, el("dt", {}, "Estimated from within"), el("dd", {}, filter.estimate?.items == null ? "not possible for this kind"
      : `${count(filter.estimate.items)} items (${count(filter.estimate.low)} to ${count(filter.estimate.high)})`)));
}

/** A bar as long as the layer is large, filled as far as it is full. */
function sized(stage, most) {
  const outer = bar(stage.capacity ? stage.items / stage.capacity : 1);
  outer.style.width = `${Math.max(6, ((stage.capacity || most) / most) * 100)}%`;
  return outer;
}

function parametersCard(filter) {
  const facts = [
    ["Kind", filter.kind], ["Contract", filter.contract], ["Secret", filter.secret_id ? `${filter.contract_name}, epoch ${filter.secret_epoch}, ${time(filter.secret_age_seconds)} old` : "none: keys are hashed without one"],
    ["When full", filter.kind === "stable" ? "never: it forgets what is old" : { grow: "it grows", refuse: "it refuses more", goon: "it goes on, and the rate rises" }[filter.on_full] ?? filter.on_full],
    ["Window", filter.window_seconds ? `${time(filter.window_seconds)} in ${filter.generations} generations` : null],
    ["Made", `${moment(filter.created_ms)}${filter.maker ? `, by a command of the family ${filter.maker}` : ""}`], ["Expires", filter.expires_ms ? moment(filter.expires_ms) : "never"],
    ["Namespace", filter.namespace ?? "none"], ["Memory", bytes(filter.memory)], ["Version", count(filter.version)],
    ["Adds", `${count(filter.adds)}, of which ${count(filter.new)} were certainly new`], ["Refused", count(filter.refused)],
    ["Self-check", selfCheck(filter.watch)],
  ];
  return card("Parameters", el("dl", { class: "facts wide" }, facts.filter(([, value]) => value !== null).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))));
}

function selfCheck(watch) {
  if (!watch) return "not looked at yet";
  const off = [["fill", watch.fill_score], ["evenness", watch.evenness_score]].filter(([, score]) => score !== null && score !== undefined);
  return off.length === 0 ? watch.verdict : `${watch.verdict}: ${off.map(([name, score]) => `${name} ${digits(score, 2)}`).join(", ")} standard deviations from random keys`;
}

function recreateCard(filter, login) {
  const names = { resp: "Any Redis client", cli: "Command line", http: "HTTP", rust: "Rust" };
  const lines = filter.recreate ?? {};
  return card("How to make it again", el("div", { class: "lines" }, Object.entries(names).filter(([form]) => lines[form] || lines[`${form}_why`]).map(([form, name]) =>
    el("div", {}, el("h3", {}, name), lines[form]
      // The line names the usual address and nobody; the page knows the one that reached it, and as whom. curl asks for the password.
      ? code(lines[form].replace(/http:\/\/127\.0\.0\.1:8479/, location.origin).replace(/^curl /, login === null ? "curl " : `curl -u ${shellWord(login)} `), name)
      : el("small", {}, `No line: ${lines[`${form}_why`]}.`)))),
    lines.secret ? el("small", {}, lines.secret) : null);
}
