// Elements, made without a line of HTML: whatever comes from outside becomes text.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "value" && "value" in element) element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...flat(children));
  return element;
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false).map((child) =>
    child instanceof Node ? child : document.createTextNode(String(child)));
}

/** An element: el("p", {class: "note"}, "text", child). Texts are text, never HTML. */
export const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** An element of SVG. */
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Puts other children in the place of those that are there. */
export function replace(element, ...children) {
  element.replaceChildren(...flat(children));
  return element;
}

/** Sets a text if it is another one: a screen reader and the layout hear of changes only. */
export function setText(element, text) {
  if (element.textContent !== String(text)) element.textContent = String(text);
  return element;
}

/** Calls `draw` when a value is another one than the last time: what is looked at, scrolled or selected stays as it is. */
export function onChange(draw) {
  let last = null;
  return (value) => {
    const text = JSON.stringify(value);
    if (text === last) return;
    last = text;
    draw(value);
  };
}

let lastId = 0;
/** An id that nothing else on the page has. */
export const freshId = (what) => `${what}-${(lastId += 1)}`;

/** Calls `work` once, a while after the last of many calls. */
export function debounced(work, milliseconds) {
  let timer = 0;
  const call = (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...values), milliseconds);
  };
  call.cancel = () => clearTimeout(timer);
  return call;
}

/** Whether things should stand still. */
export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
