// Overview: how many lookups were spared, and whether all is well.

import { alertsList } from "../alerts.js";
import { lineChart } from "../chart.js";
import { el, replace, setText } from "../dom.js";
import { ago, bytes, count, counted, rate as percent, roughRate, short, time } from "../format.js";
import { card, code, empty, figure, head, loading, pill, setFigure, trouble } from "../parts.js";
import { roundUp } from "../scale.js";
import { firstCommands } from "../terminal.js";

export function show({ api, live }) {
  const node = el("div", { class: "stack" }, head("Overview", "What the filters spare, and whether all is well."), loading("the figures"));
  let parts = null;
  const ends = [];
  let over = false;

  async function begin() {
    try {
      const overview = await api.get("v1/overview");
      if (over) return;
      if (overview.history) live.seed(overview.history);
      parts = build(overview, api.hasLogin());
      replace(node, head("Overview", "What the filters spare, and whether all is well."), parts.node);
      update(overview);
      showAlerts(overview.alerts ?? []);
      ends.push(live.on("stats", ({ overview }) => update(overview)), live.on("alerts", showAlerts));
    } catch (error) {
      replace(node, head("Overview", ""), trouble(error, begin));
    }
  }

  function showAlerts(alerts) {
    if (parts) replace(parts.alerts, alertsList(alerts));
  }

  function update(overview) {
    parts.first.hidden = overview.filters > 0;
    const asked = overview.lookups;
    setText(parts.spared, count(overview.definitely_not));
    setText(parts.sparedNote, asked > 0
      ? `${percent(overview.definitely_not / asked)} of ${short(asked)} lookups were answered “definitely not”: nobody had to look further.`
      : "No lookup has been asked yet. Each “definitely not” spares a look at the data behind.");
    const { per_second: per, latency, memory, persistence: kept } = overview;
    const measured = per?.lookups != null;
    setFigure(parts.operations, measured ? `${short(per.lookups + per.adds)}/s` : "–", measured ? `${short(per.lookups)} lookups, ${short(per.adds)} adds a second` : "measured over ten seconds");
    setFigure(parts.latency, latency?.p99_seconds == null ? "–" : time(latency.p99_seconds), latency?.p50_seconds == null ? "no command yet" : `of 99 in 100 commands; half take ${time(latency.p50_seconds)}`);
    const resident = memory.resident ? `; the process has ${bytes(memory.resident)}` : "";
    setFigure(parts.memory, bytes(memory.used), memory.budget ? `${roughRate(memory.used / memory.budget)} of ${bytes(memory.budget)}${resident}` : `no limit${resident}`);
    setFigure(parts.filters, count(overview.filters), `${overview.items == null ? `${short(overview.new)} new items added` : `${short(overview.items)} items in them`}${overview.unavailable_filters ? `; ${counted(overview.unavailable_filters, "filter")} cannot answer` : ""}`);
    replace(parts.health.value, overview.health.ready ? pill("ok", "ready") : pill("bad", overview.health.state));
    setText(parts.health.note, overview.health.why ?? `up for ${time(Math.floor(overview.uptime_seconds))}`);
    // A user of one namespace is not told about the whole server.
    parts.disk.node.hidden = !kept;
    parts.watch.node.hidden = !overview.watch;
    parts.clients.node.hidden = overview.clients?.resp == null;
    if (kept) {
      replace(parts.disk.value, diskPill(kept));
      setText(parts.disk.note, diskNote(kept));
    }
    if (overview.watch) {
      replace(parts.watch.value, watchPill(overview.watch));
      setText(parts.watch.note, `${short(overview.watch.probes)} random keys asked to find out`);
    }
    if (!parts.clients.node.hidden) setFigure(parts.clients, count(overview.clients.resp + overview.clients.http), `${overview.clients.resp} by RESP, ${overview.clients.http} by HTTP`);
    drawCurve();
  }

  function drawCurve() {
    const seconds = live.history.filter((entry) => entry.overview?.per_second?.lookups != null);
    const now = seconds.at(-1)?.at ?? Date.now();
    const line = (name) => seconds.map((entry) => [(entry.at - now) / 1000, entry.overview.per_second[name]]);
    const [lookups, spared] = [line("lookups"), line("definitely_not")];
    const most = roundUp(Math.max(10, ...lookups.map(([, value]) => value)) * 1.05);
    const far = Math.max(60, Math.ceil(-(lookups[0]?.[0] ?? 0) / 60) * 60);
    parts.chart.draw({
      title: "Lookups a second",
      words: lookups.length > 0 ? `Now ${short(lookups.at(-1)[1])}, of which ${short(spared.at(-1)[1])} are spared.` : "Nothing has been measured yet.",
      waiting: "The first figures come in a moment.",
      x: { label: "seconds ago", kind: "linear", range: [-far, 0], format: (value) => (value === 0 ? "now" : `${Math.round(-value)} s`) },
      y: { label: "a second", kind: "linear", range: [0, most], format: short },
      series: [{ name: "asked", points: lookups, tone: 2 }, { name: "spared", points: spared, tone: 1, area: true }],
    });
  }

  begin();
  return {
    node,
    stop: () => {
      over = true;
      ends.forEach((end) => end());
      parts?.chart.stop();
    },
  };
}

function build(overview, hasLogin) {
  const spared = el("dd", { class: "value" }, "–");
  const sparedNote = el("dd", { class: "note" });
  const chart = lineChart(210);
  const alerts = el("div", { class: "stack" });
  const figures = {
    operations: figure("Operations"), latency: figure("Latency"), memory: figure("Memory"), filters: figure("Filters"),
    health: figure("Health"), disk: figure("Disk"), watch: figure("Self-check"), clients: figure("Clients"),
  };
  const { first: command, note } = firstCommands(overview, location, hasLogin);
  const first = empty("No filter yet", "Make the first one: copy this line into a terminal, then come back. The figures move by themselves.",
    code(command, "First command"), note ? el("p", {}, note) : null,
    el("p", {}, "Not sure which kind? The ", el("a", { href: "#/planner" }, "planner"), " compares them, and ", el("a", { href: "#/how" }, "How it works"), " lets you poke one."));
  const facts = el("dl", { class: "facts" },
    [["Version", `${overview.version} (API ${overview.api_version})`], ["Processor", `${overview.simd} code in use`],
      ["You are", overview.user ? `${overview.user.name}: ${overview.user.roles.join(", ")}` : "nobody in particular"],
      ["For Redis clients", overview.addresses?.resp ?? "–"], ["The same with TLS", overview.addresses?.tls ?? "off"], ["HTTP", overview.addresses?.http ?? "–"]]
      .flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  const kinds = Object.entries(overview.kinds ?? {});
  const node = el("div", { class: "stack" }, first,
    el("section", { class: "hero", "aria-label": "Lookups spared" }, el("dl", {}, el("dt", {}, "Lookups spared"), spared, sparedNote), chart.node),
    el("dl", { class: "figures four" }, Object.values(figures).map((each) => each.node)),
    el("div", { class: "halves" }, card("Alerts", alerts),
      card("This server", facts, kinds.length > 0 ? el("p", {}, el("small", {}, `Kinds: ${kinds.map(([kind, number]) => `${count(number)} ${kind}`).join(", ")}`)) : null)));
  return { node, spared, sparedNote, chart, alerts, first, ...figures };
}

function diskPill(kept) {
  if (!kept.kept) return pill("none", "not kept");
  return kept.writable ? pill("ok", "writable") : pill("bad", "failing");
}

function diskNote(kept) {
  if (kept.trouble) return kept.trouble;
  if (!kept.kept) return "filters are in memory alone";
  const snapshot = kept.saving ? "a snapshot is being made" : kept.last_snapshot_ms ? `snapshot ${ago(kept.snapshot_age_seconds)}` : "no snapshot yet";
  return `synced ${kept.fsync.replaceAll("-", " ")}; ${snapshot}`;
}

function watchPill(watch) {
  if (watch.poisoned > 0) return pill("bad", `${watch.poisoned} poisoned`);
  if (watch.suspicious > 0) return pill("warn", `${watch.suspicious} suspicious`);
  return pill("ok", "all as promised");
}
