// The dashboard of a gate, with a real one before a table of a thousand products.

import assert from "node:assert/strict";

import { told } from "./browsing.js";
import { rate } from "./dashboard/format.js";
import { json, keys } from "./talking.js";

export async function gate(browsing, { url, guarded, token, many, wronged }) {
  await firstCommand(browsing, url, "products/no-such-key");
  for (const key of [...keys("sku-", 40), ...keys("absent-", 400)]) await fetch(`${url}/v1/products/${key}`);
  await browsing.everyView("gate", `${url}/`, "Gate", async (page) => {
    await page.locator(".funnel .step").first().waitFor();
    await page.locator("nav .pulse.live").waitFor({ state: "attached" });
  });
  await browsing.visit(`${url}/`, "light", async (page) => {
    const step = (name) => page.locator(`.funnel .step.${name} .number`);
    await step("filter").filter({ hasText: /^(39\d|40[01])/ }).waitFor();
    await step("source").filter({ hasText: /^40/ }).waitFor();
    await measuredRate(page, `${url}/stats`, page.locator(".figure", { hasText: "False positives" }), 400);
    const audit = page.locator(".figure", { hasText: "Audit of" });
    await audit.getByText("0 wrong").waitFor();
    await audit.getByText(/of [1-9]\d* checked at the source/).waitFor();
    // Figures move while it is looked at.
    for (const key of keys("gone-", 50)) await fetch(`${url}/v1/products/${key}`);
    await step("filter").filter({ hasText: /^4[45]\d/ }).waitFor();
    await page.getByLabel("Key", { exact: true }).fill("sku-7");
    await page.keyboard.press("Enter");
    await page.locator(".notice strong", { hasText: /(cache|source): 200/ }).waitFor();
    await page.getByLabel("Key", { exact: true }).fill("a/b %");
    await page.keyboard.press("Enter");
    await page.locator(".notice strong", { hasText: "absent-by-filter: 404" }).waitFor();
    const version = async () => Number(/^version (\d+)$/.exec(await page.locator(".figure", { hasText: "Filter" }).first().locator(".value").textContent())?.[1]);
    const before = await version();
    await page.getByRole("button", { name: "Rebuild now" }).click();
    await page.waitForFunction((least) => [...document.querySelectorAll(".figure .value")].some((each) => each.textContent === `version ${least}`), before + 1);
    await page.locator("td", { hasText: "in force" }).first().waitFor();
    await page.getByText(/The filter was built .*; one is due every 1\sd\./).waitFor();
    await browsing.picture(page, "gate-explained");
  });
  told("gate: funnel, live figures, the rate with its interval, explanation, rebuild");
  await alerts(browsing, wronged);
  await tenants(browsing, many);
  await attack(browsing, url);
  await signIn(browsing, guarded, token);
}

/** An empty page has a command to begin with, which is reached and copied without a mouse and does what the page says. */
async function firstCommand(browsing, url, path) {
  await browsing.everyView("gate-empty", `${url}/`, "Gate", (page) => page.getByText("Nobody has asked yet").waitFor());
  await browsing.visit(`${url}/`, "light", async (page) => {
    await page.getByText("Nobody has asked yet").waitFor();
    const copy = page.getByRole("button", { name: "Copy: First command" });
    await copy.waitFor();
    // Figures come every second, and leave the focus where it is.
    for (let at = 0; at < 60 && !(await copy.evaluate((each) => each === document.activeElement)); at += 1) await page.keyboard.press("Tab");
    await page.waitForTimeout(2_500);
    assert.ok(await copy.evaluate((each) => each === document.activeElement), "Tab reaches the button, and it keeps the focus");
    await page.keyboard.press("Enter");
    await page.locator(".toast", { hasText: "Copied" }).waitFor();
    const command = await page.evaluate(() => navigator.clipboard.readText());
    assert.equal(command, `curl -i ${url}/v1/${path}`);
    assert.equal((await fetch(command.split(" ").at(-1))).status, 404);
    await page.locator(".funnel .step.filter .number").filter({ hasText: /^1/ }).waitFor();
  });
  told("gate: a first command to copy, by keyboard");
}

/** The share of false positives among true negatives, with its interval, as /stats has it. */
async function measuredRate(page, stats, figure, least) {
  const { measured } = await json(stats);
  const [low, high] = measured.interval;
  assert.ok(measured.absent_lookups >= least, `${measured.absent_lookups} true negatives`);
  assert.ok(low <= measured.false_positive_rate && measured.false_positive_rate <= high && low < high, JSON.stringify(measured));
  await figure.locator(".value").filter({ hasText: rate(measured.false_positive_rate) }).waitFor();
  const note = await figure.locator(".note").textContent();
  assert.match(note, /^99 %: .* to .*%, over [\d,]+ true negatives/);
  assert.ok(note.startsWith(`99 %: ${rate(low)} to ${rate(high)}, over ${measured.absent_lookups} true negatives`), `${note}: ${JSON.stringify(measured)}`);
}

/** A row was written past this gate: its "no" is wrong, an audit finds it, and the page tells while it is looked at. */
async function alerts(browsing, url) {
  await browsing.visit(`${url}/`, "light", async (page) => {
    const card = page.locator(".card", { has: page.getByRole("heading", { name: "Alerts" }) });
    await card.getByText("No alert is firing.").waitFor();
    assert.deepEqual((await json(`${url}/alerts`)).alerts, []);
    assert.equal((await fetch(`${url}/v1/products/past-the-gate`)).status, 404);
    await card.locator(".notice.bad", { hasText: "it has said no once for a key that the source has" }).waitFor();
    await page.locator("nav .badge", { hasText: "1" }).waitFor();
    const [told] = (await json(`${url}/alerts`)).alerts;
    assert.deepEqual([told.name, told.severity, told.runbook], ["BloomgateWrongNo", "critical", "/runbook#wrong-no"]);
    await browsing.picture(page, "gate-alert");
    await card.getByRole("link", { name: "What to do about BloomgateWrongNo" }).click();
    await page.locator("h2#wrong-no").waitFor();
    assert.equal(page.url(), `${url}/runbook#wrong-no`);
    assert.ok(await page.locator("h2#wrong-no").evaluate((each) => each.getBoundingClientRect().top < innerHeight), "the section is in sight");
  });
  await browsing.everyView("runbook", `${url}/runbook`, "Runbook", async (page) => {
    const links = await page.getByRole("navigation", { name: "Sections" }).getByRole("link").count();
    assert.ok(links >= 12 && links === (await page.locator("h2").count()), `${links} links`);
  });
  told("gate: an alert that comes while one looks, and its section of the runbook");
}

async function tenants(browsing, url) {
  for (const key of [...keys("sku-", 20), ...keys("absent-", 90)]) await fetch(`${url}/v1/shelves/north/${key}`);
  for (const key of keys("absent-", 30)) await fetch(`${url}/v1/shelves/south/${key}`);
  await browsing.everyView("gate-tenants", `${url}/`, "Gate", async (page) => {
    const rows = page.getByRole("region", { name: "Tenants with the most lookups" }).locator("tbody tr");
    await rows.first().waitFor();
    const texts = await rows.allTextContents();
    assert.ok(/^north.*ready.*110/.test(texts[0]) && /^south.*ready.*30/.test(texts[1]), texts.join("\n"));
  });
  await browsing.visit(`${url}/`, "light", async (page) => {
    await page.getByLabel("Tenant", { exact: true }).fill("south");
    await page.getByLabel("Key", { exact: true }).fill("sku-7");
    await page.keyboard.press("Enter");
    await page.locator(".notice strong", { hasText: /(cache|source): 200/ }).waitFor();
  });
  await oneTenant(browsing, url);
  told("gate: tenants, a key of one of them, and all figures of one");
}

async function oneTenant(browsing, url) {
  const cardOf = (page, name) => page.locator(".card", { has: page.getByRole("heading", { name: `Tenant ${name}`, exact: true }) });
  await browsing.everyView("gate-tenant", `${url}/#/gate?tenant=north`, "Gate", async (page) => {
    await cardOf(page, "north").locator(".funnel .step").first().waitFor();
  });
  await browsing.visit(`${url}/`, "light", async (page) => {
    const busiest = page.getByRole("region", { name: "Tenants with the most lookups" });
    await busiest.getByRole("link", { name: "north" }).click();
    const north = cardOf(page, "north");
    await north.locator(".funnel .step.filter .number").filter({ hasText: /^(8\d|90)/ }).waitFor();
    await north.locator(".funnel .step.source .number").filter({ hasText: /^20/ }).waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Tenant north");
    await measuredRate(page, `${url}/stats/north`, north.locator(".figure", { hasText: "False positives" }), 90);
    await north.locator(".figure", { hasText: "Audit of" }).getByText(/checked at the source/).waitFor();
    // Its own rebuild, in its own history and in that of all.
    await north.locator(".figure", { hasText: "Filter" }).getByText("version 1", { exact: true }).waitFor();
    await north.getByRole("button", { name: "Rebuild now of north" }).click();
    await north.locator(".figure", { hasText: "Filter" }).getByText("version 2", { exact: true }).waitFor();
    await north.getByRole("region", { name: "Rebuilds, the newest first" }).locator("tbody tr").nth(1).waitFor();
    const all = page.locator(".card", { has: page.getByRole("heading", { name: "Rebuilds", exact: true }) });
    const rows = all.locator("tbody tr");
    await rows.filter({ hasText: "north" }).filter({ hasText: "asked" }).filter({ hasText: "in force" }).waitFor();
    assert.match(await rows.last().textContent(), /all.*not ready/);
    // Any tenant by its name, and its figures move while they are looked at.
    await page.getByLabel("Look at one tenant").fill("south");
    await page.keyboard.press("Enter");
    const south = cardOf(page, "south");
    await south.locator(".funnel .step.filter .number").filter({ hasText: /^(2\d|30)/ }).waitFor();
    for (const key of keys("gone-", 60)) await fetch(`${url}/v1/shelves/south/${key}`);
    await south.locator(".funnel .step.filter .number").filter({ hasText: /^(8\d|90)/ }).waitFor();
    await page.getByLabel("Look at one tenant").fill("west");
    await page.keyboard.press("Enter");
    await cardOf(page, "west").getByText("Nobody has asked yet").waitFor();
    await cardOf(page, "west").getByText(`${url}/v1/shelves/west/no-such-key`).waitFor();
    await page.getByRole("link", { name: "All tenants" }).click();
    await page.getByRole("heading", { name: "One tenant", exact: true }).waitFor();
  });
  await browsing.visit(`${url}/#/gate?tenant=nobody`, "light", (page) => page.getByText("no tenant of this name is known").waitFor(), { allowed: [/404/] });
}

async function attack(browsing, url) {
  await browsing.visit(`${url}/`, "light", async (page) => {
    await page.getByRole("radio", { name: "20 k" }).check({ force: true });
    await page.getByRole("button", { name: "Start the attack" }).click();
    await page.getByText("under way").first().waitFor();
    const card = page.locator(".card", { hasText: "The attack it is for" });
    await card.locator("tr", { hasText: "filter behind RESP" }).locator(".pill.ok", { hasText: "0" }).waitFor({ timeout: 240_000 });
    const reached = async (front) => Number((await card.locator("tr", { has: page.getByRole("rowheader", { name: front, exact: true }) }).locator("td").first().textContent()).replaceAll(",", ""));
    const [nothing, behind] = [await reached("Nothing"), await reached("The gate")];
    assert.ok(nothing > 15_000 && behind < nothing / 5, `${nothing} reached the database behind nothing, ${behind} behind the gate`);
    await browsing.picture(page, "gate-attacked");
    // Begun again, it can be stopped.
    await page.getByRole("radio", { name: "400 k" }).check({ force: true });
    await page.getByRole("button", { name: "Start the attack" }).click();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByText("it was stopped").waitFor();
  });
  told("gate: the attack, watched and stopped");
}

async function signIn(browsing, url, token) {
  await browsing.visit(`${url}/`, "light", async (page) => {
    await page.getByRole("dialog", { name: "Sign in" }).waitFor();
    await page.getByLabel("Token").fill(token);
    await page.keyboard.press("Enter");
    await page.getByText("Nobody has asked yet").waitFor();
    // Of the role read: what needs admin is refused, and the page says so.
    await page.getByRole("button", { name: "Rebuild now" }).click();
    await page.locator(".toast", { hasText: /not allowed|role/ }).waitFor();
  }, { allowed: [/401/, /403/] });
  told("gate: a token, and what it may not do");
}
