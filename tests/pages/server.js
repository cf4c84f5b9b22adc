// The dashboard of a server, with a real one: empty, with a few filters of every kind, with a thousand, behind a password.

import assert from "node:assert/strict";

import { told } from "./browsing.js";
import { json, keys, resp } from "./talking.js";

/** A name that a page must show as it is, and not run. */
const EVIL = "<img src=x onerror=alert(1)>";

export async function server(browsing, { url, port, guarded, password }) {
  await nothingYet(browsing, url);
  await fill(url, port);
  await everyPage(browsing, url);
  await overviewMoves(browsing, url, port);
  await oneFilter(browsing, url);
  await advice(browsing, url);
  await workbench(browsing, url);
  await manyFilters(browsing, url, port);
  await signIn(browsing, guarded, password);
}

async function nothingYet(browsing, url) {
  const first = (page) => page.getByText("No filter yet").waitFor();
  await browsing.everyView("empty-overview", `${url}/`, "Overview", first);
  await browsing.everyView("empty-filters", `${url}/#/filters`, "Filters", first);
  await browsing.visit(`${url}/#/overview`, "light", async (page) => {
    await first(page);
    await page.getByRole("button", { name: "Copy: First command" }).click();
    await page.getByRole("button", { name: "Copy: First command" }).filter({ hasText: "Copied" }).waitFor();
    const line = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(line, /^redis-cli -p [1-9]\d+ BF\.ADD visitors alice$/);
  });
  told("empty: a first command that can be copied");
}

async function fill(url, port) {
  await resp(port, [
    "BF.RESERVE crawler:urls 0.01 1000",
    ...chunks(keys("https://example.org/", 5_000)).map((part) => `BF.MADD crawler:urls ${part.join(" ")}`),
    "BG.CREATE shop:skus KIND blocked CAPACITY 100000 RATE 0.001",
    ...chunks(keys("sku-", 40_000)).map((part) => `BG.ADD shop:skus ${part.join(" ")}`),
    "BG.CREATE visits KIND rotating CAPACITY 10000 RATE 0.01 WINDOW 3600 GENERATIONS 4",
    `BG.ADD visits ${keys("visitor-", 500).join(" ")}`,
    "BG.CREATE carts KIND counting CAPACITY 1000 RATE 0.01",
    `BG.ADD carts ${keys("cart-", 300).join(" ")}`,
    "CF.RESERVE sessions 10000 RATE 0.001",
    `CF.INSERT sessions ITEMS ${keys("session-", 900).join(" ")}`,
    "BG.CREATE overfull KIND blocked CAPACITY 1000 RATE 0.01 ONFULL goon",
    ...chunks(keys("too-many-", 3_000)).map((part) => `BG.ADD overfull ${part.join(" ")}`),
    "BG.CREATE public KIND classic CAPACITY 100000 RATE 0.01 HASH xxh3",
    `BG.ADD public ${keys("p-", 200).join(" ")}`,
    `BF.ADD "${EVIL}" alice`,
    `BF.MEXISTS crawler:urls ${keys("absent-", 400).join(" ")}`,
    `BG.EXISTS shop:skus ${keys("absent-", 400).join(" ")} ${keys("sku-", 100).join(" ")}`,
  ]);
  const { total } = await json(`${url}/v1/filters?limit=1`);
  assert.equal(total, 8);
}

function chunks(all, size = 500) {
  return Array.from({ length: Math.ceil(all.length / size) }, (_, at) => all.slice(at * size, (at + 1) * size));
}

const link = (name) => `#/filter?path=${encodeURIComponent(`/v1/filters/${encodeURIComponent(name)}`)}`;

async function everyPage(browsing, url) {
  await browsing.everyView("overview", `${url}/#/overview`, "Overview", async (page) => {
    await page.locator(".hero .value", { hasText: /[1-9]/ }).waitFor();
    await page.locator("nav .pulse.live").waitFor({ state: "attached" });
  });
  await browsing.everyView("filters", `${url}/#/filters`, "Filters", (page) => page.locator("tbody tr").nth(7).waitFor());
  for (const name of ["crawler:urls", "visits", "shop:skus", "sessions"]) {
    await browsing.everyView(`filter-${name.replace(":", "-")}`, `${url}/${link(name)}`, name, (page) => page.getByText("How to make it again").waitFor());
  }
  await browsing.everyView("advice", `${url}/#/advice`, "Advice", (page) => page.locator(".advice li").first().waitFor());
  await browsing.everyView("workbench", `${url}/#/workbench`, "Workbench", (page) => page.getByRole("button", { name: "Run" }).waitFor());
  await browsing.everyView("no-gate", `${url}/#/gate`, "Gate", (page) => page.getByText("No gate runs in this process").waitFor());
}

async function overviewMoves(browsing, url, port) {
  await browsing.visit(`${url}/#/overview`, "light", async (page) => {
    const spared = page.locator(".hero .value");
    await spared.filter({ hasText: /[1-9]/ }).waitFor();
    const before = Number((await spared.textContent()).replaceAll(",", ""));
    await resp(port, [`BF.MEXISTS crawler:urls ${keys("never-", 1_000).join(" ")}`]);
    await page.waitForFunction((least) => Number(document.querySelector(".hero .value").textContent.replaceAll(",", "")) >= least, before + 900);
    await page.locator("svg .line.tone-1").first().waitFor();
    // The chart answers to arrow keys.
    await page.locator(".hero svg").focus();
    await page.keyboard.press("End");
    await page.locator(".hero svg .cursor text", { hasText: /asked/ }).waitFor();
  });
  told("overview: live figures, a chart that keys can read");
}

async function oneFilter(browsing, url) {
  await browsing.visit(`${url}/${link("shop:skus")}`, "light", async (page) => {
    await page.getByLabel("Key", { exact: true }).fill("sku-7");
    await page.keyboard.press("Enter");
    await page.locator(".notice strong", { hasText: /^Maybe$/ }).waitFor();
    await page.getByLabel("Key", { exact: true }).fill("nobody has this key");
    await page.keyboard.press("Enter");
    await page.locator(".notice strong", { hasText: "Certainly not" }).waitFor();
    assert.ok(await page.locator(".bit").count() >= 1, "the bits of the key are shown to an admin");
    assert.ok(await page.locator(".bit", { hasText: "unset" }).count() >= 1, "one of them is not set");
    await page.getByText("you are here").waitFor();
    assert.equal(await page.locator(".heat-cell").count() > 10, true);
    // The line that recreates it is one the server takes.
    const line = await page.locator(".lines > div", { hasText: "Any Redis client" }).locator("code").textContent();
    const again = await json(`${url}/v1/command`, {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ argv: line.replace("shop:skus", "again").split(" ") }),
    });
    assert.equal(again.error, null, line);
    await page.screenshot({ path: `${browsing.shots}/filter-tried.png`, fullPage: true });
  });
  await browsing.visit(`${url}/${link("crawler:urls")}`, "light", async (page) => {
    await page.getByText("Its layers").waitFor();
    assert.ok(await page.locator(".stage").count() >= 2, "a chain has layers");
  });
  await browsing.visit(`${url}/${link("visits")}`, "light", async (page) => {
    await page.getByText("Its generations").waitFor();
    assert.ok(await page.locator(".generation").count() >= 4, "a ring has generations");
  });
  await browsing.visit(`${url}/${link("nothing")}`, "light", async (page) => {
    await page.getByText("This filter is not there any more").waitFor();
  }, { allowed: [/404/] });
  await browsing.visit(`${url}/#/filters`, "light", async (page) => {
    await page.getByText(EVIL, { exact: true }).waitFor();
    assert.equal(await page.locator("main img").count(), 0);
    await page.getByText(EVIL, { exact: true }).click();
    await page.locator("h1", { hasText: EVIL }).waitFor();
    assert.match(await page.title(), /^<img/);
  });
  told("filter: keys tried, layers, generations, recreated, names that are no HTML");
}

async function advice(browsing, url) {
  await browsing.visit(`${url}/#/advice`, "light", async (page) => {
    const about = page.locator(".advice li", { hasText: "overfull" }).first();
    await about.waitFor();
    assert.ok((await about.locator("p").first().textContent()).length > 20, "a reason");
    assert.ok(await about.locator("code").count() >= 1, "a command");
    await about.getByRole("link", { name: /Look at/ }).click();
    await page.locator("h1", { hasText: "overfull" }).waitFor();
    await page.locator(".page-actions .pill", { hasText: "over capacity" }).waitFor();
  });
  told("advice: a sentence, a reason, a command, the way to the filter");
}

async function workbench(browsing, url) {
  await browsing.visit(`${url}/#/workbench`, "light", async (page) => {
    const line = page.getByLabel("Command", { exact: true });
    const run = async (text, reply) => {
      await line.fill(text);
      await page.keyboard.press("Enter");
      await page.locator(".console > div").last().locator(".reply", { hasText: reply }).waitFor();
    };
    await run("BF.ADD 'two words' \"a\\nb\"", "(true)");
    await run("BF.EXISTS \"two words\" mallory", "(false)");
    await run("BG.INFO visits kind", "rotating");
    await run("NOSUCH thing", /\(error\) ERR unknown command/);
    await run("BF.ADD 'open", "A quote is not closed");
    await line.press("ArrowUp");
    assert.equal(await line.inputValue(), "BF.ADD 'open");
    await line.fill("bf.add");
    await page.locator("#command-help", { hasText: "Needs the role write" }).waitFor();
    await run("CONFIG SET slowlog-log-slower-than 0", "OK");
    await run("BG.INFO visits", "rotating");
    await page.screenshot({ path: `${browsing.shots}/workbench-used.png`, fullPage: true });
    await page.getByRole("radio", { name: "Slow log" }).check({ force: true });
    await page.locator("td code", { hasText: "BG.INFO" }).first().waitFor();
    await page.getByRole("radio", { name: "Live tail" }).check({ force: true });
    await json(`${url}/v1/command`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ argv: ["CONFIG", "SET", "slowlog-log-slower-than", "10000"] }) });
    await page.locator(".tail li", { hasText: /slowlog-log-slower-than/i }).first().waitFor();
    await page.screenshot({ path: `${browsing.shots}/workbench-tail.png`, fullPage: true });
  });
  told("workbench: commands, errors, history, help, slow log, live tail");
}

async function manyFilters(browsing, url, port) {
  await resp(port, keys("user:", 1_000).map((name, at) => `BF.RESERVE ${name}:seen 0.01 ${100 + at}`));
  await resp(port, keys("user:", 1_000).map((name, at) => `BF.MADD ${name}:seen ${keys("k", 1 + (at % 90)).join(" ")}`));
  await browsing.everyView("thousand-filters", `${url}/#/filters`, "Filters", (page) => page.locator("tbody tr").nth(49).waitFor());
  await browsing.visit(`${url}/#/filters`, "light", async (page) => {
    await page.getByText(/1 to 50 of 1,0\d\d filters/).waitFor();
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByText(/51 to 100 of/).waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("user:77");
    await page.getByText(/1 to 11 of 11 filters/).waitFor();
    assert.match(page.url(), /match=user/);
    await page.getByRole("searchbox").fill("");
    await page.getByText(/1 to 50 of/).waitFor();
    await page.getByRole("button", { name: "Items of capacity" }).click();
    await page.locator("th[aria-sort=descending]", { hasText: "Items of capacity" }).waitFor();
    await page.waitForFunction(() => document.querySelector("tbody th a").textContent === "overfull");
    await page.getByLabel("Sort by").selectOption("bytes desc");
    await page.waitForFunction(() => document.querySelector("tbody th a").textContent !== "overfull");
    await page.getByLabel("Kind").selectOption("rotating");
    await page.getByText(/1 to 1 of 1 filter$/).waitFor();
    await page.getByRole("searchbox").fill("no such name");
    await page.getByText("Nothing found").waitFor();
    await page.getByRole("button", { name: "Show all" }).click();
    await page.getByText(/1 to 50 of/).waitFor();
  });
  told("filters: a thousand, pages, search, sorting by head and by choice");
}

async function signIn(browsing, url, password) {
  const refused = { allowed: [/401/] };
  await browsing.visit(`${url}/`, "light", async (page) => {
    const dialog = page.getByRole("dialog", { name: "Sign in" });
    await dialog.waitFor();
    await page.screenshot({ path: `${browsing.shots}/sign-in.png` });
    await page.getByLabel("Password").fill("wrong");
    await page.keyboard.press("Enter");
    await page.getByText("That was not right").waitFor();
    await page.getByLabel("Password").fill(password);
    await page.keyboard.press("Enter");
    await page.getByText("No filter yet").waitFor();
    await page.locator("nav .pulse.live").waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await dialog.waitFor();
  }, refused);
  told("sign-in: wrong, right, out again");
}
