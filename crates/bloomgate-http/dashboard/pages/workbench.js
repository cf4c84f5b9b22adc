// Workbench: commands, the slow log, and what the server tells while it happens.

import { el, replace } from "../dom.js";
import { clock, time } from "../format.js";
import { card, choice, copyButton, empty, head, loading, pill, table, trouble } from "../parts.js";
import { replyText, splitWords } from "../words.js";

const EXAMPLES = ["BF.ADD visitors alice", "BF.EXISTS visitors mallory", "BG.INFO visitors", "BG.STATS", "INFO server"];
const REMEMBERED = 100;
const TAIL = 300;

export function show({ api, live }) {
  const views = { commands: commands(api), slow: slowLog(api), tail: tail(live) };
  const place = el("div", { class: "stack" });
  let shown = "commands";
  const open = (name) => {
    shown = name;
    replace(place, views[name].node);
    views[name].open?.();
  };
  open(shown);
  return {
    node: el("div", { class: "stack" },
      head("Workbench", "Run commands, see what was slow, and watch what happens.",
        choice("View", [["commands", "Commands"], ["slow", "Slow log"], ["tail", "Live tail"]], shown, open)), place),
    stop: () => Object.values(views).forEach((view) => view.stop?.()),
  };
}

function commands(api) {
  const output = el("div", { class: "console", role: "log", "aria-label": "Replies", tabindex: "0" }, el("p", { class: "took" }, "Replies appear here. Arrow up brings back the last command."));
  const list = el("datalist", { id: "commands" });
  const line = el("input", { type: "text", id: "command", class: "mono", list: "commands", autocomplete: "off", autocapitalize: "off", spellcheck: "false", placeholder: EXAMPLES[0], "aria-describedby": "command-help" });
  const help = el("p", { id: "command-help", class: "hint" }, "As in redis-cli. What a command may do hangs on your role.");
  const known = new Map();
  const past = [];
  let at = 0;

  line.addEventListener("input", () => {
    const found = known.get(line.value.trim().split(/\s+/)[0]?.toUpperCase());
    replace(help, found ? [el("code", {}, found.syntax.toUpperCase().startsWith(found.name) ? found.syntax : `${found.name} ${found.syntax}`), ` ${found.summary} Needs the role ${found.role}.`] : "As in redis-cli. What a command may do hangs on your role.");
  });
  line.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
    if (past.length === 0) return;
    event.preventDefault();
    at = Math.min(past.length, Math.max(0, at + (event.key === "ArrowUp" ? -1 : 1)));
    line.value = past[at] ?? "";
  });

  const run = async (text) => {
    const entry = el("div", {}, el("div", { class: "asked" }, `> ${text}`));
    if (past.length === 0) replace(output);
    past.push(text);
    at = past.length;
    output.append(entry);
    while (output.childElementCount > REMEMBERED) output.firstElementChild.remove();
    try {
      const answer = await api.post("v1/command", { argv: splitWords(text) });
      entry.append(answer.error ? el("pre", { class: "reply error" }, `(error) ${answer.error}`) : el("pre", { class: "reply" }, replyText(answer.reply)),
        el("span", { class: "took" }, time(answer.took_seconds), " "));
      if (!answer.error) entry.append(copyButton(() => replyText(answer.reply), `reply of ${text}`));
    } catch (error) {
      entry.append(el("pre", { class: "reply error" }, `${error.title ? `${error.title}: ` : ""}${error.message}`));
    }
    output.scrollTop = output.scrollHeight;
  };

  let asked = false;
  return {
    node: card("Commands",
      el("form", { class: "stack", on: { submit: (event) => {
        event.preventDefault();
        const text = line.value.trim();
        if (text === "") return;
        line.value = "";
        run(text);
      } } },
      el("div", { class: "field" }, el("label", { for: "command" }, "Command"), el("div", { class: "inline" }, line, el("button", { class: "primary" }, "Run")), help), list),
      el("div", { class: "row" }, el("small", {}, "For example:"), EXAMPLES.map((text) =>
        el("button", { type: "button", class: "quiet mono", on: { click: () => {
          line.value = text;
          line.dispatchEvent(new Event("input"));
          line.focus();
        } } }, text))),
      output),
    async open() {
      line.focus();
      if (asked) return;
      asked = true;
      try {
        const answer = await api.get("v1/commands");
        for (const command of answer.commands) known.set(command.name.toUpperCase(), command);
        replace(list, answer.commands.map((command) => el("option", { value: command.name }, command.syntax)));
      } catch {
        // Without the list nothing is completed; commands run all the same.
        asked = false;
      }
    },
  };
}

function slowLog(api) {
  const place = el("div", { class: "stack" }, loading("the slow log"));
  const load = async () => {
    try {
      const { slow } = await api.get("v1/slowlog?limit=100");
      replace(place, slow.length === 0
        ? empty("Nothing was slow", "Commands that take longer than slowlog-log-slower-than microseconds appear here.")
        : table("Slow commands", [
          { name: "Time", cell: (row) => clock(row.at_ms), head: true },
          { name: "Took", cell: (row) => time(row.took_seconds), class: "number" },
          { name: "Command", cell: (row) => el("code", {}, row.argv.join(" ")) },
          { name: "Client", cell: (row) => `${row.client}${row.name ? ` (${row.name})` : ""}` },
        ], slow));
    } catch (error) {
      replace(place, trouble(error, load));
    }
  };
  return { node: card("Slow log", el("div", { class: "row" }, el("button", { type: "button", on: { click: load } }, "Refresh")), place), open: load };
}

const LEVELS = { error: "bad", warn: "warn", info: "none", debug: "none", slow: "warn", alert: "bad" };

function tail(live) {
  const list = el("ul", { class: "tail", "aria-label": "Events", tabindex: "0" });
  const waiting = el("p", {}, "Waiting: logins, snapshots, slow commands, warnings and alerts appear here as they happen.");
  let paused = false;
  const pause = el("button", { type: "button", "aria-pressed": "false", on: { click: () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    replace(pause, paused ? "Go on" : "Pause");
  } } }, "Pause");
  const add = (at, level, text, more) => {
    if (paused) return;
    waiting.hidden = true;
    list.prepend(el("li", {}, el("time", {}, clock(at)), pill(LEVELS[level] ?? "none", level), el("span", {}, text, more ? el("small", {}, ` ${more}`) : null)));
    while (list.childElementCount > TAIL) list.lastElementChild.remove();
  };
  const ends = [
    live.on("log", (entry) => add(Date.parse(entry.time), entry.level, entry.message, entry.event)),
    live.on("slow", (row) => add(row.at_ms, "slow", `${row.argv.join(" ")} took ${time(row.took_seconds)}`, row.client)),
    live.on("alerts", (alerts) => alerts.forEach((alert) => add(Date.now(), "alert", alert.filter ? `${alert.filter}: ${alert.summary}` : alert.summary, alert.name))),
  ];
  return {
    node: card("Live tail", el("div", { class: "row" }, pause, el("button", { type: "button", class: "quiet", on: { click: () => {
      replace(list);
      waiting.hidden = false;
    } } }, "Clear")), waiting, list),
    stop: () => ends.forEach((end) => end()),
  };
}
