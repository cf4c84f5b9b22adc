// `bloomgate serve --demo`: whoever opens it sees every chart move, without doing anything.

import assert from "node:assert/strict";

import { told } from "./browsing.js";
import { json } from "./talking.js";

/** Milliseconds between two looks, and how long something may take to be another one. */
const BETWEEN = 500;
const PATIENCE = 60_000;

/** Looks until what `read` finds is something, and then until it is something else. */
async function moves(what, read) {
  const until = Date.now() + PATIENCE;
  let first = null;
  for (;;) {
    const now = JSON.stringify(await read());
    if (first === null) first = /^(null|""|\[\])$/.test(now) ? null : now;
    else if (now !== first) return;
    assert.ok(Date.now() < until, `${what}: nothing moves: ${now.slice(0, 200)}`);
    await new Promise((resolve) => setTimeout(resolve, BETWEEN));
  }
}

/** What a chart draws: its lines, its marks, the cells of a map, the columns of a histogram. */
const drawn = (page, selector, attributes = ["d"]) => () =>
  page.locator(selector).evaluateAll((all, names) => all.flatMap((each) => names.map((name) => each.getAttribute(name))), attributes);
const text = (page, selector) => () => page.locator(selector).allTextContents();
const figure = (page, name) => () => page.locator(".figure", { has: page.locator("dt", { hasText: name }) }).locator("dd").allTextContents();

export async function demo(browsing, { url, gate }) {
  await browsing.visit(`${url}/#/overview`, "light", async (page) => {
    await moves("overview: lookups spared", text(page, ".hero .value"));
    await moves("overview: the curve of lookups", drawn(page, ".hero svg .line"));
    await moves("overview: operations a second", figure(page, "Operations"));
    await page.locator(".notice", { hasText: "mail:suppressed" }).first().waitFor();
    await browsing.picture(page, "demo-overview");
  });
  await browsing.visit(`${url}/#/filters`, "light", async (page) => {
    await page.locator("tbody tr").nth(13).waitFor();
    await moves("filters: items", text(page, "td.capacity"));
    await page.locator("td.forecast", { hasText: /full in \d+\s(days|h)/ }).first().waitFor();
    await browsing.picture(page, "demo-filters");
  });
  const { filters } = await json(`${url}/v1/filters?sort=growth&order=desc&limit=100`);
  const grown = filters.find((filter) => filter.name === "users");
  await browsing.visit(`${url}/#/filter?path=${encodeURIComponent(grown.path)}`, "light", async (page) => {
    await page.locator("svg .mark circle").first().waitFor();
    await moves("filter: items", figure(page, "Items"));
    await moves("filter: you are here", drawn(page, "svg .mark circle", ["cx", "cy"]));
    await moves("filter: its layers", text(page, ".stage"));
    await moves("filter: its heat map", drawn(page, ".heat-cell", ["fill-opacity"]));
    await moves("filter: its histogram", drawn(page, ".column", ["y", "height"]));
    await browsing.picture(page, "demo-filter");
  });
  const ring = filters.find((filter) => filter.kind === "rotating");
  await browsing.visit(`${url}/#/filter?path=${encodeURIComponent(ring.path)}`, "light", async (page) => {
    await moves("filter: its generations", text(page, ".generation"));
  });
  await browsing.visit(`${url}/#/workbench`, "light", async (page) => {
    await page.getByRole("radio", { name: "Live tail" }).check({ force: true });
    await moves("workbench: what was done each second", text(page, ".tail li.traffic"));
    await page.locator(".tail li.traffic", { hasText: /EXISTS \d/ }).first().waitFor();
    await browsing.picture(page, "demo-tail");
  });
  told("demo: overview, filters, one filter, the tail: all move by themselves");
  await browsing.visit(`${gate}/#/gate`, "light", async (page) => {
    await moves("gate: the funnel", text(page, ".funnel .step .number"));
    await moves("gate: its bars", () => page.locator(".funnel .track span").evaluateAll((all) => all.map((each) => each.style.width)));
    await moves("gate: the curve of requests", drawn(page, "svg .line"));
    for (const name of ["Kept from the source", "False positives", "Audit of", "At the source"]) await moves(`gate: ${name}`, figure(page, name));
    const rebuilds = page.getByRole("region", { name: "Rebuilds, the newest first" }).locator("tbody tr");
    await rebuilds.first().waitFor();
    const before = await rebuilds.count();
    await page.getByRole("button", { name: "Rebuild now" }).click();
    await rebuilds.nth(before).waitFor();
    await browsing.picture(page, "demo-gate");
  });
  told("demo: the gate's funnel, audit and history move");
}
