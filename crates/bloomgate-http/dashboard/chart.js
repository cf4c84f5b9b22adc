// Charts as SVG: lines over axes with units, a cursor for pointer and keys, and the same in words.

import { el, freshId, replace, svg } from "./dom.js";
import { scale } from "./scale.js";

const MARGIN = { top: 26, right: 18, bottom: 38, left: 44 };
/** About the width of a character of the labels. */
const CHARACTER = 7;

/**
 * A chart that follows the width of its place. `draw(options)` draws it anew:
 *   title, words           what it is, and what it shows, for those who do not see it
 *   x, y                   {label, kind: "linear" | "log", range: [low, high], format}: one format for ticks, marks and cursor
 *   series                 [{name, points: [[x, y]], tone: 1 | 2 | 3, area, dashed}]
 *   marks                  [{x, y, label, low, high}]: points with a name, and an interval if there is one
 *   limit                  {y, label}: a dashed line across
 *   waiting                what stands there as long as there is no line
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
  if (limit) root.append(svg("line", { class: "limit", x1: inner.left, x2: inner.right, y1: up.to(limit.y), y2: up.to(limit.y) }));
  // What words are kept away from: points of the curves, close to each other.
  const curves = [];
  for (const line of series) {
    const places = line.points.filter(([, value]) => value !== null && Number.isFinite(value)).map(([at, value]) => [across.to(at), up.to(value)]);
    if (places.length === 0) continue;
    curves.push(...close(places));
    const path = places.map(([px, py], at) => `${at === 0 ? "M" : "L"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
    if (line.area) {
      const bottom = inner.bottom.toFixed(1);
      root.append(svg("path", { class: `area tone-${line.tone ?? 1}`, "clip-path": `url(#${clip})`, d: `${path}L${places.at(-1)[0].toFixed(1)} ${bottom}L${places[0][0].toFixed(1)} ${bottom}Z` }));
    }
    root.append(svg("path", { class: `line tone-${line.tone ?? 1}${line.dashed ? " dashed" : ""}`, "clip-path": `url(#${clip})`, d: path }));
  }
  if (options.waiting && series.every((line) => line.points.length < 2)) {
    root.append(svg("text", { x: (inner.left + inner.right) / 2, y: (inner.top + inner.bottom) / 2, "text-anchor": "middle" }, options.waiting));
  }
  const dots = marks.map((mark) => ({ ...mark, px: across.to(mark.x), py: up.to(mark.y) }));
  for (const dot of dots) root.append(dotOf(dot, up, inner));
  const words = [
    ...dots.map(({ label, px, py }) => ({ label, class: "mark-label", wide: label.length * (CHARACTER + 1), at: besides(px, py, inner.left) })),
    ...(limit ? [{ label: limit.label, class: "limit-label", wide: limit.label.length * CHARACTER, at: along(up.to(limit.y), inner) }] : []),
  ];
  // The other label's line and the dots are in the way too.
  const taken = dots.map(({ px, py }) => ({ left: px - 7, right: px + 7, top: py - 7, bottom: py + 7 }));
  for (const word of words) {
    const { x: wx, y: wy, anchor, box } = freest(word, curves, taken, inner, limit && word.class === "mark-label" ? up.to(limit.y) : null);
    taken.push(box);
    root.append(svg("text", { class: word.class, x: wx, y: wy, "text-anchor": anchor }, word.label));
  }
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

function dotOf({ px, py, low, high }, up, inner) {
  const group = svg("g", { class: "mark" });
  if (low !== undefined && high !== undefined) {
    group.append(svg("line", { x1: px, x2: px, y1: Math.min(up.to(low), inner.bottom), y2: Math.max(up.to(high), inner.top) }));
  }
  group.append(svg("circle", { cx: px, cy: py, r: 5 }));
  return group;
}

/** Points of a curve that are a few pixels apart. */
function close(places) {
  return places.flatMap(([px, py], at) => {
    const [nx, ny] = places[at + 1] ?? [px, py];
    const steps = Math.min(200, Math.max(1, Math.ceil(Math.hypot(nx - px, ny - py) / 4)));
    return Array.from({ length: steps }, (_, step) => [px + ((nx - px) * step) / steps, py + ((ny - py) * step) / steps]);
  });
}

/** Where the words of a dot may stand: curves here rise, so at the left above it and at the right below it there is most room. */
const besides = (px, py, left) => [[px - 10, py - 10, "end"], [px + 10, py + 18, "start"], [px + 10, py - 10, "start"], [px - 10, py + 18, "end"], [px, py - 14, "middle"], [px, py + 24, "middle"], [px + 10, py - 34, "start"], [px - 10, py - 34, "end"], [left + 6, py - 34, "start"], [left + 6, py - 58, "start"]];

/** Where those of a line across may: at its ends and in its middle, above and below it. */
const along = (py, { left, right }) => [py - 6, py + 16].flatMap((y) => [[right - 2, y, "end"], [left + 6, y, "start"], [(left + right) / 2, y, "middle"], [left + (right - left) / 4, y, "middle"], [right - (right - left) / 4, y, "middle"]]);

/** The place at which words cover least of what is drawn; of equal ones the first. */
function freest({ wide, at }, curves, taken, inner, line) {
  let best = null;
  for (const [x, y, anchor] of at) {
    const left = anchor === "start" ? x : anchor === "end" ? x - wide : x - wide / 2;
    const box = { left, right: left + wide, top: y - 12, bottom: y + 4 };
    const outside = Math.max(0, inner.left - box.left) + Math.max(0, box.right - inner.right) + Math.max(0, inner.top - 8 - box.top) + Math.max(0, box.bottom - inner.bottom);
    const over = taken.filter((other) => box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom).length;
    const crossed = curves.filter(([px, py]) => px > box.left - 3 && px < box.right + 3 && py > box.top - 1 && py < box.bottom + 1).length;
    const cost = outside * 10 + over * 500 + crossed * 5 + (line !== null && line > box.top && line < box.bottom ? 60 : 0);
    if (!best || cost < best.cost) best = { cost, x, y, anchor, box };
  }
  return best;
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
