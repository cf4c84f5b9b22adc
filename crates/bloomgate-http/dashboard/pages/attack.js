// The attack on an embedded catalogue of products: started by an admin, watched front by front.

import { el, onChange, replace, setText } from "../dom.js";
import { count, rate as percent, short, time } from "../format.js";
import { bar, card, choice, pill, table, toast } from "../parts.js";

const FRONTS = {
  nothing: "Nothing", cache: "A cache", "negative-cache": "A negative cache", gate: "The gate", "gate-resp": "The gate, filter behind RESP",
};

/** The card; `path` is where the attack is asked for and told. */
export function attackCard(api, path) {
  const at = path.replace(/^\//, "");
  const place = el("div", { class: "stack", role: "status" });
  let requests = 100_000;
  let timer = 0;
  let stopped = false;
  const start = el("button", { type: "button", class: "primary", on: { click: () => act(() => api.post(at, { requests })) } }, "Start the attack");
  const halt = el("button", { type: "button", on: { click: () => act(() => api.post(`${at}/stop`)) } }, "Stop");

  async function act(work) {
    start.disabled = halt.disabled = true;
    try {
      draw(await work());
    } catch (error) {
      toast(`${error.title}: ${error.message}`, "bad");
      start.disabled = halt.disabled = false;
    }
    look();
  }

  async function look() {
    clearTimeout(timer);
    let pause = 5_000;
    try {
      const state = await api.get(at);
      draw(state);
      pause = state.running ? 700 : 5_000;
    } catch (error) {
      if (!stopped) setText(place, `${error.title}: ${error.message}`);
    }
    if (!stopped) timer = setTimeout(look, pause);
  }

  function draw(state) {
    start.disabled = state.running;
    halt.disabled = false;
    halt.hidden = !state.running;
    show(state);
  }

  const show = onChange((state) => {
    const fronts = state.fronts.map((name) => ({ name, found: state.done.find((done) => done.front === name) }));
    if (!state.running && state.done.length === 0 && !state.failure) {
      replace(place, el("p", {}, "Not run yet."));
      return;
    }
    const most = Math.max(...state.done.map((done) => done.reached_database), 1);
    replace(place,
      state.running ? el("p", { class: "row" }, pill("warn", "under way"), `${FRONTS[state.front] ?? state.front ?? "Setting up"}: ${short(state.requests)} requests, 95 % of them for products that do not exist.`) : null,
      state.failure ? el("p", { class: "row" }, pill("bad", "ended early"), state.failure) : null,
      table("What each defence let through to the database", [
        { name: "Before the database", head: true, cell: ({ name }) => FRONTS[name] ?? name },
        { name: "Reached the database", cell: ({ name, found }) => (found ? [count(found.reached_database), bar(found.reached_database / most, name.startsWith("gate") ? "" : "bad")] : name === state.front ? "being attacked…" : "–"), class: "capacity" },
        { name: "Reached the cache", class: "number", cell: ({ found }) => (found ? (found.reached_cache === null ? "no cache" : count(found.reached_cache)) : "–") },
        { name: "Mean time", class: "number", cell: ({ found }) => (found ? time(found.latency_seconds.mean) : "–") },
        { name: "99 % within", class: "number", cell: ({ found }) => (found ? time(found.latency_seconds.p99) : "–") },
        { name: "False positives", class: "number", cell: ({ found }) => (found?.false_positives ? percent(found.false_positives.rate) : "–") },
        { name: "Wrong “no”", class: "number", cell: ({ found }) => (found ? (found.wrong_no === 0 ? pill("ok", "0") : pill("bad", count(found.wrong_no))) : "–") },
      ], fronts));
  });

  look();
  return {
    node: card("The attack it is for",
      el("p", {}, "A catalogue of 100,000 products in SQLite is made for this, in a process of its own: your data and this gate are not touched, but the machine is busy meanwhile. It needs the role admin."),
      el("div", { class: "row" }, choice("Requests", [["20000", "20 k"], ["100000", "100 k"], ["400000", "400 k"]], String(requests), (value) => (requests = Number(value))), start, halt), place),
    stop: () => {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
