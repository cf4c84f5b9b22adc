// Alerts that fire, each with the way to its section of the runbook.

import { el } from "./dom.js";
import { count, heldTogether } from "./format.js";
import { pill } from "./parts.js";

/** Of one name so many are shown; the others are told by their number. */
const MOST = 5;

/** The alerts by their names, in the order in which they came: [{name, alerts, total}]. A server names the first hundred of a name
 * and says how many there are; a gate names all. */
export function alertGroups(alerts) {
  const groups = new Map();
  for (const alert of alerts) {
    if (!groups.has(alert.name)) groups.set(alert.name, { name: alert.name, alerts: [], total: 0 });
    const group = groups.get(alert.name);
    group.alerts.push(alert);
    group.total = Math.max(group.alerts.length, alert.total ?? 0);
  }
  return [...groups.values()];
}

/** How many alerts fire. */
export const alertCount = (alerts) => alertGroups(alerts).reduce((sum, group) => sum + group.total, 0);

/** What the others of a group have in common is the order in which the list of filters has them first. */
const FIRST = { BloomgateOverCapacity: "used", BloomgateRateTooHigh: "measured" };

/** One notice for each alert, or that there is none. */
export function alertsList(alerts) {
  if (alerts.length === 0) return el("p", { class: "row" }, pill("ok", "quiet"), "No alert is firing.");
  return alertGroups(alerts).map((group) => [
    group.alerts.slice(0, MOST).map(notice),
    group.total > MOST ? el("p", {}, `and ${count(group.total - MOST)} more ${group.name}`,
      FIRST[group.name] ? [": ", el("a", { href: `#/filters?sort=${FIRST[group.name]}&order=desc` }, "all in the list of filters")] : null) : null,
  ]);
}

function notice(alert) {
  const state = alert.severity === "critical" ? "bad" : "warn";
  return el("div", { class: `notice ${state}` },
    el("div", { class: "row" }, pill(state, alert.severity), el("strong", {}, heldTogether(alert.filter ? `${alert.filter}: ${alert.summary}` : alert.summary))),
    el("small", {}, alert.path ? [el("a", { href: `#/filter?path=${encodeURIComponent(alert.path)}` }, "look at the filter"), " · "] : null,
      el("a", { href: alert.runbook.replace(/^\//, ""), "aria-label": `What to do about ${alert.name}` }, "what to do"), ` · ${alert.name}`));
}
