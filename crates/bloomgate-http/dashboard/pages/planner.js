// Planner: what is needed, on the left; which kind, how large, at which rate, and the lines that make it, on the right. The
// address holds the whole question, so that it can be sent to somebody.

import { lineChart } from "../chart.js";
import { el, freshId, replace, setText } from "../dom.js";
import { bytes, count, digits, oneIn, parseCount, parseRate, rate as percent, short, time } from "../format.js";
import { bar, card, code, copyButton, head, pill, toggle } from "../parts.js";
import { chooseKind, compare, GROWTH_STEPS, growthWords, lines, needFrom, parametersOf, remarks, stepOf, WINDOW_STEPS, windowWords } from "../plan.js";

/** A slider over powers of ten, with a field for the exact number. */
function logSlider({ label, low, high, value, parse, write, hint, change }) {
  const [sliderId, textId] = [freshId("slider"), freshId("text")];
  const steps = 20;
  const slider = el("input", {
    type: "range", id: sliderId, min: Math.round(Math.log10(low) * steps), max: Math.round(Math.log10(high) * steps), step: 1, "aria-label": label,
  });
  const text = el("input", { type: "text", id: textId, inputmode: "decimal", autocomplete: "off", spellcheck: "false" });
  const error = el("span", { class: "error", hidden: true });
  const put = (number, from) => {
    if (from !== slider) slider.value = Math.round(Math.log10(number) * steps);
    if (from !== text) text.value = write(number);
    slider.setAttribute("aria-valuetext", write(number));
    text.removeAttribute("aria-invalid");
    error.hidden = true;
  };
  slider.addEventListener("input", () => {
    // Two digits at most: 2,000,000 and not 1,995,262.
    const number = Number((10 ** (Number(slider.value) / steps)).toPrecision(2));
    put(number, slider);
    change(number);
  });
  text.addEventListener("input", () => {
    const number = parse(text.value);
    const right = number !== null && number >= low && number <= high;
    text.setAttribute("aria-invalid", String(!right));
    error.hidden = right;
    setText(error, right ? "" : `Between ${write(low)} and ${write(high)}, please.`);
    if (!right) return;
    put(number, text);
    change(number);
  });
  put(value, null);
  const node = el("div", { class: "field" }, el("label", { for: textId }, label), el("div", { class: "inline" }, text), slider, el("span", { class: "hint" }, hint), error);
  return { node, put };
}

/** A slider that stops at a few values, with its value in words beside its name. */
function stepSlider({ label, steps, value, write, hint, change }) {
  const id = freshId("slider");
  const slider = el("input", { type: "range", id, min: 0, max: steps.length - 1, step: 1, "aria-label": label });
  const said = el("output", { for: id });
  const put = (now) => {
    slider.setAttribute("aria-valuetext", write(now));
    setText(said, write(now));
  };
  slider.value = stepOf(steps, value);
  slider.addEventListener("input", () => {
    const now = steps[Number(slider.value)];
    put(now);
    change(now);
  });
  put(value);
  return el("div", { class: "field" }, el("label", { for: id }, label, said), slider, el("span", { class: "hint" }, hint));
}

export function show({ parameters }) {
  let need = needFrom(parameters);
  let picked = null;
  const result = el("div", { class: "stack" });
  const chart = lineChart(260);
  const announced = el("p", { class: "hidden", role: "status" });

  const ask = (change) => {
    need = { ...need, ...change };
    picked = null;
    const query = parametersOf(need).toString();
    history.replaceState(null, "", `#/planner${query ? `?${query}` : ""}`);
    draw();
  };

  const items = logSlider({
    label: "Keys", low: 1_000, high: 1e11, value: need.items, parse: parseCount, write: (number) => count(number),
    hint: "How many different keys there are today. 10M and 2.5k are understood.", change: (number) => ask({ items: number }),
  });
  const rate = logSlider({
    label: "False positives", low: 1e-9, high: 0.3, value: need.rate, parse: parseRate, write: (number) => (number < 1e-6 ? number.toExponential(1) : percent(number)),
    hint: "The share of absent keys that may get a “maybe”.", change: (number) => ask({ rate: number }),
  });
  const form = el("form", { class: "card", "aria-label": "What is needed", on: { submit: (event) => event.preventDefault() } },
    el("h2", {}, "What is needed"), items.node, rate.node,
    stepSlider({
      label: "Growth", steps: GROWTH_STEPS, value: need.growth, write: growthWords,
      hint: "How many times as many keys there will be in the end.", change: (growth) => ask({ growth }),
    }),
    stepSlider({
      label: "Window", steps: WINDOW_STEPS, value: need.window, write: windowWords,
      hint: "Whether only keys of the last hour, day or week count.", change: (window) => ask({ window }),
    }),
    toggle("Keys are removed", "One by one, when somebody says so.", need.deletes, (deletes) => ask({ deletes })).node,
    toggle("The set never changes", "All keys are known before it is built.", need.still, (still) => ask({ still })).node,
    toggle("Keys come from strangers", "They might choose them to do harm.", need.untrusted, (untrusted) => ask({ untrusted })).node);

  const draw = () => {
    const rows = compare(need);
    const advised = chooseKind(need);
    const row = rows.find((row) => row.kind === (picked ?? advised.kind));
    const most = Math.max(...rows.filter((row) => row.bytes).map((row) => row.bytes));
    replace(result, verdict(row, advised, need), linesCard(row, need), kindsTable(rows, row, most), card(null, chart.node));
    drawCurve(row);
    setText(announced, row.bytes ? `${row.kind}: ${bytes(row.bytes)}, ${percent(row.rate)} false positives.` : `${row.kind}: cannot be built so.`);
  };

  const pick = (kind) => {
    picked = kind;
    draw();
    result.querySelector(`button[data-kind="${kind}"]`)?.focus();
  };

  const kindsTable = (rows, row, most) => {
    const line = (each) => el("tr", { class: each.kind === row.kind ? "chosen" : each.misfit ? "out" : null },
      el("th", { scope: "row" }, el("button", { type: "button", class: "link", "data-kind": each.kind, "aria-pressed": String(each.kind === row.kind), on: { click: () => pick(each.kind) } }, each.kind),
        each.chosen ? pill("ok", "advised") : null,
        el("span", { class: "sub" }, each.misfit ? `does not fit: ${each.misfit}` : each.what)),
      el("td", { class: "capacity", "data-label": "Size" }, each.bytes ? [el("span", {}, bytes(each.bytes)), bar(each.bytes / most, each.misfit ? "muted" : "")] : "–"),
      el("td", { class: "number", "data-label": "Bits a key" }, each.bitsPerItem ? digits(each.bitsPerItem, 3) : "–"),
      el("td", { class: "number", "data-label": "Rate" }, percent(each.rate)),
      el("td", { class: "number", "data-label": "At 2× keys" }, each.rateAtTwice === null ? (each.changes ? "refuses" : "–") : percent(each.rateAtTwice)));
    return card("Every kind beside every other",
      el("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Kinds compared" },
        el("table", { class: "cards" }, el("caption", { class: "hidden" }, "Kinds compared for this need. Press the name of a kind to see its lines."),
          el("thead", {}, el("tr", {}, ["Kind", "Size", "Bits a key", "Rate", "At 2× keys"].map((name, at) =>
            el("th", { scope: "col", class: at >= 2 ? "number" : null }, name)))),
          el("tbody", {}, rows.map(line)))));
  };

  const drawCurve = (row) => {
    if (!row.rateAt) {
      chart.draw({ title: `No ${row.kind} filter has so low a rate`, words: "", x: axisItems(row.items), y: axisRate([1e-9, 1]), series: [{ points: [] }] });
      return;
    }
    const far = row.items * 3;
    const points = [];
    for (let step = 1; step <= 90; step += 1) {
      const at = (far * step) / 90;
      if (at <= row.most) points.push([at, row.rateAt(at)]);
    }
    const shown = points.map(([, value]) => value).filter((value) => value > 0);
    const low = Math.max(1e-12, Math.min(...shown, need.rate / 10));
    const high = Math.min(1, Math.max(...shown, need.rate * 2) * 1.6);
    chart.draw({
      title: `False positives of a ${row.kind} filter`,
      words: `At ${count(row.items)} keys, which it is made for, ${percent(row.rate)}.`,
      x: axisItems(far), y: axisRate([10 ** Math.floor(Math.log10(Math.max(low, need.rate / 1000))), high]),
      series: [{ points, tone: 1, area: true }],
      marks: [{ x: row.items, y: row.rate, label: `full: ${percent(row.rate)}` }],
      limit: { y: need.rate, label: `asked for: ${percent(need.rate)}` },
    });
  };

  const node = el("div", { class: "stack" },
    head("Planner", "Which filter, and how large? Move something: the link holds the whole question.",
      copyButton(() => location.href, "", "Copy link", "")),
    announced, el("div", { class: "split planner" }, form, result));
  draw();
  return {
    node,
    stop: () => chart.stop(),
    // Somebody changed the address by hand: draw the page anew.
    follow: () => false,
  };
}

function verdict(row, advised, need) {
  const facts = row.bytes
    ? [`${bytes(row.bytes)} for ${count(row.items)} keys`, `${digits(row.bitsPerItem, 3)} bits a key`, `${oneIn(row.rate)} absent keys passes`]
    : ["cannot be built for this rate"];
  return el("div", { class: `notice ${row.misfit ? "warn" : "ok"}` },
    el("h2", {}, row.chosen ? `Take a ${row.kind} filter` : `A ${row.kind} filter instead`),
    el("p", {}, facts.join(" · ")),
    el("p", {}, row.chosen ? advised.why : row.misfit ? `It ${row.misfit}, which this need does not allow. Advised: ${advised.kind}.` : `It does what is needed; advised is ${advised.kind}. ${advised.why}`),
    remarks(need, row).map((remark) => el("p", {}, el("small", {}, remark))));
}

function linesCard(row, need) {
  const { cli, resp, rust } = lines(row.kind, need);
  return card("The lines that make it", el("div", { class: "lines" },
    el("div", {}, el("h3", {}, "Command line"), code(cli, "Command line")),
    el("div", {}, el("h3", {}, "Any Redis client"), code(resp, "RESP command")),
    el("div", {}, el("h3", {}, "Rust"), code(rust, "Rust line"))),
  row.window ? el("small", {}, `The window is ${time(need.window || 3_600)}.`) : null);
}

const axisItems = (far) => ({ label: "keys", kind: "linear", range: [0, far], format: (value) => short(value) });
const axisRate = (range) => ({ label: "false positives", kind: "log", range, format: (value) => percent(value) });
