// The dashboard of a gate, with a real one before a table of a thousand products.

import assert from "node:assert/strict";

import { told } from "./browsing.js";
import { keys } from "./talking.js";

export async function gate(browsing, { url, guarded, token }) {
  await browsing.visit(`${url}/`, "light", (page) => page.getByText("Nobody has asked yet").waitFor());
  for (const key of [...keys("sku-", 40), ...keys("absent-", 400)]) await fetch(`${url}/v1/products/${key}`);
  await browsing.everyView("gate", `${url}/`, "Gate", async (page) => {
    await page.locator(".funnel .step").first().waitFor();
    await page.locator("nav .pulse.live").waitFor({ state: "attached" });
  });
  await browsing.visit(`${url}/`, "light", async (page) => {
    const step = (name) => page.locator(`.funnel .step.${name} .number`);
    await step("filter").filter({ hasText: /^(39\d|400)/ }).waitFor();
    await step("source").filter({ hasText: /^40/ }).waitFor();
    await page.locator(".figure", { hasText: "Audit of" }).getByText("0 wrong").waitFor();
    // Figures move while it is looked at.
    for (const key of keys("gone-", 50)) await fetch(`${url}/v1/products/${key}`);
    await step("filter").filter({ hasText: /^4[45]\d/ }).waitFor();
    await page.getByLabel("Key", { exact: true }).fill("sku-7");
    await page.keyboard.press("Enter");
    await page.locator(".notice strong", { hasText: /(cache|source): 200/ }).waitFor();
    await page.getByLabel("Key", { exact: true }).fill("a/b %");
    await page.keyboard.press("Enter");
    await page.locator(".notice strong", { hasText: "absent-by-filter: 404" }).waitFor();
    const version = async () => Number(/version (\d+)/.exec(await page.locator(".figure", { hasText: "Filter" }).first().textContent())?.[1]);
    const before = await version();
    await page.getByRole("button", { name: "Rebuild now" }).click();
    await page.waitForFunction((least) => [...document.querySelectorAll(".figure .value")].some((each) => each.textContent === `version ${least}`), before + 1);
    await page.locator("td", { hasText: "in force" }).first().waitFor();
    await page.screenshot({ path: `${browsing.shots}/gate-explained.png`, fullPage: true });
  });
  told("gate: funnel, live figures, explanation, rebuild");
  await attack(browsing, url);
  await signIn(browsing, guarded, token);
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
    await page.screenshot({ path: `${browsing.shots}/gate-attacked.png`, fullPage: true });
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
