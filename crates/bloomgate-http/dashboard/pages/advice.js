// Advice: sentences with reasons, each with the command that does something about it.

import { el, replace } from "../dom.js";
import { counted } from "../format.js";
import { code, empty, head, loading, pill, trouble } from "../parts.js";

const WORDS = { critical: ["bad", "act now"], error: ["bad", "act now"], warning: ["warn", "look at it"], info: ["none", "worth knowing"] };
const ORDER = ["critical", "error", "warning", "info"];

export function show({ api }) {
  const place = el("div", { class: "stack" }, loading("the advice"));
  const load = async () => {
    try {
      const { advice } = await api.get("v1/advice");
      replace(place, advice.length === 0 ? nothing() : list(advice));
    } catch (error) {
      replace(place, trouble(error, load));
    }
  };
  load();
  return {
    node: el("div", { class: "stack" },
      head("Advice", "What could be better, why, and the command that does it.", el("button", { type: "button", on: { click: load } }, "Look again")), place),
  };
}

function nothing() {
  return empty("Nothing to advise", "No filter is over capacity, far too large, of the wrong kind, unkeyed and public, and the snapshot is recent. Look again after more has been asked and added.",
    el("p", {}, "Planning something new?"), el("a", { class: "button", href: "#/planner" }, "Open the planner"));
}

function list(advice) {
  const sorted = [...advice].sort((a, b) => ORDER.indexOf(a.severity) - ORDER.indexOf(b.severity));
  const shown = 100;
  return [el("p", {}, counted(advice.length, "piece of advice", "pieces of advice")),
    el("ul", { class: "advice" }, sorted.slice(0, shown).map((each) => {
      const [state, word] = WORDS[each.severity] ?? WORDS.info;
      return el("li", { class: `notice ${state}` },
        el("div", { class: "row" }, pill(state, word), el("strong", {}, each.about ? `${each.about}: ${each.sentence}` : each.sentence)),
        el("p", {}, each.reason),
        each.command ? code(each.command, `Command for ${each.about ?? "the server"}`) : null,
        each.path ? el("p", {}, el("a", { href: `#/filter?path=${encodeURIComponent(each.path)}` }, `Look at ${each.about}`)) : null);
    })),
    advice.length > shown ? el("p", {}, `${counted(advice.length - shown, "more piece", "more pieces")} of advice follow when these are done.`) : null];
}
