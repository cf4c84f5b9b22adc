// Advice: sentences with reasons, each with the commands that do something about it.

import { el, onChange, replace } from "../dom.js";
import { count, counted } from "../format.js";
import { code, empty, head, loading, pill, trouble } from "../parts.js";

const WORDS = { critical: ["bad", "act now"], error: ["bad", "act now"], warning: ["warn", "look at it"], info: ["none", "worth knowing"] };
const ORDER = ["critical", "error", "warning", "info"];
/** Pieces for one reason that stand for themselves; of more than those the others open when they are asked for. */
const ALONE = 3;
/** Filters that are named by what opens. */
const NAMED = 4;

export function show({ api, live }) {
  const place = el("div", { class: "stack" }, loading("the advice"));
  let asked = 0;
  const load = async () => {
    asked += 1;
    const mine = asked;
    try {
      const { advice, total } = await api.get("v1/advice");
      // An answer that was overtaken by a later one is old.
      if (mine !== asked) return;
      replace(place, advice.length === 0 ? nothing() : list(advice, total));
    } catch (error) {
      if (mine === asked) replace(place, trouble(error, load));
    }
  };
  // At once, and whenever an alert comes or goes: much of the advice is about those.
  const end = live.on("alerts", onChange(load));
  return {
    stop: end,
    node: el("div", { class: "stack" },
      head("Advice", "What could be better, why, and the commands that do it.", el("button", { type: "button", on: { click: load } }, "Look again")), place),
  };
}

function nothing() {
  return empty("Nothing to advise", "No filter is over capacity, far too large, of the wrong kind, unkeyed and public, and the snapshot is recent. Look again after more has been asked and added.",
    el("p", {}, "Planning something new?"), el("a", { class: "button", href: "#/planner" }, "Open the planner"));
}

/** Pieces that have severity and reason in common are one group: a thousand filters that are too small are one thing to know.
 * The most urgent group first, and within it as they came. */
export function adviceGroups(advice) {
  const groups = new Map();
  for (const each of advice) {
    const name = `${each.severity} ${each.reason}`;
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(each);
  }
  const rank = ([first]) => ORDER.indexOf(first.severity);
  return [...groups.values()].sort((a, b) => rank(a) - rank(b));
}

function list(advice, total) {
  const told = counted(total, "piece of advice", "pieces of advice");
  return [el("p", {}, total > advice.length ? `${told}; here are the ${count(advice.length)} most urgent, and the others follow when these are done.` : told),
    adviceGroups(advice).map((group) => {
      if (group.length <= ALONE) return el("ul", { class: "advice" }, group.map((each) => piece(each, true)));
      const [state, word] = WORDS[group[0].severity] ?? WORDS.info;
      const more = group.slice(ALONE);
      return el("section", { class: "card" },
        el("div", { class: "row" }, pill(state, word), el("h2", {}, `${counted(group.length, "filter")} for the same reason`)),
        el("p", {}, group[0].reason),
        el("ul", { class: "advice" }, group.slice(0, ALONE).map((each) => piece(each, false))),
        el("details", {}, el("summary", {}, `${count(more.length)} more: ${more.slice(0, NAMED).map((each) => each.about).join(", ")}${more.length > NAMED ? " …" : ""}`),
          el("ul", { class: "advice" }, more.map((each) => piece(each, false)))));
    })];
}

function piece(each, isAlone) {
  const [state, word] = WORDS[each.severity] ?? WORDS.info;
  return el("li", { class: `notice ${state}` },
    el("div", { class: "row" }, isAlone ? pill(state, word) : null, el("strong", {}, each.about ? `${each.about}: ${each.sentence}` : each.sentence)),
    isAlone ? el("p", {}, each.reason) : null,
    each.steps.length === 1 ? step(each.steps[0], `Command for ${each.about ?? "the server"}`)
      : el("ol", { class: "fix" }, each.steps.map((one, at) => el("li", {}, step(one, `Step ${at + 1} for ${each.about}`)))),
    each.path ? el("p", {}, el("a", { href: `#/filter?path=${encodeURIComponent(each.path)}` }, `Look at ${each.about}`)) : null);
}

/** Words, and the command where there is one: what is to be filled in by hand has none. */
function step({ about, command }, label) {
  return [about ? el("p", {}, about) : null,
    command ? code(command, label) : null,
    command && !command.startsWith("bloomgate ") ? el("small", {}, el("a", { href: `#/workbench?command=${encodeURIComponent(command)}`, "aria-label": `${label}: take it to the workbench` }, "Take it to the workbench")) : null];
}
