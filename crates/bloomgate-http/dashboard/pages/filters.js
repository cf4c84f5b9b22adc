// Filters: all of them as a table that the server sorts and cuts into pages, so that ten or a million are shown alike.

import { debounced, el, replace, setText } from "../dom.js";
import { forecast, isFull, soonest } from "../forecast.js";
import { bytes, count, counted, digits, rate as percent, roughRate, roughTime, short } from "../format.js";
import { bar, broken, code, empty, head, loading, pill, trouble } from "../parts.js";
import { breaksPromise } from "../promise.js";
import { KINDS } from "../sizing.js";
import { firstCommands } from "../terminal.js";

const PAGE = 50;
/** The longest page that the server gives: of so many the order by time to full is made here. */
const MOST = 1_000;
/** Milliseconds between two looks at what the stream does not tell. */
const AGAIN = 10_000;

// Also for phones, where rows are cards and there is no head to press.
const SORTS = [
  ["name asc", "By name"], ["name desc", "By name, backwards"], ["kind asc", "By kind"], ["kind desc", "By kind, backwards"], ["used desc", "Fullest first"], ["used asc", "Emptiest first"],
  ["items desc", "Most items first"], ["items asc", "Fewest items first"], ["fill desc", "Most bits set first"], ["fill asc", "Fewest bits set first"],
  ["asked desc", "Highest promise first"], ["asked asc", "Lowest promise first"], ["rate desc", "Highest rate first"], ["rate asc", "Lowest rate first"],
  ["measured desc", "Highest measured first"], ["measured asc", "Lowest measured first"], ["bytes desc", "Largest first"], ["bytes asc", "Smallest first"],
  ["bits desc", "Most bits an item first"], ["bits asc", "Fewest bits an item first"], ["age asc", "Youngest first"], ["age desc", "Oldest first"],
  ["full asc", "Full soonest first"], ["full desc", "Full latest first"], ["growth desc", "Growing fastest first"], ["growth asc", "Growing slowest first"], ["lookups desc", "Most asked first"], ["lookups asc", "Least asked first"],
];

/** The columns behind the name: what the server sorts them by, and what stands under them. */
const COLUMNS = [
  { name: "Kind", sort: "kind", class: "kind", parts: (filter) => filter.kind },
  { name: "Items of capacity", sort: "used", class: "capacity", parts: (filter, state) => capacityParts(filter, state) },
  { name: "Fill", sort: "fill", class: "number", parts: (filter) => (filter.fill === null ? el("span", { title: "The background watch has not looked at it yet" }, "–") : percent(Number(filter.fill.toPrecision(3)))) },
  { name: "Promised", sort: "asked", class: "number", parts: (filter) => percent(filter.rate.asked) },
  { name: "Expected", sort: "rate", class: "number", parts: (filter) => roughRate(filter.rate.expected) },
  { name: "Measured", sort: "measured", class: "number", parts: (filter) => measured(filter.rate) },
  { name: "Size", sort: "bytes", class: "number", parts: (filter) => bytes(filter.bytes) },
  { name: "Bits/item", sort: "bits", class: "number", title: "Of an item that it has room for; once it is half full, of one that is in it", parts: (filter) => bitsPerItem(filter) ?? "–" },
  { name: "Age", sort: "age", class: "number", parts: (filter) => roughTime(filter.age_seconds) },
  { name: "Forecast", sort: "full", class: "forecast", parts: (filter) => forecast(filter) },
];
const FIRST = { name: "Filter", sort: "name" };

/** Columns of words begin with A when they are pressed, the forecast with what is full soonest, those of numbers with the largest. */
const RISING = ["name", "kind", "full"];

/** What an item costs in bits: one that it has room for, and once it is half full one that is in it. */
function bitsPerItem(filter) {
  const items = filter.used >= 0.5 || !(filter.capacity > 0) ? filter.items : filter.capacity;
  return items > 0 ? digits((filter.bytes * 8) / items, 3) : null;
}

/** The same in words. */
export function perItem(filter) {
  const bits = bitsPerItem(filter);
  return bits === null ? "" : `${bits} bits/item`;
}

/** The state of a filter in one word and colour. */
export function stateOf(filter) {
  if (!filter.available) return ["bad", "cannot answer"];
  if (filter.verdict === "poisoned") return ["bad", "poisoned"];
  if (filter.used > 1) return ["bad", "over capacity"];
  if (isFull(filter) && filter.refused > 0) return ["bad", "full, refuses"];
  if (filter.verdict === "suspicious") return ["warn", "suspicious"];
  if (breaksPromise(filter.rate)) return ["warn", "rate too high"];
  if (filter.used > 0.9 && filter.full_in_seconds !== null) return ["warn", "nearly full"];
  return ["ok", "fine"];
}

export function show({ api, live, parameters }) {
  const wish = {
    match: parameters.get("match") ?? "", kind: parameters.get("kind") ?? "", sort: parameters.get("sort") ?? "name",
    order: parameters.get("order") === "desc" ? "desc" : "asc", offset: Math.max(0, Number(parameters.get("offset")) || 0),
  };
  const place = el("div", { class: "stack" }, loading("filters"));
  const told = el("p", { class: "hidden", role: "status" });
  const search = el("input", { type: "search", value: wish.match, placeholder: "part of a name", "aria-label": "Search by name", title: "Press / to come here", autocomplete: "off", spellcheck: "false" });
  const kind = el("select", { "aria-label": "Kind" }, el("option", { value: "" }, "All kinds"), [...KINDS.map((row) => row.kind), "stable"].map((name) => el("option", { value: name, selected: name === wish.kind }, name)));
  const sorted = el("select", { "aria-label": "Sort by" }, SORTS.map(([value, word]) => el("option", { value }, word)));
  // The first filter that somebody makes appears by itself.
  let isEmpty = false;
  let rows = new Map();
  let control = null;

  const ask = (change) => {
    Object.assign(wish, { offset: 0 }, change);
    const query = new URLSearchParams(Object.entries(wish).filter(([name, value]) => value !== "" && value !== 0 && !(name === "sort" && value === "name") && !(name === "order" && value === "asc")));
    history.replaceState(null, "", `#/filters${query.size > 0 ? `?${query}` : ""}`);
    load();
  };
  search.addEventListener("input", debounced(() => ask({ match: search.value.trim() }), 200));
  kind.addEventListener("change", () => ask({ kind: kind.value }));
  sorted.addEventListener("change", () => {
    const [sort, order] = sorted.value.split(" ");
    ask({ sort, order });
  });

  function question() {
    // Only filters that grow are full one day: those are taken, and put into order here.
    const query = new URLSearchParams(wish.sort === "full" ? { sort: "growth", order: "desc", limit: MOST } : { sort: wish.sort, order: wish.order, offset: wish.offset, limit: PAGE });
    // People write a part of a name; who writes a pattern gets the pattern.
    if (wish.match) query.set("match", /[*?[]/.test(wish.match) ? wish.match : `*${wish.match.replaceAll("\\", "\\\\")}*`);
    if (wish.kind) query.set("kind", wish.kind);
    return query;
  }

  /** The page of an answer that was put into order here. */
  function pageOf(answer) {
    if (wish.sort !== "full") return answer;
    const sorted = soonest(answer.filters, wish.order === "desc");
    const total = Math.min(answer.total, MOST);
    return { ...answer, filters: sorted.slice(wish.offset, wish.offset + PAGE), offset: wish.offset, limit: PAGE, total, of: answer.total > total ? answer.total : null };
  }

  async function load() {
    isEmpty = false;
    sorted.value = `${wish.sort} ${wish.order}`;
    control?.abort();
    control = new AbortController();
    try {
      await draw(pageOf(await api.get(`v1/filters?${question()}`, { signal: control.signal })));
    } catch (error) {
      if (error.name !== "AbortError") replace(place, trouble(error, load));
    }
  }

  async function draw(answer) {
    rows = new Map();
    if (answer.total === 0) {
      const sought = wish.match || wish.kind;
      isEmpty = !sought;
      const commands = sought ? null : firstCommands(await api.get("v1/overview", { signal: control.signal }), location, api.hasLogin());
      replace(place, sought
        ? empty("Nothing found", `No filter ${wish.kind ? `of the kind ${wish.kind} ` : ""}${wish.match ? `has “${wish.match}” in its name` : "is here"}.`,
          el("button", { type: "button", on: { click: () => {
            search.value = kind.value = "";
            ask({ match: "", kind: "" });
          } } }, "Show all"))
        : empty("No filter yet", "Make the first one: copy one of these lines into a terminal, and it appears here. The planner says which kind fits.",
          code(commands.first, "First command"), code(commands.sized, "A filter of a chosen size"), commands.note ? el("p", {}, commands.note) : null,
          el("a", { class: "button", href: "#/planner" }, "Open the planner")));
      setText(told, "No filters.");
      return;
    }
    if (answer.filters.length === 0) {
      // The page that was asked for is not there any more.
      ask({ offset: 0 });
      return;
    }
    const focused = document.activeElement?.dataset?.sort;
    const body = el("tbody", {}, answer.filters.map(row));
    replace(place, el("div", { class: "card" },
      el("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Filters" },
        el("table", { class: "cards dense" }, el("caption", { class: "hidden" }, "Filters, their kind, capacity, rates, size, age and forecast"), el("thead", {}, el("tr", {}, [FIRST, ...COLUMNS].map(heading))), body)),
      pager(answer)));
    if (focused) place.querySelector(`[data-sort="${focused}"]`)?.focus();
    const last = Math.min(answer.offset + answer.limit, answer.total);
    setText(told, `Filters ${answer.offset + 1} to ${last} of ${answer.total}, sorted by ${wish.sort}.`);
  }

  function heading(column) {
    const active = wish.sort === column.sort;
    const order = active ? (wish.order === "asc" ? "desc" : "asc") : RISING.includes(column.sort) ? "asc" : "desc";
    return el("th", { scope: "col", class: `sortable ${column.class ?? ""}`, title: column.title, "aria-sort": active ? (wish.order === "asc" ? "ascending" : "descending") : null },
      el("button", { type: "button", "data-sort": column.sort, on: { click: () => ask({ sort: column.sort, order }) } }, column.name));
  }

  function row(filter) {
    const about = el("div", { class: "row sub" });
    const cells = COLUMNS.map((cell) => el("td", { class: cell.class, "data-label": cell.name }));
    const update = (now) => {
      Object.assign(filter, now);
      const [state, word] = stateOf(filter);
      replace(about, pill(state, word));
      COLUMNS.forEach((cell, at) => replace(cells[at], cell.parts(filter, state)));
    };
    update({});
    rows.set(filter.path, update);
    return el("tr", {},
      el("th", { scope: "row" }, el("a", { href: `#/filter?path=${encodeURIComponent(filter.path)}` }, broken(filter.name)), about), cells);
  }

  // Rows move with the stream; where each stands stays, so that nothing jumps under the reader's hand. What the stream does
  // not tell (rates, fill, forecast) is asked for now and then.
  const end = live.on("stats", ({ overview, filters }) => {
    if (isEmpty && overview.filters > 0) load();
    for (const { path, items, used, refused } of filters) rows.get(path)?.({ items, used, refused });
  });
  const again = setInterval(async () => {
    if (document.visibilityState !== "visible" || rows.size === 0) return;
    try {
      const answer = await api.get(`v1/filters?${question()}`, { signal: control.signal });
      for (const filter of answer.filters) rows.get(filter.path)?.(filter);
    } catch {
      // The line at the left says that the connection is lost.
    }
  }, AGAIN);

  function pager(answer) {
    const last = Math.min(answer.offset + answer.limit, answer.total);
    const go = (offset) => () => ask({ offset });
    return el("div", { class: "pager" },
      el("span", {}, `${count(answer.offset + 1)} to ${count(last)} of ${counted(answer.total, "filter")}`, answer.of ? `, those that grow fastest of ${count(answer.of)}` : "", answer.truncated ? " (of the first 100,000)" : ""),
      el("div", { class: "row" },
        el("button", { type: "button", disabled: answer.offset === 0, on: { click: go(Math.max(0, answer.offset - PAGE)) } }, "Previous"),
        el("button", { type: "button", disabled: last >= answer.total, on: { click: go(answer.offset + PAGE) } }, "Next")));
  }

  load();
  return {
    node: el("div", { class: "stack" },
      head("Filters", "What each holds, what it promised, and what it does.", search, kind, sorted), told, place),
    stop: () => {
      end();
      clearInterval(again);
      control?.abort();
    },
  };
}

function capacityParts(filter, state) {
  // It counts on and forgets: how much of its capacity that is says nothing.
  if (filter.kind === "stable") return [el("span", { class: "sub" }, el("span", {}, `${short(filter.items)} so far`), el("span", {}, `keeps ${short(filter.capacity)}`))];
  if (!(filter.capacity > 0)) return [el("span", {}, `${short(filter.items)} items`)];
  return [bar(filter.used, state === "ok" ? "" : state), el("span", { class: "sub" }, el("span", {}, `${short(filter.items)} of ${short(filter.capacity)}`), el("span", {}, percent(Number(filter.used.toPrecision(3)))))];
}

function measured(rate) {
  if (rate.measured === null) return el("span", { title: "The background watch has not asked it yet" }, "not yet");
  const interval = rate.measured_low === null ? "" : `95 of 100 times between ${percent(rate.measured_low)} and ${percent(rate.measured_high)}`;
  return el("span", { title: interval }, percent(Number(rate.measured.toPrecision(3))));
}
