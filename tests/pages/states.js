// Bad states, each brought about by what brings it about: a gate that only watches, one that waits for its source, one whose rebuild
// fails; a filter that was poisoned, one that is nearly full, a server behind TLS alone, and users who may not see everything.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";

import { told } from "./browsing.js";
import { checkContrast, checkTree } from "./checks.js";
import { inFolder, pasted, Process, shop, sqlite } from "./process.js";
import { json, keys, resp } from "./talking.js";

export async function gateStates(browsing, binary) {
  await inFolder(async (folder) => {
    const products = (name, ...words) => Process.gate(binary, ["--source", `sqlite:${shop(`${folder}/${name}.db`)}`, "--table", "products", "--key", "sku", "--data", `${folder}/${name}`, ...words]);
    await during(products("shadow", "--writers", "unknown"), (gate) => shadow(browsing, gate));
    await during(Process.gate(binary, ["--source", "postgres://nobody@127.0.0.1:1/shop", "--table", "products", "--key", "sku", "--data", `${folder}/waiting`],
      /gate listens on (http[^,\s]+), and waits for its source/), (gate) => waiting(browsing, gate));
    await during(products("failing", "--writers", "sole"), (gate) => failedRebuild(browsing, gate, `${folder}/failing.db`));
  });
}

async function during(starting, work) {
  const process = await starting;
  try {
    await work(process);
  } finally {
    await process.end();
  }
}

/** Others may write: it counts what it would have stopped, and stops nothing. */
async function shadow(browsing, { url }) {
  for (const key of [...keys("sku-", 20), ...keys("absent-", 60)]) await fetch(`${url}/v1/products/${key}`);
  await browsing.everyView("gate-shadow", `${url}/`, "Gate", async (page) => {
    await page.locator(".notice", { hasText: "The gate only watches" }).waitFor();
    await page.locator(".page-actions .pill", { hasText: "others may write" }).waitFor();
  });
  const { shadow: counted, blocking, lookups } = await json(`${url}/stats`);
  assert.deepEqual([blocking, lookups["absent-by-filter"], counted.would_block_wrongly], [false, 0, 0]);
  assert.ok(counted.would_block >= 55 && counted.would_block <= 60, JSON.stringify(counted));
  await browsing.visit(`${url}/`, "light", async (page) => {
    const words = await page.locator(".notice", { hasText: "The gate only watches" }).textContent();
    assert.ok(words.includes(`would have blocked ${counted.would_block} lookups, and none of them wrongly`) && words.includes("--writers sole"), words);
    // Every lookup went on to the source, and the funnel says so.
    await page.locator(".funnel .step.filter .number").filter({ hasText: /^0/ }).waitFor();
  });
  told("gate: it only watches, and says what it would have blocked");
}

async function waiting(browsing, { url }) {
  const ready = await fetch(`${url}/readyz`);
  assert.equal(ready.status, 503);
  await browsing.everyView("gate-waiting", `${url}/`, "Gate", (page) => page.getByText("The gate is waiting").waitFor());
  await browsing.visit(`${url}/`, "light", async (page) => {
    await page.getByText("The gate is waiting").waitFor();
    // Why, in the words of the gate, and what a load balancer sees.
    const words = await page.locator(".empty").first().textContent();
    assert.match(words, /127\.0\.0\.1:1|postgres|connect/i);
    const command = await page.locator(".empty code").first().textContent();
    assert.match(pasted(command.replace("curl -i", "curl -s -o /dev/null -w '%{http_code}'")), /^503$/);
    await page.locator(".pulse.live").waitFor({ state: "attached" });
  });
  told("gate: it waits for its source, and says for what");
}

async function failedRebuild(browsing, { url }, file) {
  assert.equal((await fetch(`${url}/v1/products/sku-7`)).status, 200);
  sqlite(file, "ALTER TABLE products RENAME TO elsewhere");
  const rebuild = (page) => page.getByRole("button", { name: "Rebuild now" }).click();
  const rows = (page) => page.getByRole("region", { name: "Rebuilds, the newest first" }).locator("tbody tr");
  await browsing.visit(`${url}/`, "light", async (page) => {
    await rebuild(page);
    const failed = rows(page).first().filter({ hasText: "failed" });
    await failed.locator(".pill.bad").waitFor();
    assert.match(await failed.textContent(), /products/, "it says what was not found");
  });
  await browsing.everyView("gate-failed-rebuild", `${url}/`, "Gate", (page) => rows(page).first().locator(".pill.bad").waitFor());
  // Nothing is certain about a table that is another one: no "no" is said any more, and the page says that.
  assert.equal((await fetch(`${url}/v1/products/no-such-key`)).status, 503);
  await browsing.visit(`${url}/`, "light", async (page) => {
    await page.locator(".page-actions .pill.bad", { hasText: "broken" }).waitFor();
    sqlite(file, "ALTER TABLE elsewhere RENAME TO products");
    await rebuild(page);
    await rows(page).first().locator(".pill.ok", { hasText: "in force" }).waitFor();
    await page.locator(".page-actions .pill.ok", { hasText: "ready" }).waitFor();
    // The history keeps both.
    assert.ok(await rows(page).locator(".pill.bad").count() >= 1);
  });
  assert.equal((await fetch(`${url}/v1/products/no-such-key`)).status, 404);
  told("gate: a rebuild that failed, in the history, and the one that mended it");
}

export async function serverStates(browsing, binary) {
  await inFolder(async (folder) => {
    await during(Process.server(binary, ["--data", `${folder}/bad`]), async (server) => {
      await poisoned(browsing, server);
      await nearlyFull(browsing, server);
      await reader(browsing, server);
    });
    await tlsAlone(browsing, binary, folder);
  });
}

/** Keys are chosen as somebody would who knows the hash: each sets as many bits as it can that no other has set. */
async function poison(url, name, candidates, most) {
  const bitsOf = async (key) => (await json(`${url}/v1/filters/${name}/explain?key=${key}`)).stages[0].bits;
  const known = [];
  for (let at = 0; at < candidates.length; at += 50) {
    known.push(...await Promise.all(candidates.slice(at, at + 50).map(async (key) => ({ key, bits: await bitsOf(key) }))));
  }
  const [chosen, set] = [[], new Set()];
  for (let wanted = 99; wanted > 0 && chosen.length < most; wanted -= 1) {
    for (const one of known) {
      if (one.used || chosen.length >= most || new Set(one.bits.filter((bit) => !set.has(bit))).size < wanted) continue;
      one.used = true;
      one.bits.forEach((bit) => set.add(bit));
      chosen.push(one.key);
    }
  }
  return chosen;
}

const link = (name) => `#/filter?path=${encodeURIComponent(`/v1/filters/${name}`)}`;

async function poisoned(browsing, { url, port }) {
  await resp(port, ["BG.CREATE victim KIND classic CAPACITY 800 RATE 0.01 HASH xxh3", "BG.CREATE honest KIND classic CAPACITY 800 RATE 0.01 HASH xxh3",
    `BG.ADD honest ${keys("honest-", 700).join(" ")}`]);
  const chosen = await poison(url, "victim", keys("chosen-", 4_000), 780);
  await resp(port, [`BG.ADD victim ${chosen.join(" ")}`]);
  // The watch looks at filters one after the other, and asks for random keys.
  const verdict = async (name) => (await json(`${url}/v1/filters/${name}`)).verdict;
  for (const until = Date.now() + 120_000; (await verdict("victim")) !== "poisoned";) {
    assert.ok(Date.now() < until, `not found out: ${JSON.stringify((await json(`${url}/v1/filters/victim`)).watch)}`);
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  assert.notEqual(await verdict("honest"), "poisoned");
  await browsing.everyView("filters-poisoned", `${url}/#/filters`, "Filters", async (page) => {
    await page.locator("tbody tr", { hasText: "victim" }).locator(".pill.bad", { hasText: "poisoned" }).waitFor();
    assert.equal(await page.locator("tbody tr", { hasText: "honest" }).locator(".pill.bad").count(), 0);
  });
  await browsing.everyView("filter-poisoned", `${url}/${link("victim")}`, "victim", (page) => page.locator(".page-actions .pill.bad", { hasText: "poisoned" }).waitFor());
  await browsing.everyView("advice-poisoned", `${url}/#/advice`, "Advice", async (page) => {
    const said = page.locator(".advice li.bad", { hasText: "victim: It is poisoned" });
    await said.locator(".pill", { hasText: "act now" }).waitFor();
    assert.equal(await said.locator("ol.fix > li").count(), 4);
  });
  await browsing.visit(`${url}/#/overview`, "light", async (page) => {
    await page.locator(".figure", { hasText: "Self-check" }).locator(".pill.bad", { hasText: "1 poisoned" }).waitFor();
  });
  told("a filter that was poisoned: in the list, on its page, in the advice, at a glance");
}

async function nearlyFull(browsing, { url, port }) {
  await resp(port, ["BG.CREATE almost KIND blocked CAPACITY 1000 RATE 0.01", `BG.ADD almost ${keys("early-", 910).join(" ")}`]);
  let at = 0;
  const adding = setInterval(() => resp(port, [`BG.ADD almost late-${(at += 1)}`]).catch(() => {}), 1_000);
  try {
    await browsing.visit(`${url}/#/filters`, "light", async (page) => {
      const row = page.locator("tbody tr", { hasText: "almost" });
      await row.locator(".pill.warn", { hasText: "nearly full" }).waitFor({ timeout: 60_000 });
      assert.match(await row.locator("td.forecast").textContent(), /^full in \d+\s(s|min)$/);
      assert.match(await row.locator(".bar").getAttribute("class"), /warn/);
      await browsing.picture(page, "filters-nearly-full");
    });
    await browsing.visit(`${url}/#/advice`, "light", (page) => page.locator(".advice li", { hasText: "almost: As it grows now, it is full in" }).locator("ol.fix code").first().waitFor());
  } finally {
    clearInterval(adding);
  }
  told("a filter that is nearly full: in the list and in the advice");
}

/** Somebody who may read: every page says in words what it does not tell, and no request of a page is refused. */
async function reader(browsing, { url, port }) {
  await resp(port, ["ACL SETUSER reader on >reader-password +@read", "BF.MEXISTS victim a b c"]);
  const login = `Basic ${Buffer.from("reader:reader-password").toString("base64")}`;
  await browsing.visit(`${url}/#/how`, "light", async (page) => {
    await page.evaluate((value) => sessionStorage.setItem("bloomgate-login", value), login);
    await page.reload();
    const open = async (path, heading, ready) => {
      await page.goto(`${url}/${path}`);
      await page.locator("h1", { hasText: heading }).waitFor();
      await ready();
      await page.locator(".pulse.live").waitFor({ state: "attached" });
      assert.equal(await page.locator(".trouble").count(), 0, `${path}: ${await page.locator("main").textContent()}`);
      await checkTree(page, heading);
      await checkContrast(page);
      await browsing.picture(page, `reader-${heading.toLowerCase().replaceAll(" ", "-")}`);
    };
    await open("#/overview", "Overview", () => page.getByText("reader: read", { exact: true }).waitFor());
    await open("#/filters", "Filters", () => page.locator("tbody tr").nth(2).waitFor());
    await open(link("victim"), "victim", () => page.getByText("How to make it again").waitFor());
    const line = await page.locator(".lines > div", { hasText: "HTTP" }).locator("code").textContent();
    assert.ok(line.startsWith(`curl -u reader -X POST ${url}/v1/filters `), line);
    await page.getByLabel("Key", { exact: true }).fill("nobody has this key");
    await page.keyboard.press("Enter");
    await page.locator(".notice strong", { hasText: /^(Maybe|Certainly not)$/ }).waitFor();
    await open("#/advice", "Advice", () => page.locator(".advice li").first().waitFor());
    await open("#/planner", "Planner", () => page.locator("tr.chosen").waitFor());
    await open("#/gate", "Gate", () => page.getByText("A gate has a dashboard of its own").waitFor());
    await open("#/workbench", "Workbench", () => page.getByRole("button", { name: "Run" }).waitFor());
    for (const [command, reply] of [["BF.ADD victim alice", /NOPERM|permission/], ["BF.EXISTS victim alice", /\((true|false)\)/]]) {
      await page.getByLabel("Command", { exact: true }).fill(command);
      await page.keyboard.press("Enter");
      await page.locator(".console > div").last().locator(".reply", { hasText: reply }).waitFor();
    }
    await page.getByRole("radio", { name: "Slow log" }).check({ force: true });
    await page.getByText("The slow log is not for you").waitFor();
    await page.getByText("You are reader, with the role read: it needs the role admin.").waitFor();
    await browsing.picture(page, "reader-slow-log");
    await page.getByRole("radio", { name: "Live tail" }).check({ force: true });
    await page.getByText(/^Commands, logins, the log and slow commands are not told to you\. You are reader/).waitFor();
    // What is told goes on being told.
    const asking = setInterval(() => resp(port, ["BG.EXISTS victim a b c"]).catch(() => {}), 300);
    await page.locator(".tail li.traffic", { hasText: /victim: \d+ lookups?/ }).first().waitFor().finally(() => clearInterval(asking));
    await browsing.picture(page, "reader-tail");
  });
  told("somebody who may read: every page, and in words what it does not tell");
}

/** It listens over TLS alone: the line to copy says so, and works as it stands where the system knows who signed. */
async function tlsAlone(browsing, binary, folder) {
  const [cert, key] = [`${folder}/cert.pem`, `${folder}/key.pem`];
  execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert], { stdio: "ignore" });
  const words = ["--tls", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--data", `${folder}/tls`];
  await during(Process.server(binary, words, { resp: "none" }), ({ url }) => browsing.visit(`${url}/#/filters`, "light", async (page) => {
    await page.getByText("It listens over TLS alone.").waitFor();
    const commands = [];
    for (const name of ["Copy: First command", "Copy: A filter of a chosen size"]) {
      await page.getByRole("button", { name }).click();
      commands.push(await page.evaluate(() => navigator.clipboard.readText()));
    }
    assert.match(commands[0], /^redis-cli --tls -p \d+ BF\.ADD visitors alice$/);
    assert.match(commands[1], /^redis-cli --tls -p \d+ BG\.CREATE seen KIND blocked CAPACITY 1000000 RATE 0\.01$/);
    for (const command of commands) pasted(command, { env: { SSL_CERT_FILE: cert } });
    for (const name of ["visitors", "seen"]) await page.locator("tbody tr", { hasText: name }).waitFor();
  }));
  told("a server behind TLS alone: a first command that works");
}
