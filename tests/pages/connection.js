// A line on which nothing comes, a server that is killed, and one that comes back: what the page says, and that it goes on.

import assert from "node:assert/strict";

import { told } from "./browsing.js";
import { checkContrast, checkRoom, checkTree } from "./checks.js";
import { inFolder, Process } from "./process.js";
import { resp } from "./talking.js";

/** What a browser says of a request that nobody answers. */
const REFUSED = { allowed: [/net::ERR_/] };

export async function connection(browsing, binary) {
  await inFolder(async (folder) => {
    const words = ["--data", `${folder}/data`];
    let server = await Process.server(binary, words);
    try {
      await resp(server.port, ["BG.CREATE seen KIND blocked CAPACITY 1000 RATE 0.01", "BG.ADD seen a b c", "BG.EXISTS seen a x y z"]);
      for (const view of ["light", "phone"]) await frozen(browsing, view, server);
      server = await killed(browsing, server, (places) => Process.server(binary, words, places));
    } finally {
      await server.end();
    }
  });
}

const notice = (page) => page.getByRole("status").filter({ hasText: "Connection lost." });
const isLive = (page) => page.locator(".pulse.live").waitFor({ state: "attached" });
const look = (page) => page.evaluate(() => [getComputedStyle(document.querySelector(".hero .value")).color, getComputedStyle(document.querySelector(".figures")).filter]);

/** The process is held up: every connection stays, and no byte comes. Only the page's own clock can tell. */
async function frozen(browsing, view, server) {
  await browsing.visit(`${server.url}/#/overview`, view, async (page) => {
    await page.locator(".hero .value", { hasText: /^\d/ }).waitFor();
    await isLive(page);
    const before = await look(page);
    server.signal("SIGSTOP");
    try {
      await notice(page).waitFor();
      assert.match(await notice(page).locator("p").textContent(), /^Connection lost\. The figures are those of \d\d:\d\d:\d\d\. Trying again by itself\.$/);
      assert.ok(await notice(page).isVisible(), "it is seen, also where the navigation is behind a menu");
      assert.equal(await page.locator(".pulse").textContent(), "Connection lost");
      // Grey, and told by the words: both differ from what is live.
      const now = await look(page);
      assert.ok(now[0] !== before[0] && now[1] === "grayscale(1)" && before[1] === "none", JSON.stringify([before, now]));
      await checkTree(page, "Overview");
      await checkContrast(page);
      await checkRoom(page);
      await browsing.picture(page, `connection-lost-${view}`);
      // Pressed while it goes on being silent, it changes nothing.
      await page.getByRole("button", { name: "Try now" }).click();
      assert.ok(await notice(page).isVisible());
    } finally {
      server.signal("SIGCONT");
    }
    await isLive(page);
    await page.locator(".toast", { hasText: "Connected again." }).waitFor();
    assert.deepEqual([await notice(page).count(), await page.locator(".connection").textContent(), await look(page)], [0, "", before]);
    const spared = page.locator(".hero .value");
    const count = Number(await spared.textContent());
    await resp(server.port, ["BG.EXISTS seen not there at all"]);
    await page.waitForFunction((least) => Number(document.querySelector(".hero .value").textContent) > least, count);
  }, REFUSED);
  told(`connection: a line on which nothing comes is lost, and live again, ${view}`);
}

/** It is killed, and another one is started at its place; then one of another version is. */
async function killed(browsing, server, start) {
  const places = { resp: server.resp, http: server.http };
  await browsing.visit(`${server.url}/#/overview`, "light", async (page) => {
    const figure = page.locator(".figure", { has: page.locator('dt:text-is("Filters")') }).locator(".value");
    await figure.filter({ hasText: /^1$/ }).waitFor();
    await server.end("SIGKILL");
    await notice(page).waitFor();
    server = await start(places);
    await isLive(page);
    assert.equal(await page.locator(".connection").textContent(), "");
    // It is the new one whose figures are shown.
    await resp(server.port, ["BG.CREATE more KIND blocked CAPACITY 1000 RATE 0.01"]);
    await figure.filter({ hasText: /^2$/ }).waitFor();

    // There is one version here: the number alone is another one, the rest is what the server says.
    await page.route("**/about.json", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...await response.json(), version: "99.0.0" } });
    });
    await server.end("SIGKILL");
    await notice(page).waitFor();
    server = await start(places);
    const offer = page.getByRole("status").filter({ hasText: "This is Bloomgate server 99.0.0 now." });
    await offer.waitFor();
    await checkContrast(page);
    await browsing.picture(page, "connection-updated");
    await offer.getByRole("button", { name: "Reload" }).click();
    await page.locator("nav .foot", { hasText: "Bloomgate server 99.0.0" }).waitFor();
    await isLive(page);
    assert.equal(await page.locator(".connection").textContent(), "");
  }, REFUSED);
  told("connection: killed and started again, and another version");
  return server;
}
