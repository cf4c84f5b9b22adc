// Gate: what is wrong, where requests end, how good the filter is over true negatives, what the audit found, rebuilds, the same of
// one tenant, one key explained, and the attack that the gate is for.

import { alertsList } from "../alerts.js";
import { lineChart } from "../chart.js";
import { el, onChange, replace, setText } from "../dom.js";
import { ago, bytes, count, counted, moment, rate as percent, short, time } from "../format.js";
import { bar, card, code, empty, figure, head, loading, pill, setFigure, table, toast, trouble } from "../parts.js";
import { roundUp } from "../scale.js";
import { funnel } from "../funnel.js";
import { attackCard } from "./attack.js";

const LEAD = "Lookups of keys that do not exist end here, and the database never hears of them.";

export function show(context) {
  return context.about.process === "gate" ? gatePage(context) : elsewhere(context);
}

/** Where a gate is if nobody said otherwise, by the name that the browser has for its machine. */
const usualGate = () => `${location.protocol}//${location.hostname}:8480/`;

/** On a server's dashboard: where gates are, and how to start one. */
function elsewhere({ api, about }) {
  const attack = about.attack ? attackCard(api, about.attack) : null;
  return {
    node: el("div", { class: "stack" }, head("Gate", LEAD),
      empty("A gate has a dashboard of its own", "This one is the server’s. A gate stands before a database and answers lookups of absent keys itself. Start one, then open its own address in the browser: this page is there, with its figures.",
        code("bloomgate gate --listen 127.0.0.1:8480 --source sqlite:shop.db --table products --key sku", "Start a gate"),
        el("p", {}, "Is there one already? That of ", el("code", {}, "bloomgate serve --demo"), ", and any that was told no other address, is at port 8480 of its machine; the terminal says where."),
        el("a", { class: "button", href: usualGate() }, `Open ${usualGate()}`),
        el("p", {}, "To see first what it is for, attack a catalogue of 100,000 products on your own machine:"),
        code("bloomgate attack", "The attack")),
      attack?.node),
    stop: () => attack?.stop(),
  };
}

function gatePage({ api, live, about, parameters }) {
  const node = el("div", { class: "stack" }, head("Gate", LEAD), loading("the gate’s figures"));
  const attack = about.attack ? attackCard(api, about.attack) : null;
  const firing = el("div", { class: "stack" });
  const alerts = card("Alerts", firing);
  let chosen = parameters.get("tenant") ?? "";
  let [parts, coming, over, waits] = [null, false, false, null];

  async function begin(stats) {
    coming = true;
    const fresh = build(api, live, about, alerts, Array.isArray(stats.busiest));
    // The tenant of the address comes first: nothing moves when the rest is there.
    const name = chosen;
    await fresh.choose(name, stats);
    coming = false;
    if (over) return fresh.stop();
    [parts, waits] = [fresh, null];
    replace(node, parts.node, attack?.node);
    parts.update(stats);
    if (chosen !== name) parts.choose(chosen, stats);
  }

  const ends = [live.on("alerts", onChange((now) => replace(firing, alertsList(now)))), live.on("gate", (stats) => {
    if (stats.lookups !== undefined) {
      if (parts) parts.update(stats);
      else if (!coming) begin(stats);
      return;
    }
    parts?.stop();
    parts = null;
    // Drawn anew for another reason alone: what is being copied stays.
    if (waits === stats.waits_for) return;
    waits = stats.waits_for;
    replace(node, head("Gate", LEAD), empty("The gate is waiting", "Its source cannot be reached yet. It is tried again by itself, and the figures come when it is there.",
      waits ? el("p", {}, waits) : null, el("p", {}, "What it waits for, as its load balancer sees it:"), code(`curl -i ${location.origin}/readyz`, "First command")), alerts, attack?.node);
  })];
  return {
    node,
    follow: (next) => {
      chosen = next.get("tenant") ?? "";
      parts?.choose(chosen, live.last.gate, true);
      return true;
    },
    stop: () => {
      over = true;
      ends.forEach((end) => end());
      parts?.stop();
      attack?.stop();
    },
  };
}

const WRITERS = { sole: "all writes pass here", feed: "others write, and are followed", unknown: "others may write" };
const STATES = {
  ready: ["ok", "ready"], loading: ["warn", "loading"], stale: ["warn", "stale"], degraded: ["warn", "degraded"], broken: ["bad", "broken"],
  "no-room": ["warn", "no room"],
};

/** With many tenants there is a gate for each: what is told is their sum, the busiest of them, and the one that is chosen. */
function build(api, live, about, alerts, many) {
  const state = el("div", { class: "row" });
  const figures = { kept: figure("Kept from the source"), rate: figure("False positives"), audit: figure("Audit of “no”"), filter: figure("Filter"), source: figure("At the source") };
  const steps = el("div", { class: "funnel" });
  const chart = lineChart(210);
  const showFunnel = onChange((value) => drawFunnel(steps, ...value));
  const rebuild = rebuildCard(api, many ? "of all tenants" : "");
  const explain = explainCard(api, many);
  const tenants = el("div", { hidden: true });
  const showTenants = onChange((rows) => drawTenants(tenants, rows));
  const one = many ? tenantCard(api, about) : null;
  const shadow = el("div", { class: "notice", hidden: true });
  const others = el("div", { class: "halves", hidden: true });
  const showOthers = onChange((told) => drawOthers(others, told));
  const node = el("div", { class: "stack" }, head("Gate", LEAD, state), shadow,
    el("dl", { class: "figures" }, Object.values(figures).map((each) => each.node)),
    alerts, card("Where requests end", steps), tenants, one?.node, others,
    el("div", { class: "halves" }, card(null, chart.node), explain.node), rebuild.node);

  const update = (stats) => {
    const { lookups, filter, at_source: source } = stats;
    replace(state, pill(...(STATES[stats.state] ?? ["none", stats.state])), pill("none", `policy ${stats.policy}`), pill("none", WRITERS[stats.writers] ?? stats.writers));
    setQuality(figures, stats);
    if (many) setFigure(figures.filter, `${count(stats.tenants.ready)} of ${count(stats.tenants.all)}`, `filters of tenants in force; ${bytes(stats.budget.spent)} of ${bytes(stats.budget.bytes)} taken`);
    else setFilter(figures.filter, filter, stats.lists_keys);
    setFigure(figures.source, counted(source.reads, "read"), `${source.at_once} under way, ${source.waiting} waiting${source.errors ? `; ${count(source.errors)} failed` : ""}`);
    showFunnel([lookups, stats.meaning, firstCommand(about, stats.first_lookup)]);
    drawShadow(shadow, stats);
    drawCurve(chart, live);
    if (many) showTenants([stats.busiest, stats.not_ready]);
    showOthers([stats.feed ?? null, stats.clients ?? null]);
    rebuild.update(stats);
    one?.update(stats);
  };
  const choose = async (name, stats, focus = false) => {
    if (!one) return;
    explain.of(name);
    await one.choose(name, stats, focus);
  };
  return { node, update, choose, stop: () => {
    chart.stop();
    one?.stop();
  } };
}

/** What is kept from the source, how good the filter is, and what the audit found: of a gate, of all tenants or of one. */
function setQuality(figures, { lookups, measured, audit, filter }) {
  const [kept, total] = [lookups["absent-by-filter"] + lookups["negative-cached"], funnel(lookups).total];
  setFigure(figures.kept, count(kept), total > 0 ? `${percent(kept / total)} of ${short(total)} lookups` : "no lookup yet");
  setFigure(figures.rate, percent(measured.false_positive_rate), measured.interval ? `99 %: ${percent(measured.interval[0])} to ${percent(measured.interval[1])}, over ${short(measured.absent_lookups)} true negatives${filter ? `; ${percent(filter.asked_rate)} asked` : ""}` : "no absent key was asked for yet");
  replace(figures.audit.value, audit.wrong > 0 ? pill("bad", `${count(audit.wrong)} wrong`) : audit.checked > 0 ? pill("ok", "0 wrong") : pill("none", "not yet"));
  setText(figures.audit.note, `of ${count(audit.checked)} checked at the source${audit.undecided ? `; ${count(audit.undecided)} undecided` : ""}${audit.skipped ? `; ${count(audit.skipped)} skipped` : ""}`);
}

function setFilter(part, filter, listsKeys) {
  if (!filter) return setFigure(part, "none yet", listsKeys ? "the first scan is on its way" : "the source cannot list its keys, so there is none");
  const complete = filter.watermark_ms ? `complete as of ${ago((Date.now() - filter.watermark_ms) / 1000)}` : "not complete now";
  setFigure(part, `version ${filter.version}`, `${short(filter.items)} of ${short(filter.capacity)} keys${filter.bytes ? `, ${bytes(filter.bytes)}` : ""}; ${complete}`);
}

/** A lookup that ends at the filter, for a terminal. */
function firstCommand(about, path) {
  return path ? `curl -i ${about.login_needed ? "-H 'Authorization: Bearer TOKEN' " : ""}${location.origin}${path}` : null;
}

/** Each step as long as what is left when it begins; the part that ends there is filled. */
function drawFunnel(place, lookups, meaning, first) {
  const { total, steps } = funnel(lookups, meaning);
  if (total === 0) {
    replace(place, el("p", {}, "Nobody has asked yet. Ask for a key that does not exist, and see it end at the filter."), first ? code(first, "First command") : null);
    return;
  }
  replace(place, steps.map((step) => {
    const inner = el("span", {});
    // However few they are, they are seen.
    const width = Math.max(step.number > 0 ? 0.6 : 0, (step.number / total) * 100);
    inner.style.left = `${Math.min((step.before / total) * 100, 100 - width)}%`;
    inner.style.width = `${width}%`;
    return el("div", { class: `step ${step.name}` }, el("div", {}, el("strong", {}, step.title), el("span", { class: "sub" }, step.what)),
      el("div", { class: "track", "aria-hidden": "true" }, step.number > 0 ? inner : null), el("div", { class: "number" }, count(step.number), el("span", { class: "sub" }, step.number > 0 && step.number / total < 1e-6 ? "below 0.0001 %" : percent(step.number / total))));
  }));
}

function drawShadow(place, stats) {
  place.hidden = stats.blocking || stats.shadow.would_block === 0;
  if (place.hidden) return;
  replace(place, el("strong", {}, "The gate only watches"),
    el("p", {}, `It would have blocked ${counted(stats.shadow.would_block, "lookup")}, and ${stats.shadow.would_block_wrongly === 0 ? "none of them wrongly" : `${count(stats.shadow.would_block_wrongly)} of them wrongly, since somebody writes past it`}. `,
      stats.writers === "sole" ? "" : "When all writes pass the gate, start it with --writers sole, and it blocks them."));
}

function drawCurve(chart, live) {
  const entries = live.history.filter((entry) => entry.gate?.lookups);
  const per = (of) => entries.slice(1).map((entry, at) => {
    const seconds = Math.max(0.2, (entry.at - entries[at].at) / 1000);
    return [(entry.at - entries.at(-1).at) / 1000, Math.max(0, (of(entry.gate) - of(entries[at].gate)) / seconds)];
  });
  const asked = per((gate) => funnel(gate.lookups).total);
  const read = per((gate) => gate.at_source.reads);
  const far = Math.max(60, Math.ceil(-(asked[0]?.[0] ?? 0) / 60) * 60);
  chart.draw({
    title: "Requests and reads at the source",
    words: asked.length > 0 ? `Now ${short(asked.at(-1)[1])} requests a second and ${short(read.at(-1)[1])} reads.` : "Nothing was measured yet.",
    waiting: "The first figures come in a moment.",
    x: { label: "seconds ago", kind: "linear", range: [-far, 0], format: (value) => (value === 0 ? "now" : `${Math.round(-value)} s`) },
    y: { label: "a second", kind: "linear", range: [0, roundUp(Math.max(10, ...asked.map(([, value]) => value)) * 1.05)], format: short },
    series: [{ name: "requests", points: asked, tone: 1, area: true }, { name: "reads at the source", points: read, tone: 2 }],
  });
}

/** Where a gate has tenants: the busiest, and those whose filter is not in force. */
function drawTenants(place, [busiest, notReady]) {
  const columns = [
    { name: "Tenant", head: true, cell: (row) => el("a", { href: tenantLink(row.tenant) }, row.tenant) },
    { name: "State", cell: (row) => pill(...(STATES[row.state] ?? ["none", row.state])) },
    { name: "Lookups", class: "number", cell: (row) => count(row.lookups) },
    { name: "Stopped by the filter", class: "number", cell: (row) => count(row.absent_by_filter) },
    { name: "Keys", class: "number", cell: (row) => count(row.keys) },
    { name: "Filter", class: "number", cell: (row) => bytes(row.bytes) },
    { name: "Rate asked for", class: "number", cell: (row) => percent(row.asked_rate) },
    { name: "Rate given", class: "number", cell: (row) => (row.allotted_rate === null ? "no room" : percent(row.allotted_rate)) },
  ];
  place.hidden = false;
  replace(place, card("Tenants", el("h3", {}, "Those with the most lookups"), el("p", {}, el("small", {}, "A name leads to its figures.")), table("Tenants with the most lookups", columns, busiest),
    notReady.length > 0 ? [el("h3", {}, "Those whose filter is not in force"), table("Tenants whose filter is not in force", columns, notReady)] : null));
}

/** How far what others wrote is known, and which clients are over a cap: where a gate has the one or the other. */
function drawOthers(place, [feed, clients]) {
  place.hidden = !feed && !clients;
  const facts = (rows) => el("dl", { class: "facts" }, rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  const late = feed && (feed.lag_ms === null || feed.lag_ms > feed.max_staleness_ms);
  replace(place, feed ? card("What others write", facts([
    ["Known up to", [pill(late ? "bad" : "ok", feed.lag_ms === null ? "nothing yet" : `${time(feed.lag_ms / 1000)} ago`), ` ${time(feed.max_staleness_ms / 1000)} allowed`]],
    ["Outbox", feed.outbox], ["Came, changed, went", `${count(feed.written)}, ${count(feed.changed)}, ${count(feed.deleted)}`],
    ["Lost", feed.losses === 0 ? "never" : `${counted(feed.losses, "time")}, lastly: ${feed.lost ?? "not told"}`]])) : null,
  clients ? card("Clients over a cap", el("p", {}, `${counted(clients.capped, "client")} of ${count(clients.remembered)} now; ${counted(clients.refused_lookups, "lookup")} refused so far.`),
    clients.capped_now.length > 0 ? table("Clients over a cap", [
      { name: "Client", head: true, cell: (row) => row.client }, { name: "Cap", cell: (row) => row.cap },
      { name: "Again in", class: "number", cell: (row) => time(row.again_in_ms / 1000) }], clients.capped_now) : null) : null);
}

const tenantLink = (name) => `#/gate?tenant=${encodeURIComponent(name)}`;

/** One tenant of many: a field that leads to any of them, and its own funnel, rate, audit and rebuilds once it is chosen. */
function tenantCard(api, about) {
  const field = el("input", { type: "text", id: "gate-look-at", list: "gate-known", autocomplete: "off", autocapitalize: "off", spellcheck: "false", required: true });
  const known = el("datalist", { id: "gate-known" });
  const showKnown = onChange((names) => replace(known, names.map((name) => el("option", { value: name }))));
  const form = el("form", { class: "field", on: { submit: (event) => {
    event.preventDefault();
    location.hash = tenantLink(field.value);
  } } }, el("label", { for: "gate-look-at" }, "Look at one tenant"), el("div", { class: "inline" }, field, known, el("button", {}, "Show")));
  const title = el("h2", { tabindex: "-1", id: "gate-one-tenant" }, "One tenant");
  const state = el("div", { class: "row" });
  const back = el("a", { href: "#/gate", hidden: true }, "All tenants");
  const figures = { kept: figure("Kept from the source"), rate: figure("False positives"), audit: figure("Audit of “no”"), filter: figure("Filter") };
  const steps = el("div", { class: "funnel" });
  const showFunnel = onChange((value) => drawFunnel(steps, ...value));
  const shadow = el("div", { class: "notice", hidden: true });
  const wrong = el("div", { hidden: true });
  let rebuild = null;
  const figuresOf = el("div", { class: "stack", hidden: true });
  const node = el("section", { class: "card", "aria-labelledby": "gate-one-tenant" }, el("div", { class: "row apart" }, title, el("div", { class: "row" }, state, back)), form, wrong, figuresOf);
  let [chosen, busy, over] = ["", false, false];

  function draw(stats, all) {
    replace(state, pill(...(STATES[stats.allotted_rate === null ? "no-room" : stats.state] ?? ["none", stats.state])), pill("none", `policy ${stats.policy}`),
      pill("none", stats.allotted_rate === null ? "no room for a filter" : `${percent(stats.allotted_rate)} given, ${percent(stats.asked_rate)} asked`));
    setQuality(figures, stats);
    setFilter(figures.filter, stats.filter, stats.lists_keys);
    // The same lookup as for all, of this tenant: /v1/TABLE/TENANT/KEY.
    const path = all?.first_lookup?.split("/").with(3, encodeURIComponent(chosen)).join("/");
    showFunnel([stats.lookups, all?.meaning, firstCommand(about, path)]);
    drawShadow(shadow, stats);
    rebuild.update(stats);
  }

  async function fetchAndDraw(all) {
    const name = chosen;
    busy = true;
    try {
      const stats = await api.get(`stats/${encodeURIComponent(name)}`);
      if (over || name !== chosen) return;
      draw(stats, all);
      wrong.hidden = true;
      figuresOf.hidden = false;
    } catch (error) {
      if (over || name !== chosen) return;
      replace(wrong, trouble(error));
      wrong.hidden = false;
      figuresOf.hidden = true;
    } finally {
      busy = false;
    }
  }

  return {
    node,
    update: (stats) => {
      showKnown([...new Set([...stats.busiest, ...stats.not_ready].map((row) => row.tenant))]);
      if (chosen && !busy) fetchAndDraw(stats);
    },
    choose: async (name, stats, focus) => {
      chosen = name;
      field.value = name;
      setText(title, name ? `Tenant ${name}` : "One tenant");
      [figuresOf.hidden, wrong.hidden, back.hidden] = [true, true, name === ""];
      replace(state);
      if (name) {
        rebuild = rebuildCard(api, `of ${name}`, `rebuild/${encodeURIComponent(name)}`, "h3");
        replace(figuresOf, shadow, el("dl", { class: "figures four" }, Object.values(figures).map((each) => each.node)), el("h3", {}, "Where its requests end"), steps, rebuild.node);
        await fetchAndDraw(stats);
      }
      if (focus) title.focus();
    },
    stop: () => (over = true),
  };
}

/** Rebuilds of a gate, of all tenants or of one. */
function rebuildCard(api, whose = "", path = "rebuild", level = "h2") {
  const now = el("div", { class: "stack" });
  const past = el("div", {});
  const button = el("button", { type: "button", "aria-label": whose ? `Rebuild now ${whose}` : null, on: { click: async () => {
    button.disabled = true;
    try {
      await api.post(path);
      toast("A rebuild has begun.");
    } catch (error) {
      toast(`${error.title}: ${error.message}`, "bad");
    }
    button.disabled = false;
  } } }, "Rebuild now");
  const update = (stats) => {
    const { rebuild } = stats;
    if (!rebuild) {
      updateMany(stats);
      return;
    }
    const { running } = rebuild;
    button.disabled = running !== null;
    replace(now, running
      ? [el("p", {}, `Under way (${words(running.reason)}): ${count(running.scanned)} of about ${count(running.expected)} keys scanned.`), bar(running.expected > 0 ? running.scanned / running.expected : 0)]
      : el("p", { class: "row" }, rebuild.failures_in_a_row > 0 ? pill("bad", `the last ${count(rebuild.failures_in_a_row)} failed`) : pill("ok", "idle"),
        `${counted(rebuild.done, "rebuild")} done${rebuild.failed ? `, ${count(rebuild.failed)} failed` : ""}. ${due(rebuild.every_seconds, stats.filter?.built_ms)}`));
    showPast(rebuild.history);
  };
  const updateMany = ({ scanning, rolling, scans, scans_failed: failed, rebuilds, rebuilds_failed: broken, failures_in_a_row: failing, every_seconds: every, built_ms: built, history }) => {
    button.disabled = scanning !== null;
    const state = failing > 0 ? pill("bad", `${count(failing)} failed and not made good`) : pill("ok", rolling ? "one after the other" : "idle");
    replace(now, scanning
      ? [el("p", {}, `All tenants are scanned: ${count(scanning[0])} of about ${count(scanning[1])} keys.`), bar(scanning[1] > 0 ? scanning[0] / scanning[1] : 0)]
      : el("p", { class: "row" }, state,
        `${counted(scans, "scan")} of all tenants and ${counted(rebuilds, "rebuild")} of single ones done${failed + broken > 0 ? `, ${count(failed + broken)} failed` : ""}. ${due(every, built, "The oldest filter")}`));
    showPastOfMany(history);
  };
  const showPastOfMany = onChange((history) => {
    replace(past, history.length === 0 ? el("p", {}, el("small", {}, "None has ended yet.")) : table("Rebuilds, the newest first", [
      { name: "Ended", head: true, cell: (row) => moment(row.ended_ms) },
      { name: "Tenant", cell: (row) => (row.tenant === null ? "all" : el("a", { href: tenantLink(row.tenant) }, row.tenant)) },
      { name: "Why", cell: (row) => words(row.reason) },
      { name: "Filters", class: "number", cell: (row) => count(row.built) }, { name: "Keys", class: "number", cell: (row) => count(row.keys) },
      { name: "Took", class: "number", cell: (row) => time(row.seconds) },
      { name: "How it went", cell: (row) => (!row.failure ? pill("ok", "in force") : [row.built > 0 ? pill("warn", `${count(row.failed)} failed`) : pill("bad", "failed"), " ", row.failure]) },
    ], [...history].reverse()));
  });
  const showPast = onChange((history) => {
    replace(past, history.length === 0 ? el("p", {}, el("small", {}, "None has ended yet.")) : table("Rebuilds, the newest first", [
      { name: "Ended", head: true, cell: (row) => moment(row.ended_ms) }, { name: "Why", cell: (row) => words(row.reason) },
      { name: "Version", class: "number", cell: (row) => count(row.version) }, { name: "Keys", class: "number", cell: (row) => count(row.keys) },
      { name: "Took", class: "number", cell: (row) => time(row.seconds) },
      { name: "How it went", cell: (row) => (row.failure ? [pill("bad", "failed"), " ", row.failure] : pill("ok", "in force")) },
    ], [...history].reverse().slice(0, 20)));
  });
  const parts = [el("div", { class: "row apart" }, now, button), past];
  // Within the card of a tenant it is a part of that, not a card of its own.
  return { node: level === "h2" ? card("Rebuilds", parts) : el("div", { class: "stack" }, el(level, {}, "Its rebuilds"), parts), update };
}

/** How old the filter is, and how old it gets. */
function due(every, built, whose = "The filter") {
  const age = built ? `${whose} was built ${ago((Date.now() - built) / 1000)}; ` : "";
  const next = every ? `one is due every ${time(every)}.` : "none is due by itself.";
  return age === "" ? `${next[0].toUpperCase()}${next.slice(1)}` : `${age}${next}`;
}

const words = (reason) => String(typeof reason === "string" ? reason : JSON.stringify(reason)).replaceAll("_", " ").replaceAll("-", " ");

function explainCard(api, many) {
  const tenant = el("input", { type: "text", id: "gate-tenant", autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
  const key = el("input", { type: "text", id: "gate-key", autocomplete: "off", autocapitalize: "off", spellcheck: "false", placeholder: "sku-7" });
  const answer = el("div", { class: "stack", role: "status" }, el("p", {}, el("small", {}, "The whole decision, step by step. It asks the source once.")));
  const ask = async (event) => {
    event.preventDefault();
    if (key.value === "") return key.focus();
    try {
      const of = many ? `${encodeURIComponent(tenant.value)}/` : "";
      const found = await api.get(`explain/${of}${encodeURIComponent(key.value)}`);
      const source = typeof found.source === "string" ? found.source : `failed: ${Object.values(found.source)[0]}`;
      replace(answer, el("div", { class: "notice" }, el("strong", {}, found.decision)),
        el("dl", { class: "facts" }, [["Key", found.key], ["Filter", `${found.filter} (version ${found.version}, ${found.state})`],
          ["Remembered as absent", found.negative_cached ? "yes" : "no"], ["In the cache", found.cached === null ? "no cache" : found.cached ? "yes" : "no"], ["At the source", source]]
          .flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
    } catch (error) {
      replace(answer, trouble(error));
    }
  };
  const node = card("Why was a key answered so?", el("form", { class: "stack", on: { submit: ask } },
    many ? el("div", { class: "field" }, el("label", { for: "gate-tenant" }, "Tenant"), tenant) : null,
    el("div", { class: "field" }, el("label", { for: "gate-key" }, "Key"), el("div", { class: "inline" }, key, el("button", { class: "primary" }, "Explain")))), answer);
  return { node, of: (name) => {
    if (name) tenant.value = name;
  } };
}
