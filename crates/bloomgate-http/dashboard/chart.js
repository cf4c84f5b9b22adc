// Charts as SVG: lines over axes with units, a cursor for pointer and keys, and the same in words.

import { el, freshId, replace, svg } from "./dom.js";
import { scale } from "./scale.js";

const MARGIN = { top: 26, right: 18, bottom: 38, left: 44 };
/** About the width of a character of the labels. */
const CHARACTER = 7;

/**
 * A chart that follows the width of its place. `draw(options)` draws it anew:
 *   title, words           what it is, and what it shows, for those who do not see it
 *   x, y                   {label, kind: "linear" | "log", range: [low, high], format}
 *   series                 [{name, points: [[x, y]], tone: 1 | 2 | 3, area, dashed}]
 *   marks                  [{x, y, label, low, high}]: points with a name, and an interval if there is one
 *   limit                  {y, label}: a dashed line across
 */
export function lineChart(height = 240) {
  const node = el("figure", { class: "chart" });
  const caption = el("figcaption", {});
  const stage = el("div", { class: "chart-stage" });
  stage.style.height = `${height}px`;
  const told = el("p", { class: "hidden", role: "status" });
  node.append(caption, stage, told);
  let options = null;
  let width = 0;
  const paint = () => {
    if (options && width > 0) replace(stage, picture(options, width, height, told));
  };
  const observer = new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now === width) return;
    width = now;
    paint();
  });
  observer.observe(stage);
  return {
    node,
    draw(next) {
      options = next;
      replace(caption, el("strong", {}, next.title), legend(next.series));
      paint();
    },
    stop: () => observer.disconnect(),
  };
}

function legend(series) {
  const named = series.filter((line) => line.name);
  if (named.length < 2) return null;
  return el("span", { class: "legend" }, named.map((line) =>
    el("span", { class: `key tone-${line.tone ?? 1}${line.dashed ? " dashed" : ""}` }, line.name)));
}

function picture(options, width, height, told) {
  const { x, y, series, marks = [], limit = null } = options;
  const inner = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
  const up = scale(y.kind, y.range, [inner.bottom, inner.top]);
  inner.left = Math.max(MARGIN.left, 16 + CHARACTER * Math.max(...up.ticks.map((tick) => y.format(tick).length)));
  const across = scale(x.kind, x.range, [inner.left, inner.right]);
  const clip = freshId("clip");
  const titleId = freshId("chart-title");
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", tabindex: "0", "aria-labelledby": titleId },
    svg("title", { id: titleId }, `${options.title}. ${options.words} Arrow keys read the values.`),
    svg("clipPath", { id: clip }, svg("rect", { x: inner.left, y: inner.top - 6, width: Math.max(0, inner.right - inner.left), height: inner.bottom - inner.top + 6 })));
  axes(root, { x, y, across, up, inner, width, height });
  if (limit) {
    const at = up.to(limit.y);
    root.append(svg("line", { class: "limit", x1: inner.left, x2: inner.right, y1: at, y2: at }),
      svg("text", { class: "limit-label", x: inner.right, y: at - 5, "text-anchor": "end" }, limit.label));
  }
  for (const line of series) {
    const places = line.points.filter(([, value]) => value !== null && Number.isFinite(value)).map(([at, value]) => [across.to(at), up.to(value)]);
    if (places.length === 0) continue;
    const path = places.map(([px, py], at) => `${at === 0 ? "M" : "L"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
    if (line.area) {
      const bottom = inner.bottom.toFixed(1);
      root.append(svg("path", { class: `area tone-${line.tone ?? 1}`, "clip-path": `url(#${clip})`, d: `${path}L${places.at(-1)[0].toFixed(1)} ${bottom}L${places[0][0].toFixed(1)} ${bottom}Z` }));
    }
    root.append(svg("path", { class: `line tone-${line.tone ?? 1}${line.dashed ? " dashed" : ""}`, "clip-path": `url(#${clip})`, d: path }));
  }
  for (const mark of marks) root.append(markOf(mark, across, up, inner));
  cursor(root, options, across, up, inner, told);
  return root;
}

function axes(root, { x, y, across, up, inner, width, height }) {
  for (const tick of up.ticks) {
    const at = up.to(tick);
    root.append(svg("line", { class: "grid", x1: inner.left, x2: inner.right, y1: at, y2: at }),
      svg("text", { class: "tick", x: inner.left - 8, y: at + 4, "text-anchor": "end" }, y.format(tick)));
  }
  let last = -Infinity;
  for (const tick of across.ticks) {
    const at = across.to(tick);
    const text = x.format(tick);
    // Labels keep apart.
    const half = (text.length * CHARACTER) / 2;
    if (at - half < last + 8 || at + half > width) continue;
    last = at + half;
    root.append(svg("line", { class: "tickmark", x1: at, x2: at, y1: inner.bottom, y2: inner.bottom + 4 }),
      svg("text", { class: "tick", x: at, y: inner.bottom + 17, "text-anchor": "middle" }, text));
  }
  root.append(svg("line", { class: "axis", x1: inner.left, x2: inner.right, y1: inner.bottom, y2: inner.bottom }),
    svg("text", { class: "axis-label", x: inner.right, y: height - 4, "text-anchor": "end" }, x.label));
  if (y.label) root.append(svg("text", { class: "axis-label", x: inner.left, y: 12 }, y.label));
}

function markOf(mark, across, up, inner) {
  const [px, py] = [across.to(mark.x), up.to(mark.y)];
  const group = svg("g", { class: "mark" });
  if (mark.low !== undefined && mark.high !== undefined) {
    const [low, high] = [up.to(mark.low), up.to(mark.high)];
    group.append(svg("line", { x1: px, x2: px, y1: Math.min(low, inner.bottom), y2: Math.max(high, inner.top) }));
  }
  const right = px < (inner.left + inner.right) / 2;
  group.append(svg("circle", { cx: px, cy: py, r: 5 }),
    svg("text", { x: px + (right ? 10 : -10), y: Math.max(inner.top + 12, py - 10), "text-anchor": right ? "start" : "end" }, mark.label));
  return group;
}

/** The values at one place, for the pointer and for the arrow keys. */
function cursor(root, { x, y, series }, across, up, inner, told) {
  const main = series.reduce((longest, line) => (line.points.length > longest.points.length ? line : longest), series[0]);
  if (!main || main.points.length < 2) return;
  const group = svg("g", { class: "cursor", visibility: "hidden" });
  const line = svg("line", { y1: inner.top, y2: inner.bottom });
  const text = svg("text", { y: inner.top + 10 });
  group.append(line, text);
  root.append(group);
  let at = -1;
  const show = (index, aloud) => {
    at = Math.max(0, Math.min(main.points.length - 1, index));
    const [value] = main.points[at];
    const px = across.to(value);
    const words = series.map((each) => {
      const point = nearest(each.points, value);
      return point && point[1] !== null ? `${each.name ? `${each.name} ` : ""}${y.format(point[1])}` : null;
    }).filter(Boolean);
    const said = `${x.format(value)}: ${words.join(", ")}`;
    const right = px < (inner.left + inner.right) / 2;
    line.setAttribute("x1", px);
    line.setAttribute("x2", px);
    text.setAttribute("x", px + (right ? 8 : -8));
    text.setAttribute("text-anchor", right ? "start" : "end");
    text.textContent = said;
    group.setAttribute("visibility", "visible");
    if (aloud) told.textContent = said;
  };
  const hide = () => group.setAttribute("visibility", "hidden");
  root.addEventListener("pointermove", (event) => {
    const px = event.clientX - root.getBoundingClientRect().left;
    let best = 0;
    main.points.forEach(([value], index) => {
      if (Math.abs(across.to(value) - px) < Math.abs(across.to(main.points[best][0]) - px)) best = index;
    });
    show(best, false);
  });
  root.addEventListener("pointerleave", hide);
  root.addEventListener("blur", hide);
  root.addEventListener("keydown", (event) => {
    const step = Math.max(1, Math.round(main.points.length / 40));
    const next = { ArrowRight: at + step, ArrowLeft: at - step, Home: 0, End: main.points.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    show(next, true);
  });
}

function nearest(points, value) {
  return points.reduce((best, point) => (!best || Math.abs(point[0] - value) < Math.abs(best[0] - value) ? point : best), null);
}

/** A small line without axes, for rows and cards; the number beside it says the rest. */
export function spark(points, width = 120, height = 32) {
  const most = Math.max(...points, 1e-9);
  const path = points.map((value, at) =>
    `${at === 0 ? "M" : "L"}${((at / Math.max(1, points.length - 1)) * width).toFixed(1)} ${(height - 2 - (value / most) * (height - 4)).toFixed(1)}`).join("");
  return svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true", preserveAspectRatio: "none" },
    svg("path", { d: path }));
}

/** Cells from light to dark, row by row, with what they mean in words. */
export function heatMap(values, { title, words, low, high, format }) {
  const columns = values.length % 32 === 0 ? 32 : Math.ceil(Math.sqrt(values.length * 2.4));
  const rows = Math.ceil(values.length / columns);
  const size = 16;
  const span = high - low || 1;
  const titleId = freshId("heat");
  const cells = values.map((value, at) => {
    const share = Math.min(1, Math.max(0, (value - low) / span));
    const cell = svg("rect", {
      x: (at % columns) * size + 1, y: Math.floor(at / columns) * size + 1, width: size - 2, height: size - 2, rx: 2.5,
      class: "heat-cell", "fill-opacity": (0.06 + 0.94 * share).toFixed(3),
    }, svg("title", {}, `Stretch ${at + 1}: ${format(value)}`));
    return cell;
  });
  return svg("svg", { class: "heat", viewBox: `0 0 ${columns * size} ${rows * size}`, role: "img", "aria-labelledby": titleId },
    svg("title", { id: titleId }, `${title}. ${words}`), cells);
}

/** Bars that stand beside each other, and what the first and the last are: [{label, share, title}]. */
export function histogram(bars, { title, words, height = 110 }) {
  const width = Math.max(1, bars.length) * 14;
  const most = Math.max(...bars.map((bar) => bar.share), 1e-9);
  const titleId = freshId("histogram");
  return el("div", {},
    svg("svg", { class: "histogram", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-labelledby": titleId },
      svg("title", { id: titleId }, `${title}. ${words}`),
      bars.map((bar, at) => {
        const tall = (bar.share / most) * (height - 4);
        return svg("rect", { class: "column", x: at * 14 + 1.5, y: height - tall, width: 11, height: Math.max(bar.share > 0 ? 1 : 0, tall), rx: 2 }, svg("title", {}, bar.title));
      })),
    bars.length > 1 ? el("div", { class: "ends", "aria-hidden": "true" }, el("span", {}, bars[0].label), el("span", {}, bars.at(-1).label)) : null);
}
