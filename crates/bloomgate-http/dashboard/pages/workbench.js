// Workbench: commands, the slow log, and what the server tells while it happens.

import { el, replace, setText } from "../dom.js";
import { clock, count, counted, time } from "../format.js";
import { card, choice, copyButton, empty, head, loading, pill, table, toggle, trouble } from "../parts.js";
import { base64, replyText, splitWords } from "../words.js";

const EXAMPLES = ["BF.ADD visitors alice", "BF.EXISTS visitors mallory", "BG.INFO visitors", "BG.STATS", "INFO server"];
const REMEMBERED = 100;
const TAIL = 300;
/** Lines of the tail that say what was done in a second: older ones make room, so that they drive nothing else away. */
const TRAFFIC = 60;
/** Characters of a command that are shown before it is opened. */
const LONG = 140;
/** Commands, and filters, that one such line names. */
const NAMED = 6;

export function show({ api, live, parameters }) {
  const views = { commands: commands(api, parameters.get("command") ?? ""), slow: slowLog(api), tail: tail(live, api) };
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
    focus: parameters.has("command") ? views.commands.line : null,
    stop: () => Object.values(views).forEach((view) => view.stop?.()),
  };
}

/** `given` is a command that somebody brought along: it waits in the field, and runs when Run is pressed. */
function commands(api, given) {
  const output = el("div", { class: "console", role: "log", "aria-label": "Replies", tabindex: "0" }, el("p", { class: "took" }, "Replies appear here. Arrow up brings back the last command."));
  const list = el("datalist", { id: "commands" });
  const line = el("input", { type: "text", id: "command", class: "mono", list: "commands", autocomplete: "off", autocapitalize: "off", spellcheck: "false", value: given, placeholder: EXAMPLES[0], "aria-describedby": "command-help" });
  const help = el("p", { id: "command-help", class: "hint" }, "As in redis-cli. Your role decides which commands are yours.");
  const known = new Map();
  const past = [];
  let at = 0;

  line.addEventListener("input", () => {
    const found = known.get(line.value.trim().split(/\s+/)[0]?.toUpperCase());
    replace(help, found ? [el("code", {}, found.syntax.toUpperCase().startsWith(found.name) ? found.syntax : `${found.name} ${found.syntax}`), ` ${found.summary} ${found.role ? `Needs the role ${found.role}.` : "Needs no role."}`] : "As in redis-cli. Your role decides which commands are yours.");
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
      const answer = await api.post("v1/command", { argv_base64: splitWords(text).map(base64) });
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
    node: card(null,
      el("form", { class: "stack", on: { submit: (event) => {
        event.preventDefault();
        const text = line.value.trim();
        if (text === "") return;
        line.value = "";
        run(text);
      } } },
      el("div", { class: "field" }, el("label", { for: "command" }, "Command"), el("div", { class: "inline" }, line, el("button", { class: "primary" }, "Run")), help), list),
      el("div", { class: "row" }, el("small", {}, "For example:"), EXAMPLES.map((text) =>
        el("button", { type: "button", class: "example mono", on: { click: () => {
          line.value = text;
          line.dispatchEvent(new Event("input"));
          line.focus();
        } } }, text))),
      output),
    line,
    async open() {
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

/** Nothing for whoever runs the whole server; for others who they are, and what that is not enough for. */
async function notEnough(api) {
  const who = await api.get("v1/whoami");
  if (!who || (who.roles.includes("admin") && !who.namespace)) return null;
  const roles = who.roles.length > 0 ? `the role${who.roles.length > 1 ? "s" : ""} ${who.roles.join(", ")}` : "no role";
  return `You are ${who.name}, with ${roles}${who.namespace ? ` in the namespace ${who.namespace}` : ""}: it needs the role admin${who.namespace ? ", outside of namespaces" : ""}.`;
}

function slowLog(api) {
  const place = el("div", { class: "stack" }, loading("the slow log"));
  const load = async () => {
    try {
      const why = await notEnough(api);
      if (why) return void replace(place, empty("The slow log is not for you", `It shows what others asked, with their keys. ${why}`));
      const { slow } = await api.get("v1/slowlog?limit=100");
      replace(place, slow.length === 0
        ? empty("Nothing was slow", "Commands that take longer than slowlog-log-slower-than microseconds appear here.")
        : table("Slow commands", [
          { name: "Time", cell: (row) => clock(row.at_ms), head: true },
          { name: "Took", cell: (row) => time(row.took_seconds), class: "number" },
          { name: "Command", cell: (row) => shortened(row.argv.join(" ")), class: "whole" },
          { name: "Client", class: "whole", cell: (row) => `${row.client}${row.name ? ` (${row.name})` : ""}` },
        ], slow));
    } catch (error) {
      replace(place, trouble(error, load));
    }
  };
  return { node: card(null, el("div", { class: "row" }, el("button", { type: "button", on: { click: load } }, "Refresh")), place), open: load };
}

/** A command of which the beginning says enough; the rest opens. Keys can be thousands of letters long, and a hundred such rows
 * would be a page to scroll through for minutes. */
function shortened(text) {
  if (text.length <= LONG) return el("code", {}, text);
  return el("details", { class: "shortened" }, el("summary", {}, el("code", {}, `${text.slice(0, LONG - 20)}…`), " ", el("small", {}, `all ${count(text.length)} characters`)), el("pre", { tabindex: "0" }, text));
}

const LEVELS = { error: "bad", warn: "warn", info: "none", debug: "none", slow: "warn", alert: "bad", commands: "ok", filters: "ok" };

const named = (all, text) => `${all.slice(0, NAMED).map(text).join(" · ")}${all.length > NAMED ? ` · ${counted(all.length - NAMED, "other")}` : ""}`;

/** What a server did in the last second, by the names of its commands. */
export function commandsLine(commands) {
  const wrong = (command) => [[command.failed, "failed"], [command.rejected, "refused"]].filter(([number]) => number > 0).map(([number, word]) => `, ${count(number)} ${word}`).join("");
  return named(commands, (command) => `${command.name} ${count(command.calls)}${wrong(command)}`);
}

/** The same by the filters that were asked or added to: a function that is given what the stream tells and knows what it told
 * before. Nothing when nothing happened. */
export function filtersLine() {
  let before = null;
  return (filters) => {
    const now = new Map([...(before ?? []), ...filters.map((each) => [each.path, each])]);
    const moved = before === null ? [] : filters.flatMap((each) => {
      const was = before.get(each.path);
      const more = was && { name: each.name, lookups: each.lookups - was.lookups, spared: each.definitely_not - was.definitely_not, adds: each.adds - was.adds };
      return more && more.lookups + more.adds > 0 ? [more] : [];
    });
    before = now;
    return moved.length === 0 ? null : named(moved, ({ name, lookups, spared, adds }) =>
      `${name}: ${[lookups > 0 ? `${counted(lookups, "lookup")}, ${count(spared)} spared` : null, adds > 0 ? counted(adds, "add") : null].filter(Boolean).join(", ")}`);
  };
}

function tail(live, api) {
  const list = el("ul", { class: "tail", "aria-label": "Events", tabindex: "0" });
  const waiting = el("p", {}, "Waiting: commands, logins, snapshots, slow commands, warnings and alerts appear here as they happen.");
  const less = el("p", { hidden: true });
  const look = async () => {
    try {
      const why = await notEnough(api);
      if (!why) return;
      setText(waiting, "Waiting: filters that are asked or added to, and alerts, appear here as they happen.");
      setText(less, `Commands, logins, the log and slow commands are not told to you. ${why}`);
      less.hidden = false;
    } catch {
      // Of a lost line the page says so itself.
    }
  };
  let paused = false;
  const pause = el("button", { type: "button", "aria-pressed": "false", on: { click: () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    replace(pause, paused ? "Go on" : "Pause");
  } } }, "Pause");
  let withTraffic = true;
  const moved = filtersLine();
  const traffic = toggle("What was done each second", "Commands and filters by their names, from counters that the server keeps anyhow. No single command is followed, so no key is told.", true, (on) => {
    withTraffic = on;
    if (!on) list.querySelectorAll(".traffic").forEach((line) => line.remove());
  });
  const add = (at, level, text, more) => {
    if (paused) return;
    const isTraffic = level === "commands" || level === "filters";
    if (isTraffic && !withTraffic) return;
    waiting.hidden = true;
    list.prepend(el("li", { class: isTraffic ? "traffic" : null }, el("time", {}, clock(at)), pill(LEVELS[level] ?? "none", level), el("span", {}, text, more ? el("small", {}, ` ${more}`) : null)));
    if (isTraffic) [...list.querySelectorAll(".traffic")].slice(TRAFFIC).forEach((line) => line.remove());
    while (list.childElementCount > TAIL) list.lastElementChild.remove();
  };
  const ends = [
    live.on("work", ({ at_ms: at, commands }) => add(at, "commands", commandsLine(commands))),
    live.on("stats", ({ at_ms: at, filters }) => {
      const text = moved(filters);
      if (text) add(at, "filters", text);
    }),
    live.on("log", (entry) => add(Date.parse(entry.time), entry.level, entry.message, entry.event)),
    live.on("slow", (row) => add(row.at_ms, "slow", [`took ${time(row.took_seconds)}: `, shortened(row.argv.join(" "))], row.client)),
    live.on("alerts", (alerts) => alerts.forEach((alert) => add(Date.now(), "alert", alert.filter ? `${alert.filter}: ${alert.summary}` : alert.summary, alert.name))),
  ];
  return {
    node: card(null, el("div", { class: "row" }, pause, el("button", { type: "button", class: "quiet", on: { click: () => {
      replace(list);
      waiting.hidden = false;
    } } }, "Clear")), less, traffic.node, waiting, list),
    open: look,
    stop: () => ends.forEach((end) => end()),
  };
}
