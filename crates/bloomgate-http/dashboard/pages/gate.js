// Gate: where requests end, how good the filter is over true negatives, what the audit found, rebuilds, one key explained, and
// the attack that the gate is for.

import { lineChart } from "../chart.js";
import { el, onChange, replace, setText } from "../dom.js";
import { ago, bytes, count, counted, moment, rate as percent, short, time } from "../format.js";
import { bar, card, code, empty, figure, head, loading, pill, table, toast, trouble } from "../parts.js";
import { roundUp } from "../scale.js";
import { funnel } from "../funnel.js";
import { attackCard } from "./attack.js";

const LEAD = "Lookups of keys that do not exist end here, and the database never hears of them.";

export function show(context) {
  return context.about.process === "gate" ? gatePage(context) : elsewhere(context);
}

/** On a server's dashboard: where gates are, and how to start one. */
function elsewhere({ api, about }) {
  const attack = about.attack ? attackCard(api, about.attack) : null;
  return {
    node: el("div", { class: "stack" }, head("Gate", LEAD),
      empty("No gate runs in this process", "A gate stands before a database and answers lookups of absent keys itself. Start one, then open its own address in the browser: this page is there, with its figures.",
        code("bloomgate gate --listen 127.0.0.1:8480 --source sqlite:shop.db --table products --key sku", "Start a gate"),
        el("p", {}, "To see first what it is for, attack a catalogue of 100,000 products on your own machine:"),
        code("bloomgate attack", "The attack")),
      attack?.node),
    stop: () => attack?.stop(),
  };
}

function gatePage({ api, live, about }) {
  const node = el("div", { class: "stack" }, head("Gate", LEAD), loading("the gate’s figures"));
  const attack = about.attack ? attackCard(api, about.attack) : null;
  let parts = null;
  const end = live.on("gate", (stats) => {
    if (stats.lookups === undefined) {
      parts = null;
      replace(node, head("Gate", LEAD), empty("The gate is waiting", stats.waits_for ?? "Its source cannot be reached yet. Lookups get 503 until it can."), attack?.node);
      return;
    }
    if (!parts) {
      parts = build(api, live, Array.isArray(stats.busiest));
      replace(node, parts.node, attack?.node);
    }
    parts.update(stats);
  });
  return {
    node,
    stop: () => {
      end();
      parts?.stop();
      attack?.stop();
    },
  };
}

const WRITERS = { sole: "all writes pass here", feed: "others write, and are followed", unknown: "others may write" };
const STATES = {
  ready: ["ok", "ready"], loading: ["warn", "loading"], stale: ["warn", "stale"], degraded: ["warn", "degraded"], broken: ["bad", "broken"],
};

/** With many tenants there is a gate for each: what is told is their sum, and the busiest of them. */
function build(api, live, many) {
  const state = el("div", { class: "row" });
  const figures = { kept: figure("Kept from the source"), rate: figure("False positives"), audit: figure("Audit of “no”"), filter: figure("Filter"), source: figure("At the source") };
  const steps = el("div", { class: "funnel" });
  const chart = lineChart(210);
  const rebuild = rebuildCard(api);
  const tenants = el("div", { hidden: true });
  const showTenants = onChange((rows) => drawTenants(tenants, rows));
  const shadow = el("div", { class: "notice", hidden: true });
  const others = el("div", { class: "halves", hidden: true });
  const showOthers = onChange((told) => drawOthers(others, told));
  const node = el("div", { class: "stack" }, head("Gate", LEAD, state), shadow,
    el("dl", { class: "figures" }, Object.values(figures).map((each) => each.node)),
    card("Where requests end", steps), tenants, others,
    el("div", { class: "halves" }, card(null, chart.node), explainCard(api, many)), rebuild.node);

  const update = (stats) => {
    const { lookups, measured, audit, filter, at_source: source } = stats;
    replace(state, pill(...(STATES[stats.state] ?? ["none", stats.state])), pill("none", `policy ${stats.policy}`), pill("none", WRITERS[stats.writers] ?? stats.writers));
    const total = funnel(lookups).total;
    set(figures.kept, count(lookups["absent-by-filter"] + lookups["negative-cached"]), total > 0 ? `${percent((lookups["absent-by-filter"] + lookups["negative-cached"]) / total)} of ${short(total)} lookups` : "no lookup yet");
    set(figures.rate, percent(measured.false_positive_rate), measured.interval ? `99 %: ${percent(measured.interval[0])} to ${percent(measured.interval[1])}, over ${short(measured.absent_lookups)} true negatives${filter ? `; ${percent(filter.asked_rate)} asked` : ""}` : "no absent key was asked for yet");
    replace(figures.audit.value, audit.wrong > 0 ? pill("bad", `${count(audit.wrong)} wrong`) : pill("ok", "0 wrong"));
    setText(figures.audit.note, `of ${count(audit.checked)} checked at the source${audit.undecided ? `; ${count(audit.undecided)} undecided` : ""}${audit.skipped ? `; ${count(audit.skipped)} skipped` : ""}`);
    if (many) set(figures.filter, `${count(stats.tenants.ready)} of ${count(stats.tenants.all)}`, `filters of tenants in force; ${bytes(stats.budget.spent)} of ${bytes(stats.budget.bytes)} taken`);
    else if (filter) set(figures.filter, `version ${filter.version}`, `${short(filter.items)} of ${short(filter.capacity)} keys${filter.bytes ? `, ${bytes(filter.bytes)}` : ""}; ${filter.watermark_ms ? `complete as of ${ago((Date.now() - filter.watermark_ms) / 1000)}` : "not complete now"}`);
    else set(figures.filter, "none yet", stats.lists_keys ? "the first scan is on its way" : "the source cannot list its keys, so there is none");
    set(figures.source, `${count(source.reads)} reads`, `${source.at_once} under way, ${source.waiting} waiting${source.errors ? `; ${count(source.errors)} failed` : ""}`);
    drawFunnel(steps, lookups);
    drawShadow(shadow, stats);
    drawCurve(chart, live);
    if (many) showTenants([stats.busiest, stats.not_ready]);
    showOthers([stats.feed ?? null, stats.clients ?? null]);
    rebuild.update(stats);
  };
  return { node, update, stop: chart.stop };
}

function set(part, value, note) {
  setText(part.value, value);
  setText(part.note, note);
}

/** Each step as long as what is left when it begins; the part that ends there is filled. */
function drawFunnel(place, lookups) {
  const { total, steps } = funnel(lookups);
  if (total === 0) {
    replace(place, el("p", {}, "Nobody has asked yet. Ask for a key that does not exist, and see it end at the filter."));
    return;
  }
  replace(place, steps.map((step) => {
    const inner = el("span", {});
    // However few they are, they are seen.
    const width = Math.max(step.number > 0 ? 0.6 : 0, (step.number / total) * 100);
    inner.style.left = `${Math.min((step.before / total) * 100, 100 - width)}%`;
    inner.style.width = `${width}%`;
    return el("div", { class: `step ${step.name}` }, el("div", {}, el("strong", {}, step.title), el("span", { class: "sub" }, step.what)),
      el("div", { class: "track", "aria-hidden": "true" }, inner), el("div", { class: "number" }, count(step.number), el("span", { class: "sub" }, step.number > 0 && step.number / total < 1e-6 ? "below 0.0001 %" : percent(step.number / total))));
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
    x: { label: "seconds ago", kind: "linear", range: [-far, 0], format: (value) => (value === 0 ? "now" : `${Math.round(-value)} s`) },
    y: { label: "a second", kind: "linear", range: [0, roundUp(Math.max(10, ...asked.map(([, value]) => value)) * 1.05)], format: short },
    series: [{ name: "requests", points: asked, tone: 1, area: true }, { name: "reads at the source", points: read, tone: 2 }],
  });
}

/** Where a gate has tenants: the busiest, and those whose filter is not in force. */
function drawTenants(place, [busiest, notReady]) {
  const columns = [
    { name: "Tenant", head: true, cell: (row) => row.tenant },
    { name: "State", cell: (row) => pill(...(STATES[row.state] ?? ["none", row.state])) },
    { name: "Lookups", class: "number", cell: (row) => count(row.lookups) },
    { name: "Stopped by the filter", class: "number", cell: (row) => count(row.absent_by_filter) },
    { name: "Keys", class: "number", cell: (row) => count(row.keys) },
    { name: "Filter", class: "number", cell: (row) => bytes(row.bytes) },
    { name: "Rate asked for", class: "number", cell: (row) => percent(row.asked_rate) },
    { name: "Rate given", class: "number", cell: (row) => (row.allotted_rate === null ? "no room" : percent(row.allotted_rate)) },
  ];
  place.hidden = false;
  replace(place, card("Tenants", el("h3", {}, "Those with the most lookups"), table("Tenants with the most lookups", columns, busiest),
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

function rebuildCard(api) {
  const now = el("div", { class: "stack" });
  const past = el("div", {});
  const button = el("button", { type: "button", on: { click: async () => {
    button.disabled = true;
    try {
      await api.post("rebuild");
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
        `${counted(rebuild.done, "rebuild")} done${rebuild.failed ? `, ${count(rebuild.failed)} failed` : ""}.`));
    showPast(rebuild.history);
  };
  const updateMany = ({ scanning, rolling, scans, scans_failed: failed, rebuilds, rebuilds_failed: broken }) => {
    button.disabled = scanning !== null;
    replace(now, scanning
      ? [el("p", {}, `All tenants are scanned: ${count(scanning[0])} of about ${count(scanning[1])} keys.`), bar(scanning[1] > 0 ? scanning[0] / scanning[1] : 0)]
      : el("p", { class: "row" }, failed + broken > 0 ? pill("warn", `${count(failed + broken)} failed`) : pill("ok", rolling ? "one after the other" : "idle"),
        `${counted(scans, "scan")} of all tenants and ${counted(rebuilds, "rebuild")} of single ones done.`));
  };
  const showPast = onChange((history) => {
    replace(past, history.length === 0 ? el("p", {}, el("small", {}, "None has ended yet.")) : table("Rebuilds, the newest first", [
      { name: "Ended", head: true, cell: (row) => moment(row.ended_ms) }, { name: "Why", cell: (row) => words(row.reason) },
      { name: "Version", class: "number", cell: (row) => count(row.version) }, { name: "Keys", class: "number", cell: (row) => count(row.keys) },
      { name: "Took", class: "number", cell: (row) => time(row.seconds) },
      { name: "How it went", cell: (row) => (row.failure ? [pill("bad", "failed"), " ", row.failure] : pill("ok", "in force")) },
    ], [...history].reverse().slice(0, 20)));
  });
  return { node: card("Rebuilds", el("div", { class: "row apart" }, now, button), past), update };
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
  return card("Why was a key answered so?", el("form", { class: "stack", on: { submit: ask } },
    many ? el("div", { class: "field" }, el("label", { for: "gate-tenant" }, "Tenant"), tenant) : null,
    el("div", { class: "field" }, el("label", { for: "gate-key" }, "Key"), el("div", { class: "inline" }, key, el("button", { class: "primary" }, "Explain")))), answer);
}
