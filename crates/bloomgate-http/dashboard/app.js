// The frame: which page is shown, the navigation, the theme, the login, and the one stream of events that all pages share.

import { alertCount } from "./alerts.js";
import * as api from "./api.js";
import { el, replace, setText, svg } from "./dom.js";
import { clock, count } from "./format.js";
import { choice, head, loading, toast, trouble } from "./parts.js";
import { live } from "./live.js";

const ICONS = {
  overview: "M3 13h5v8H3zM10 3h5v18h-5zM17 9h4v12h-4z",
  filters: "M4 6h16M4 12h16M4 18h16",
  planner: "M4 20V10M10 20V4M16 20v-7M2 20h20",
  how: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM9.5 9.5a2.5 2.5 0 1 1 3.5 2.3c-.7.3-1 .8-1 1.7M12 16.8v.2",
  advice: "M9 18h6M10 21h4M12 3a6 6 0 0 0-3.6 10.8c.6.5.9 1.1 1 1.7h5.2c.1-.6.4-1.2 1-1.7A6 6 0 0 0 12 3z",
  gate: "M4 21V7l8-4 8 4v14M9 21v-8h6v8",
  workbench: "M4 5h16v14H4zM7.5 9.5l3 2.5-3 2.5M13 15h4",
};

/** Which pages there are, for whom, and where each is. */
const PAGES = [
  { name: "overview", title: "Overview", of: "server", load: () => import("./pages/overview.js") },
  { name: "gate", title: "Gate", of: "gate", load: () => import("./pages/gate.js") },
  { name: "filters", title: "Filters", of: "server", load: () => import("./pages/filters.js") },
  { name: "filter", title: "Filter", of: "server", within: "filters", load: () => import("./pages/filter.js") },
  { name: "advice", title: "Advice", of: "server", load: () => import("./pages/advice.js") },
  { name: "planner", title: "Planner", load: () => import("./pages/planner.js") },
  { name: "how", title: "How it works", load: () => import("./pages/how.js") },
  { name: "workbench", title: "Workbench", of: "server", load: () => import("./pages/workbench.js") },
];

const main = document.getElementById("main");
const navigation = document.getElementById("navigation");
const menu = document.querySelector(".menu");
let about = { process: "server", version: "", login_needed: false };
let shown = null;

/** What the address says: "#/filter?name=seen" is the page filter with its parameters. */
function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const home = about.process === "gate" ? "gate" : "overview";
  return { page: PAGES.find((page) => page.name === (path || home)), parameters: new URLSearchParams(query) };
}

let turn = 0;
async function show() {
  const mine = (turn += 1);
  const { page, parameters } = route();
  closeMenu();
  mark(page?.within ?? page?.name);
  if (!page) {
    leave();
    document.title = "Not found · Bloomgate";
    replace(main, head("There is no such page", `Nothing is at ${location.hash}. Take one of the pages that the navigation names.`),
      el("p", {}, el("a", { class: "button", href: "#/" }, "To the first page")));
    if (mine > 1) main.querySelector("h1").focus({ preventScroll: true });
    return;
  }
  // The same page with other parameters may know how to follow them without being drawn anew.
  if (shown?.name === page.name && shown.page.follow?.(parameters)) return;
  leave();
  document.title = `${page.title} · Bloomgate`;
  replace(main, loading(page.title.toLowerCase()));
  try {
    const module = await page.load();
    if (mine !== turn) return;
    const drawn = module.show({ api, live, about, parameters, rename });
    shown = { name: page.name, page: drawn };
    replace(main, drawn.node);
    // Where the reader was is gone: go on from the page's name, or from what the page was opened for. Not on the first page,
    // where nobody was anywhere yet.
    if (mine > 1) (drawn.focus ?? main.querySelector("h1"))?.focus({ preventScroll: true });
    scrollTo(0, 0);
  } catch (error) {
    if (mine === turn) replace(main, trouble({ title: "This page could not be drawn", message: error.message }, () => location.reload()));
  }
}

function leave() {
  shown?.page.stop?.();
  shown = null;
}

/** Another name for the page in the title bar, as of one filter. */
function rename(title) {
  document.title = `${title} · Bloomgate`;
}

const links = new Map();
const badge = el("span", { class: "badge", role: "img", hidden: true });
const menuBadge = el("span", { class: "badge", role: "img", hidden: true });
menu.append(menuBadge);
const pulse = el("span", { class: "pulse" }, "Connecting");
const version = el("span", {}, "");
const signOut = el("button", { type: "button", class: "quiet", hidden: true, on: { click: () => {
  api.setLogin(null);
  location.reload();
} } }, "Sign out");

function drawNavigation() {
  const here = PAGES.filter((page) => !page.within && (!page.of || page.of === about.process || (page.of === "gate" && about.process === "server")));
  replace(navigation, here.map((page) => {
    const link = el("a", { class: "to", href: `#/${page.name}` },
      svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: ICONS[page.name] })), page.title,
      page.name === (about.process === "gate" ? "gate" : "overview") ? badge : null);
    links.set(page.name, link);
    return link;
  }), el("div", { class: "foot" }, pulse, themeSwitch(), signOut, version));
  signOut.hidden = !api.hasLogin();
  setText(version, about.version ? `Bloomgate ${about.process} ${about.version}` : "");
}

function mark(name) {
  for (const [page, link] of links) {
    if (page === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function themeSwitch() {
  const now = document.documentElement.dataset.theme ?? "auto";
  return choice("Theme", [["auto", "Auto", "As the system says"], ["light", "Light"], ["dark", "Dark"]], now, (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("bloomgate-theme", theme);
    } catch {}
  });
}

function closeMenu() {
  navigation.classList.remove("open");
  menu.setAttribute("aria-expanded", "false");
}

// Addresses after # are pages here, so the link to this place is no address.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
menu.addEventListener("click", () => {
  const open = navigation.classList.toggle("open");
  menu.setAttribute("aria-expanded", String(open));
  if (open) navigation.querySelector("a")?.focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && navigation.classList.contains("open")) {
    closeMenu();
    menu.focus();
  }
  // As on many pages of lists: a slash leads to the field that searches.
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  const search = document.querySelector("input[type=search]");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey && search) {
    event.preventDefault();
    search.focus();
  }
});

/** Asks for a name and password, or a token; the page starts anew with it. */
function askLogin(wrong) {
  if (document.querySelector("dialog[open]")) return;
  const gate = about.process === "gate";
  const user = el("input", { type: "text", name: "user", autocomplete: "username", id: "login-user" });
  const password = el("input", { type: "password", name: "password", autocomplete: "current-password", id: "login-password", required: true });
  const dialog = el("dialog", { "aria-labelledby": "login-title" },
    el("form", { method: "dialog", on: { submit: (event) => {
      event.preventDefault();
      api.setLogin(gate ? api.bearer(password.value) : api.basic(user.value.trim() || "default", password.value));
      location.reload();
    } } },
    el("h2", { id: "login-title" }, "Sign in"),
    el("p", {}, wrong ? "That was not right, or it is not valid any more." : "This Bloomgate wants to know who asks. What you enter is kept for this tab alone."),
    gate ? null : el("div", { class: "field" }, el("label", { for: "login-user" }, "User"), user, el("span", { class: "hint" }, "Empty for the default user.")),
    el("div", { class: "field" }, el("label", { for: "login-password" }, gate ? "Token" : "Password"), password),
    el("div", { class: "row" }, el("button", { class: "primary" }, "Sign in"),
      el("button", { type: "button", class: "quiet", on: { click: () => dialog.close() } }, "Not now"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

const PULSE = { live: "Live", lost: "Connection lost", login: "Not signed in", connecting: "Connecting" };
const connection = document.querySelector(".connection");
let isLost = false;
live.on("line", (line) => {
  pulse.className = `pulse ${line}`;
  setText(pulse, PULSE[line] ?? line);
  if ((line === "lost") === isLost) return;
  // Said once, however often it is tried: on a phone the navigation is behind the menu, and figures that stand still are not.
  isLost = !isLost;
  document.body.classList.toggle("stale", isLost);
  replace(connection, isLost ? [
    el("p", {}, el("strong", {}, "Connection lost."), live.heard ? ` The figures are those of ${clock(live.heard)}.` : "", " Trying again by itself."),
    el("button", { type: "button", on: { click: live.again } }, "Try now")] : null);
  if (line === "live") back();
});

/** What answers again may be another version, with other pages. */
async function back() {
  toast("Connected again.");
  let now = about;
  try {
    now = await api.get("about.json");
  } catch {
    // Lost again: what comes back is looked at then.
  }
  if (now.version === about.version && now.process === about.process) return;
  replace(connection,
    el("p", {}, el("strong", {}, `This is Bloomgate ${now.process} ${now.version} now.`), ` The page is that of ${about.process} ${about.version}.`),
    el("button", { type: "button", class: "primary", on: { click: () => location.reload() } }, "Reload"));
}

live.on("alerts", (alerts) => {
  const firing = alertCount(alerts);
  // On a phone the navigation is behind the menu, and what is wrong is not.
  for (const each of [badge, menuBadge]) {
    each.hidden = firing === 0;
    setText(each, count(firing));
    each.setAttribute("aria-label", `${count(firing)} alerts firing`);
  }
});

async function start() {
  api.whenLoginIsNeeded(askLogin);
  replace(main, loading("the dashboard"));
  try {
    about = await api.get("about.json");
  } catch (error) {
    replace(main, trouble(error, () => location.reload()));
    return;
  }
  drawNavigation();
  live.start(about);
  addEventListener("hashchange", show);
  show();
}

start();
