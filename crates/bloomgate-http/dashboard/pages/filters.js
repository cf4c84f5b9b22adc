// Filters: all of them as a table that the server sorts and cuts into pages, so that ten or a million are shown alike.

import { debounced, el, replace, setText } from "../dom.js";
import { fullIn, secondsUntilFull } from "../forecast.js";
import { bytes, count, counted, digits, rate as percent, short, time } from "../format.js";
import { bar, code, empty, head, loading, pill, trouble } from "../parts.js";
import { KINDS } from "../sizing.js";

const PAGE = 50;
const COLUMNS = [
  { name: "Filter", sort: "name" }, { name: "Items of capacity", sort: "used" }, { name: "Fill" },
  { name: "Promised", class: "number" }, { name: "Expected", sort: "rate", class: "number" }, { name: "Measured", class: "number" },
  { name: "Size", sort: "bytes", class: "number" }, { name: "Forecast", sort: "growth" },
];

// Also for phones, where rows are cards and there is no head to press.
const SORTS = [
  ["name asc", "By name"], ["name desc", "By name, backwards"], ["used desc", "Fullest first"], ["used asc", "Emptiest first"], ["rate desc", "Highest rate first"], ["rate asc", "Lowest rate first"],
  ["bytes desc", "Largest first"], ["bytes asc", "Smallest first"], ["items desc", "Most items first"], ["lookups desc", "Most asked first"], ["growth desc", "Growing fastest first"],
  ["growth asc", "Growing slowest first"], ["age asc", "Youngest first"], ["age desc", "Oldest first"],
];

/** The state of a filter in one word and colour. */
export function stateOf(filter) {
  if (!filter.available) return ["bad", "cannot answer"];
  if (filter.verdict === "poisoned") return ["bad", "poisoned"];
  if (filter.used > 1) return ["bad", "over capacity"];
  if (filter.verdict === "suspicious") return ["warn", "suspicious"];
  if (filter.rate.measured_low > filter.rate.asked) return ["warn", "rate too high"];
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

  async function load() {
    sorted.value = `${wish.sort} ${wish.order}`;
    control?.abort();
    control = new AbortController();
    const query = new URLSearchParams({ sort: wish.sort, order: wish.order, offset: wish.offset, limit: PAGE });
    // People write a part of a name; who writes a pattern gets the pattern.
    if (wish.match) query.set("match", /[*?[]/.test(wish.match) ? wish.match : `*${wish.match.replaceAll("\\", "\\\\")}*`);
    if (wish.kind) query.set("kind", wish.kind);
    try {
      const answer = await api.get(`v1/filters?${query}`, { signal: control.signal });
      draw(answer);
    } catch (error) {
      if (error.name !== "AbortError") replace(place, trouble(error, load));
    }
  }

  function draw(answer) {
    rows = new Map();
    if (answer.total === 0) {
      const sought = wish.match || wish.kind;
      replace(place, sought
        ? empty("Nothing found", `No filter ${wish.kind ? `of the kind ${wish.kind} ` : ""}${wish.match ? `has “${wish.match}” in its name` : "is here"}.`,
          el("button", { type: "button", on: { click: () => {
            search.value = kind.value = "";
            ask({ match: "", kind: "" });
          } } }, "Show all"))
        : empty("No filter yet", "Make the first one: copy one of these lines into a terminal. The planner says which fits.",
          code("redis-cli -p 6479 BF.ADD visitors alice", "First command"),
          code("redis-cli -p 6479 BG.CREATE seen KIND blocked CAPACITY 1000000 RATE 0.01", "A filter of a chosen size"),
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
        el("table", { class: "cards" }, el("caption", { class: "hidden" }, "Filters, their capacity, rates and forecast"), el("thead", {}, el("tr", {}, COLUMNS.map(heading))), body)),
      pager(answer)));
    if (focused) place.querySelector(`[data-sort="${focused}"]`)?.focus();
    const last = Math.min(answer.offset + answer.limit, answer.total);
    setText(told, `Filters ${answer.offset + 1} to ${last} of ${answer.total}, sorted by ${wish.sort}.`);
  }

  function heading(column) {
    if (!column.sort) return el("th", { scope: "col", class: column.class }, column.name);
    const active = wish.sort === column.sort;
    const order = active ? (wish.order === "asc" ? "desc" : "asc") : column.sort === "name" ? "asc" : "desc";
    return el("th", { scope: "col", class: `sortable ${column.class ?? ""}`, "aria-sort": active ? (wish.order === "asc" ? "ascending" : "descending") : null },
      el("button", { type: "button", "data-sort": column.sort, on: { click: () => ask({ sort: column.sort, order }) } }, column.name));
  }

  function row(filter) {
    const [state, word] = stateOf(filter);
    const capacity = el("td", { class: "capacity", "data-label": "Items of capacity" }, capacityParts(filter, state));
    rows.set(filter.path, { filter, capacity });
    const cell = (name, value, number = true) => el("td", { class: number ? "number" : null, "data-label": name }, value);
    return el("tr", {},
      el("th", { scope: "row" }, el("a", { href: `#/filter?path=${encodeURIComponent(filter.path)}` }, filter.name),
        el("div", { class: "row sub" }, filter.kind, pill(state, word))),
      capacity, cell("Fill", filter.fill === null ? el("span", { title: "The background watch has not looked at it yet" }, "–") : percent(filter.fill), false),
      cell("Promised", percent(filter.rate.asked)), cell("Expected", percent(filter.rate.expected)),
      cell("Measured", measured(filter.rate)),
      cell("Size", el("span", {}, bytes(filter.bytes), el("span", { class: "sub" }, filter.items > 0 && filter.bits_per_item !== null ? `${digits(filter.bits_per_item, 3)} bits an item` : "empty"))), cell("Forecast", el("span", {}, forecast(filter), el("span", { class: "sub" }, `${time(Math.floor(filter.age_seconds))} old`)), false));
  }

  // Rows move with the stream; where each stands stays, so that nothing jumps under the reader's hand.
  const end = live.on("stats", ({ filters }) => {
    for (const now of filters) {
      const known = rows.get(now.path);
      if (!known) continue;
      Object.assign(known.filter, { items: now.items, used: now.used });
      replace(known.capacity, capacityParts(known.filter, stateOf(known.filter)[0]));
    }
  });

  function pager(answer) {
    const last = Math.min(answer.offset + answer.limit, answer.total);
    const go = (offset) => () => ask({ offset });
    return el("div", { class: "pager" },
      el("span", {}, `${count(answer.offset + 1)} to ${count(last)} of ${counted(answer.total, "filter")}`, answer.truncated ? " (of the first 100,000)" : ""),
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
      control?.abort();
    },
  };
}

function capacityParts(filter, state) {
  if (!(filter.capacity > 0)) return [el("span", {}, `${short(filter.items)} items`)];
  return [bar(filter.used, state === "ok" ? "" : state), el("span", { class: "sub" }, el("span", {}, `${short(filter.items)} of ${short(filter.capacity)}`), el("span", {}, percent(Number(filter.used.toPrecision(3)))))];
}

function measured(rate) {
  if (rate.measured === null) return el("span", { title: "The background watch has not asked it yet" }, "not yet");
  const interval = rate.measured_low === null ? "" : `95 of 100 times between ${percent(rate.measured_low)} and ${percent(rate.measured_high)}`;
  return el("span", { title: interval }, percent(Number(rate.measured.toPrecision(3))));
}

/** "full in 3 days": the server's own forecast, or one from what is known here. */
export function forecast(filter) {
  if (["scalable", "growing-cuckoo"].includes(filter.kind)) return "grows by itself";
  if (filter.kind === "stable") return "never full";
  if (["fuse", "ribbon"].includes(filter.kind)) return "never changes";
  if (filter.growth_per_second === null) return filter.used >= 1 ? "full" : "not known yet";
  return fullIn(filter.full_in_seconds ?? secondsUntilFull(filter.items, filter.capacity, filter.growth_per_second));
}
