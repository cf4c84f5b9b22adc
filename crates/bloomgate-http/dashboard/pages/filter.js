// One filter: its rate against its items with "you are here", how evenly its bits are set, what it is made of, how to make
// it again, and what it says of a key.

import { heatMap, histogram, lineChart } from "../chart.js";
import { el, replace, setText } from "../dom.js";
import { ago, bytes, count, counted, digits, moment, rate as percent, short, time } from "../format.js";
import { bar, card, code, empty, figure, head, loading, pill, trouble } from "../parts.js";
import { chainCurve, sizeOf } from "../sizing.js";
import { forecast, stateOf } from "./filters.js";

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

  async function begin() {
    try {
      filter = await api.get(at);
      if (over) return;
    } catch (error) {
      if (over) return;
      const gone = error.status === 404;
      replace(node, back(), gone
        ? empty("This filter is not there any more", "It was deleted, renamed, or it expired.", el("a", { class: "button", href: "#/filters" }, "All filters"))
        : trouble(error, begin));
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
    ends.push(rates.stop, live.on("stats", ({ filters }) => {
      const now = filters.find((each) => each.path === path);
      if (!now) return;
      Object.assign(filter, now);
      figures.update(filter);
      rates.update(filter);
    }));
    const [state, word] = stateOf(filter);
    replace(node, back(),
      head(filter.name, `${filter.kind} · ${meaning(filter.guarantee)}`, pill(state, word)),
      figures.node,
      el("div", { class: "halves" }, rates.node, tryCard(api, at)),
      el("div", { class: "halves" }, heatCard(api, at), structureCard(filter)),
      el("div", { class: "halves" }, parametersCard(filter), recreateCard(filter)));
    // Whoever has gone on meanwhile stays where they are.
    if (document.activeElement === document.body) node.querySelector("h1").focus({ preventScroll: true });
  }

  begin();
  return {
    node,
    stop: () => {
      over = true;
      ends.forEach((end) => end());
    },
  };
}

const back = () => el("p", {}, el("a", { href: "#/filters" }, "← All filters"));

function meaning(guarantee) {
  return { superset: "a “no” is certain: never inserted, or removed", window: "a “no” is certain within its window", forgetful: "a “no” means: not seen lately" }[guarantee] ?? guarantee;
}

function keyFigures(first) {
  const parts = { items: figure("Items"), spared: figure("Lookups spared"), rate: figure("Rate"), size: figure("Size"), forecast: figure("Forecast") };
  const set = (part, value, note) => {
    setText(part.value, value);
    setText(part.note, note);
  };
  const update = (filter) => {
    set(parts.items, count(filter.items), filter.capacity > 0 ? `${percent(Number(filter.used.toPrecision(3)))} of ${count(filter.capacity)}` : "no fixed capacity");
    set(parts.spared, count(filter.definitely_not), filter.lookups > 0 ? `${percent(filter.definitely_not / filter.lookups)} of ${short(filter.lookups)} lookups` : "never asked yet");
    set(parts.rate, percent(filter.rate.estimated ?? filter.rate.expected), `${percent(filter.rate.asked)} promised${filter.rate.measured === null ? "" : `, ${percent(Number(filter.rate.measured.toPrecision(3)))} measured`}`);
    set(parts.size, bytes(filter.bytes), filter.items > 0 && filter.bits_per_item !== null ? `${digits(filter.bits_per_item, 3)} bits an item` : "nothing in it yet");
    set(parts.forecast, forecast(filter), filter.growth_per_second > 0 ? `${short(filter.growth_per_second)} new items a second` : `made ${ago(filter.age_seconds)}`);
  };
  update(first);
  return { node: el("dl", { class: "figures" }, Object.values(parts).map((part) => part.node)), update };
}

/** The curve of the shape that was made, the point at which it stands, and what was measured. */
function ratesCard(first) {
  const chart = lineChart(270);
  const update = (filter) => {
    const size = shapeOf(filter);
    const far = Math.max(filter.capacity * 1.6, filter.items * 1.25, 10);
    const points = [];
    if (size) {
      for (let step = 1; step <= 80; step += 1) {
        const items = (far * step) / 80;
        if (!(items > (size.most ?? Infinity))) points.push([items, size.rateAt(items)]);
      }
    }
    const here = filter.rate.estimated ?? filter.rate.expected ?? 0;
    const values = [...points.map(([, value]) => value), here, filter.rate.asked].filter((value) => value > 0);
    const low = 10 ** Math.floor(Math.log10(Math.max(1e-12, Math.min(filter.rate.asked / 100, here > 0 ? here : 1))));
    const high = Math.min(1, Math.max(...values, low * 100) * 1.7);
    const { measured, measured_low: from, measured_high: to } = filter.rate;
    chart.draw({
      title: "Rate against items",
      words: `It holds ${count(filter.items)} items at a rate of ${percent(here)}; ${percent(filter.rate.asked)} was promised for ${count(filter.capacity)}.`,
      x: { label: "items", kind: "linear", range: [0, far], format: short },
      y: { label: "false positives", kind: "log", range: [low, high], format: percent },
      series: [{ name: "expected", points, tone: 1, area: true }],
      marks: [
        ...(here > low ? [{ x: filter.items, y: here, label: "you are here", low: from > low ? from : undefined, high: to ?? undefined }] : [{ x: filter.items, y: low, label: `you are here: below ${percent(low)}` }]),
      ],
      limit: { y: filter.rate.asked, label: `promised: ${percent(filter.rate.asked)}` },
    });
    setText(note, measured === null ? "Nothing was measured yet: the server asks it for random keys when it is idle."
      : `Measured: ${percent(Number(measured.toPrecision(3)))}; 95 of 100 such intervals hold the truth, this one is ${percent(from)} to ${percent(to)}.`);
  };
  const note = el("small", {});
  const node = card(null, chart.node, note);
  update(first);
  return { node, update, stop: chart.stop };
}

/** Its rate as a function of its items, where the kind has one that is known here. */
function shapeOf(filter) {
  if (!(filter.capacity > 0) || !(filter.rate.asked > 0)) return null;
  const chain = ["scalable", "growing-cuckoo"].includes(filter.kind) && filter.stages.length > 0;
  return chain ? chainCurve(filter.kind, filter.stages, filter.rate.asked) : sizeOf(filter.kind, filter.capacity, filter.rate.asked);
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
      found.note ? el("p", {}, found.note) : null),
    el("dl", { class: "facts" }, el("dt", {}, "Key"), el("dd", { class: "mono" }, found.key ?? `${found.key_base64} (base64)`),
      el("dt", {}, "Hash"), el("dd", { class: "mono" }, found.digest ?? "not shown: it is under a secret"),
      el("dt", {}, "Contract"), el("dd", {}, found.contract)),
    found.stages.map((stage) => el("div", { class: "stack" },
      found.stages.length > 1 ? el("h3", {}, `Layer ${stage.stage + 1}, ${stage.kind}: ${stage.verdict === "no" ? "not here" : "maybe here"}`) : null,
      stage.block === null || stage.block === undefined ? null : el("p", {}, `Block ${count(stage.block)}`),
      stage.bits ? el("div", { class: "bits" }, stage.bits.map((bit, index) =>
        el("span", { class: `bit${stage.set?.[index] ? " set" : ""}`, title: stage.set?.[index] ? "set" : "not set" }, `${bit} ${stage.set?.[index] ? "set" : "unset"}`))) : null)),
  ];
}

/** How full stretches of its bits are: even for honest keys. */
function heatCard(api, at) {
  const place = el("div", { class: "stack" }, loading("its bits"));
  const load = async () => {
    try {
      const heat = await api.get(`${at}/heat?cells=256`);
      if (!heat.cells?.length) {
        replace(place, el("p", {}, "This kind has no bits to look at."));
        return;
      }
      const [low, high] = [Math.min(...heat.cells), Math.max(...heat.cells)];
      const mean = heat.cells.reduce((sum, value) => sum + value, 0) / heat.cells.length;
      const words = `From ${percent(low)} to ${percent(high)} set, ${percent(mean)} on average${heat.expected === null ? "" : `; ${percent(heat.expected)} expected of random keys`}.`;
      // Differences that chance makes stay pale: the scale spans at least a fifth of what there is.
      const spread = Math.max(high - low, mean * 0.2, 0.01);
      const middle = (high + low) / 2;
      replace(place, el("p", {}, words, heat.sampled ? " A sample of its lines." : ""),
        heatMap(heat.cells, { title: "How full each stretch is", words, low: Math.max(0, middle - spread / 2 - mean * 0.1), high: Math.min(1, middle + spread / 2 + mean * 0.1), format: percent }),
        el("div", { class: "scale-key" }, "emptier", el("span", { class: "ramp", "aria-hidden": "true" }), "fuller"),
        heat.histogram?.length > 1 ? [el("h3", {}, "How many stretches are how full"),
          histogram(heat.histogram.map((bucket) => ({ label: percent(bucket.fill), share: bucket.share, title: `${percent(bucket.fill)} set: ${percent(bucket.share)} of the stretches` })),
            { title: "Stretches by how full they are", words })] : null);
    } catch (error) {
      replace(place, trouble(error, load));
    }
  };
  load();
  return card("How evenly its bits are set", place);
}

function structureCard(filter) {
  if (filter.generation_list.length > 0) {
    return card("Its generations", el("p", {}, `Together they cover ${time(filter.window_seconds)}; the oldest is cleared when its last key is that old.`),
      el("div", { class: "ring" }, filter.generation_list.map((generation, index) => el("div", { class: `generation${index === 0 ? " filling" : ""}` },
        el("strong", {}, index === 0 ? "filling now" : `${index} before`), el("span", {}, counted(generation.items, "item")), bar(generation.fill),
        el("small", {}, `${generation.fill === null ? "" : `${percent(generation.fill)} full, `}begun ${ago(generation.age_seconds)}`)))));
  }
  const most = Math.max(...filter.stages.map((stage) => stage.capacity ?? 0), 1);
  const chain = filter.stages.length > 1 || ["scalable", "growing-cuckoo"].includes(filter.kind);
  return card(chain ? "Its layers" : "Its shape",
    chain ? el("p", {}, `${counted(filter.stages.length, "layer")}: each is larger than the one before, and all together keep the promise.`) : null,
    el("div", { class: "stages" }, filter.stages.map((stage, index) => el("div", { class: "stage" },
      el("span", {}, chain ? `Layer ${index + 1}` : stage.kind),
      el("div", {}, sized(stage, most), el("small", {}, stage.capacity ? `${count(stage.items)} of ${count(stage.capacity)} items` : `${count(stage.items)} items`)),
      el("small", {}, `${bytes(stage.bytes)}${stage.rate === null ? "" : `, rate ${percent(stage.rate)}`}`)))),
    el("dl", { class: "facts" }, el("dt", {}, "Counted from its bits"), el("dd", {}, filter.estimate?.items == null ? "not possible for this kind"
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
    ["When full", { grow: "it grows", refuse: "it refuses more", goon: "it goes on, and the rate rises" }[filter.on_full] ?? filter.on_full],
    ["Window", filter.window_seconds ? `${time(filter.window_seconds)} in ${filter.generations} generations` : null],
    ["Made", `${moment(filter.created_ms)}${filter.maker ? `, by ${filter.maker}` : ""}`], ["Expires", filter.expires_ms ? moment(filter.expires_ms) : "never"],
    ["Namespace", filter.namespace ?? "none"], ["Memory", bytes(filter.memory)], ["Version", count(filter.version)],
    ["Adds", `${count(filter.adds)}, of which ${count(filter.new)} were certainly new`], ["Refused", count(filter.refused)],
    ["Watch", filter.watch ? `${filter.watch.verdict}; fill ${digits(filter.watch.fill_score ?? 0, 2)} and evenness ${digits(filter.watch.evenness_score ?? 0, 2)} standard deviations off` : "not looked at yet"],
  ];
  return card("Parameters", el("dl", { class: "facts" }, facts.filter(([, value]) => value !== null).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
}

function recreateCard(filter) {
  const names = { resp: "Any Redis client", cli: "Command line", http: "HTTP", rust: "Rust" };
  return card("How to make it again", el("div", { class: "lines" }, Object.entries(names).filter(([form]) => filter.recreate?.[form]).map(([form, name]) =>
    el("div", {}, el("h3", {}, name), code(filter.recreate[form], name)))));
}
