// What several pages are made of: cards, figures, states, bars, tables, code to copy.

import { el, freshId, replace, setText } from "./dom.js";

/** A name that breaks behind its dots, dashes and the like, where it has no room. */
export function broken(name) {
  return name.split(/(?<=[_:./-])/).flatMap((piece, at) => (at === 0 ? piece : [el("wbr", {}), piece]));
}

/** The head of a page: its name, a sentence, and what stands at the right. */
export function head(title, sentence, ...right) {
  return el("div", { class: "page-head" },
    el("div", {}, el("h1", { tabindex: "-1" }, broken(title)), sentence ? el("p", { class: "lead" }, sentence) : null),
    right.length > 0 ? el("div", { class: "page-actions" }, right) : null);
}

/** A card with a title. */
export function card(title, ...children) {
  const id = freshId("card");
  return el("section", { class: "card", "aria-labelledby": title ? id : null }, title ? el("h2", { id }, title) : null, children);
}

/** A figure: label, value, a note below. The parts can be set while it stands. */
export function figure(label, note = "", extra = "") {
  const value = el("dd", { class: "value" }, "–");
  const below = el("dd", { class: "note" }, note);
  return { node: el("div", { class: `figure ${extra}` }, el("dt", {}, label), value, below), value, note: below };
}

/** Sets a figure while it stands; long values are written smaller. */
export function setFigure(part, value, note) {
  setText(part.value, value);
  part.value.classList.toggle("long", String(value).length > 9);
  setText(part.note, note);
}

const SIGNS = { ok: "✓", warn: "!", bad: "✕", none: "·" };

/** A state as a colour and a word: pill("warn", "suspicious"). */
export function pill(state, word, title) {
  return el("span", { class: `pill ${state}`, title }, el("span", { class: "sign", "aria-hidden": "true" }, SIGNS[state]), word);
}

/** How far something is, as a bar; the words for it stand beside it. */
export function bar(share, state = "") {
  const inner = el("span", { class: "bar-inner" });
  inner.style.width = `${Math.min(100, Math.max(0, (share || 0) * 100))}%`;
  return el("span", { class: `bar ${state}`, "aria-hidden": "true" }, inner);
}

/** Text to copy, with a button that says that it did. */
export function code(text, label = "") {
  const button = copyButton(() => text, label || text);
  // A long line breaks between the calls of a chain or the fields of an object rather than within a word, and not behind the
  // hyphens of an option.
  const held = (piece) => piece.split(/(?<=\s)(--?[\w-]+)/).map((word) => (word.startsWith("-") ? el("span", { class: "held" }, word) : word));
  const pieces = text.split(/(?=\.[a-z_]+\()|(?=::[A-Za-z])|(?<=,)(?=")/).flatMap((piece, at) => (at === 0 ? held(piece) : [el("wbr", {}), ...held(piece)]));
  return el("div", { class: "code" }, el("pre", {}, el("code", {}, pieces)), button);
}

/** A button that copies what `text` gives. */
export function copyButton(text, what = "", word = "Copy", look = "quiet") {
  const button = el("button", { type: "button", class: `copy ${look}`, "aria-label": what ? `${word}: ${what}` : null }, word);
  button.addEventListener("click", async () => {
    const done = await copy(text());
    replace(button, done ? "Copied" : "Select and copy");
    button.classList.toggle("done", done);
    toast(done ? "Copied to the clipboard." : "The browser did not allow copying: select the text and copy it by hand.");
    setTimeout(() => {
      replace(button, word);
      button.classList.remove("done");
    }, 1_600);
  });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without TLS there is no clipboard but the old one.
    const area = el("textarea", { class: "hidden", readonly: true, "aria-hidden": "true" }, text);
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** Says something at the edge of the page for a while; screen readers read it. */
export function toast(text, state = "") {
  const line = el("p", { class: `toast ${state}` }, text);
  document.querySelector(".toasts").append(line);
  setTimeout(() => line.remove(), 4_000);
}

/** What stands where nothing is there yet. */
export function empty(title, sentence, ...more) {
  return el("div", { class: "empty" }, el("h2", {}, title), el("p", {}, sentence), more);
}

/** What stands while something is on its way: nothing moves when it comes. */
export function loading(what) {
  return el("p", { class: "loading", role: "status" }, `Loading ${what}…`);
}

/** What went wrong, and what can be done. */
export function trouble(error, again) {
  const retry = again ? el("button", { type: "button", on: { click: again } }, "Try again") : null;
  return el("div", { class: "trouble", role: "alert" }, el("h2", {}, error.title ?? "That did not work"), el("p", {}, error.message), retry);
}

/** A choice of few: buttons of which one is pressed. */
export function choice(label, options, chosen, change) {
  const group = el("div", { class: "choice", role: "radiogroup", "aria-label": label });
  const name = freshId("choice");
  for (const [value, word, title] of options) {
    const input = el("input", { type: "radio", name, value, checked: value === chosen, on: { change: () => change(value) } });
    group.append(el("label", { title }, input, el("span", {}, word)));
  }
  return group;
}

/** A switch with a word and a sentence. */
export function toggle(label, note, on, change) {
  const input = el("input", { type: "checkbox", checked: on });
  input.addEventListener("change", () => change(input.checked));
  const node = el("label", { class: "toggle" }, input, el("span", {}, el("strong", {}, label), note ? el("small", {}, note) : null));
  return { node, input };
}

/** A table with a head of texts and rows of cells; `sort` makes heads into buttons. */
export function table(caption, columns, rows) {
  const cells = (row) => columns.map((column) => {
    const value = column.cell(row);
    return el(column.head ? "th" : "td", { class: column.class, scope: column.head ? "row" : null, "data-label": column.name }, value);
  });
  return el("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": caption },
    el("table", { class: "cards" }, el("caption", { class: "hidden" }, caption),
      el("thead", {}, el("tr", {}, columns.map((column) => el("th", { scope: "col", class: column.class }, column.name)))),
      el("tbody", {}, rows.map((row) => el("tr", { class: row.rowClass }, cells(row))))));
}
