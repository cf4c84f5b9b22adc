// The dashboard of a server, with a real one: empty, with a few filters of every kind, with a thousand, behind a password.

import assert from "node:assert/strict";

import { told } from "./browsing.js";
import { curveOf, standsAt } from "./dashboard/curve.js";
import { lines, needFrom } from "./dashboard/plan.js";
import { KINDS } from "./dashboard/sizing.js";
import { pasted } from "./process.js";
import { json, keys, resp } from "./talking.js";

/** Filters that `fill` makes. */
const FILLED = 19;
/** A name of one long word, as many have. */
const LONG = "customer_session_fingerprints_production_eu";
/** Filters of the Bloom family, whose curve is held against what the server says of them. */
const DRAWN = ["crawler:urls", "bf:strict", "bf:fixed", "bf:wider", "bf:quarter", "shop:skus", "visits", "carts", "overfull", "sessions", LONG];
/** A name that a page must show as it is, and not run. */
const EVIL = "<img src=x onerror=alert(1)>";

export async function server(browsing, { url, port, guarded, password }) {
  await nothingYet(browsing, url, port);
  await fill(url, port);
  await overviewMoves(browsing, url, port);
  await overviewTells(browsing, url, port);
  await filtersTell(browsing, url);
  await oneFilter(browsing, url);
  await advice(browsing, url, port);
  await workbench(browsing, url, port);
  await forecast(browsing, url, port);
  await everyPage(browsing, url, port);
  await manyFilters(browsing, url, port);
  await plannedLines(port);
  await signIn(browsing, guarded, password);
}

async function nothingYet(browsing, url, port) {
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
  // Whoever runs what was copied sees the filter without a reload.
  for (const [name, filter] of [["First command", "visitors"], ["A filter of a chosen size", "seen"]]) {
    await browsing.visit(`${url}/#/filters`, "light", async (page) => {
      await first(page);
      await page.getByRole("button", { name: `Copy: ${name}` }).click();
      pasted(await page.evaluate(() => navigator.clipboard.readText()));
      await page.locator("tbody tr", { hasText: filter }).waitFor();
      await resp(port, [`DEL ${filter}`]);
    });
  }
  told("empty: a first command that can be copied, and what it does");
}

async function fill(url, port) {
  await resp(port, [
    "BF.RESERVE crawler:urls 0.01 1000",
    ...chunks(keys("https://example.org/", 20_000)).map((part) => `BF.MADD crawler:urls ${part.join(" ")}`),
    "BG.CREATE shop:skus KIND blocked CAPACITY 100000 RATE 0.001",
    ...chunks(keys("sku-", 40_000)).map((part) => `BG.ADD shop:skus ${part.join(" ")}`),
    "BG.CREATE visits KIND rotating CAPACITY 10000 RATE 0.01 WINDOW 3600 GENERATIONS 4",
    `BG.ADD visits ${keys("visitor-", 500).join(" ")}`,
    "BG.CREATE carts KIND counting CAPACITY 1000 RATE 0.01",
    `BG.ADD carts ${keys("cart-", 300).join(" ")}`,
    "CF.RESERVE sessions 10000 RATE 0.001",
    `CF.INSERT sessions ITEMS ${keys("session-", 900).join(" ")}`,
    "BG.CREATE queue:jobs KIND blocked CAPACITY 1000000 RATE 0.01",
    `BG.ADD queue:jobs ${keys("job-", 500).join(" ")}`,
    "BG.CREATE overfull KIND blocked CAPACITY 1000 RATE 0.01 ONFULL goon",
    ...chunks(keys("too-many-", 3_000)).map((part) => `BG.ADD overfull ${part.join(" ")}`),
    "BG.CREATE public KIND classic CAPACITY 100000 RATE 0.01 HASH xxh3",
    `BG.ADD public ${keys("p-", 200).join(" ")}`,
    "BG.CREATE lately KIND stable CAPACITY 200 RATE 0.01",
    `BG.ADD lately ${keys("seen-", 500).join(" ")}`,
    "BF.RESERVE refusing 0.01 500 NONSCALING",
    "BG.CREATE tickets KIND cuckoo CAPACITY 1000 RATE 0.01",
    `BG.ADD tickets ${keys("ticket-", 700).join(" ")}`,
    "BG.CREATE counted KIND quotient CAPACITY 1000 RATE 0.01",
    `BG.ADD counted ${keys("count-", 700).join(" ")}`,
    "BG.CREATE slices KIND partitioned CAPACITY 1000 RATE 0.01 HASH siphash24",
    `BG.ADD slices ${keys("slice-", 700).join(" ")}`,
    `BG.CREATE ${LONG} KIND blocked CAPACITY 1000 RATE 0.00001 ONFULL goon`,
    `BG.ADD ${LONG} ${keys("f-", 700).join(" ")}`,
    // Their chains share the promise out otherwise than a plan does, or not at all.
    ...[["strict", "0.001 800"], ["fixed", "0.00002 1000 NONSCALING"], ["wider", "0.0004 300 EXPANSION 4"], ["quarter", "0.01 200 EXPANSION 1"]].flatMap(([name, made]) =>
      [`BF.RESERVE bf:${name} ${made}`, `BF.MADD bf:${name} ${keys("f-", 900).join(" ")}`]),
    `BF.ADD "${EVIL}" alice`,
    `BF.MEXISTS crawler:urls ${keys("absent-", 400).join(" ")}`,
    `BG.EXISTS shop:skus ${keys("absent-", 400).join(" ")} ${keys("sku-", 100).join(" ")}`,
  ]);
  // What a full filter refuses is an error to whoever adds it, and counted.
  await assert.rejects(resp(port, keys("more-", 520).map((key) => `BF.ADD refusing ${key}`)), /full|capacity/i);
  const { total } = await json(`${url}/v1/filters?limit=1`);
  assert.equal(total, FILLED);
}

function chunks(all, size = 500) {
  return Array.from({ length: Math.ceil(all.length / size) }, (_, at) => all.slice(at * size, (at + 1) * size));
}

const link = (name) => `#/filter?path=${encodeURIComponent(`/v1/filters/${encodeURIComponent(name)}`)}`;

async function everyPage(browsing, url, port) {
  await browsing.everyView("overview", `${url}/#/overview`, "Overview", async (page) => {
    await page.locator(".hero .value", { hasText: /[1-9]/ }).waitFor();
    await page.locator("nav .pulse.live").waitFor({ state: "attached" });
  });
  await browsing.everyView("filters", `${url}/#/filters`, "Filters", (page) => page.locator("tbody tr").nth(FILLED - 1).waitFor());
  for (const name of ["crawler:urls", "visits", "shop:skus", "sessions", "carts", "tickets", "counted", "lately", "slices", "refusing", LONG]) {
    await browsing.everyView(`filter-${name.replace(":", "-")}`, `${url}/${link(name)}`, name, (page) => page.getByText("How to make it again").waitFor());
  }
  await browsing.everyView("advice", `${url}/#/advice`, "Advice", (page) => page.locator(".advice li").first().waitFor());
  await browsing.everyView("workbench", `${url}/#/workbench`, "Workbench", (page) => page.getByRole("button", { name: "Run" }).waitFor());
  const tab = (name, first) => async (page) => {
    await page.getByRole("radio", { name }).check({ force: true });
    await page.locator(first).first().waitFor();
  };
  await browsing.everyView("slow-log", `${url}/#/workbench`, "Workbench", tab("Slow log", "td details"));
  const asking = setInterval(() => resp(port, [`BF.MEXISTS crawler:urls ${keys("nobody-", 20).join(" ")}`, "CONFIG GET rate"]).catch(() => {}), 300);
  try {
    await browsing.everyView("live-tail", `${url}/#/workbench`, "Workbench", async (page) => {
      await tab("Live tail", ".tail li.traffic .pill")(page);
      // The word of a line and its text stand beside each other.
      const covered = await page.locator(".tail li").evaluateAll((lines) => lines.filter((line) => {
        const [word, text] = [line.children[1], line.children[2]].map((each) => each.getBoundingClientRect());
        return word.right > text.left && word.bottom > text.top;
      }).map((line) => line.textContent));
      assert.deepEqual(covered, [], "lines whose word covers their text");
    });
  } finally {
    clearInterval(asking);
  }
  await browsing.everyView("no-gate", `${url}/#/gate`, "Gate", async (page) => {
    await page.getByText("A gate has a dashboard of its own").waitFor();
    // That of the demo is one click away.
    assert.equal(await page.getByRole("link", { name: /^Open http/ }).getAttribute("href"), "http://127.0.0.1:8480/");
  });
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

/** Each figure of the overview says what the server says, in its own words. */
async function overviewTells(browsing, url, port) {
  await browsing.visit(`${url}/#/overview`, "light", async (page) => {
    const figure = (name) => page.locator(".figure", { has: page.locator(`dt:text-is("${name}")`) });
    const says = (name, value, note) => Promise.all([figure(name).locator(".value", { hasText: value }).waitFor(), figure(name).locator(".note", { hasText: note }).waitFor()]);
    // Rates are those of the last ten seconds, so somebody asks meanwhile.
    const asking = setInterval(() => resp(port, [`BF.MEXISTS crawler:urls ${keys("nobody-", 200).join(" ")}`, "BG.ADD shop:skus sku-1"]).catch(() => {}), 300);
    try {
      await says("Operations", /^[1-9][\d.,]*(\s[kMG])?\/s$/, /^[1-9].* lookups, .* adds a second$/);
      await says("Latency", /^[\d.]+\s(ns|µs|ms|s)$/, /^of 99 in 100 commands; half take [\d.]+\s(ns|µs|ms|s)$/);
    } finally {
      clearInterval(asking);
    }
    const told = await json(`${url}/v1/overview`);
    await says("Memory", /^[\d.]+\s[kMG]?B$/, /^(< )?[\d.]+\s% of [\d.]+\s[MGT]B; the process has [\d.]+\s[MG]B$/);
    await says("Filters", new RegExp(`^${FILLED}$`), /items in them|new items added/);
    await says("Health", "ready", /^up for \d/);
    await figure("Health").locator(".pill.ok").waitFor();
    await says("Disk", "writable", /^synced .*snapshot/);
    await says("Self-check", /\S/, /random keys asked to find out$/);
    await says("Clients", /^[1-9]\d*$/, /^\d+ by RESP, [1-9]\d* by HTTP$/);
    // The filter that is over its capacity fires, says how urgent that is in a word, and leads there.
    const alert = page.getByRole("region", { name: "Alerts" }).locator(".notice", { hasText: "overfull" }).first();
    await alert.locator(".pill", { hasText: /^.(warning|critical)$/ }).waitFor();
    assert.match(await alert.textContent(), /BloomgateOverCapacity/);
    const way = alert.getByRole("link", { name: "What to do about BloomgateOverCapacity" });
    assert.equal(await way.getAttribute("href"), "runbook#over-capacity");
    const facts = await page.getByRole("region", { name: "This server" }).locator("dl").textContent();
    assert.ok(/^\d+\.\d+\.\d+/.test(told.version) && facts.includes(`Version${told.version} (API ${told.api_version})`), facts);
    await alert.getByRole("link", { name: "look at the filter" }).click();
    await page.locator("h1", { hasText: "overfull" }).waitFor();
  });
  told("overview: operations, latency, memory, health, disk, clients, an alert that fires, versions");
}

/** Every column of the table: what it says of a filter, in words and colours, and that it sorts. */
async function filtersTell(browsing, url) {
  // The watch looks at filters one after the other.
  const of = async (name) => (await json(`${url}/v1/filters?match=${encodeURIComponent(name)}`)).filters[0];
  const until = Date.now() + 120_000;
  for (let known = false; !known;) {
    const rows = await Promise.all(["shop:skus", "overfull"].map(of));
    known = rows.every((row) => row.fill !== null && row.rate.measured !== null);
    assert.ok(known || Date.now() < until, `not looked at: ${JSON.stringify(rows)}`);
    if (!known) await new Promise((resolve) => setTimeout(resolve, 500));
  }
  await browsing.visit(`${url}/#/filters`, "light", async (page) => {
    const row = (name) => page.locator("tbody tr", { has: page.locator("th a", { hasText: name }) });
    const cell = async (name, label) => (await row(name).locator(`td[data-label="${label}"]`).textContent()).replaceAll("\u00a0", " ");
    await row("shop:skus").waitFor();
    for (const [label, says] of [
      ["Kind", /^blocked$/], ["Items of capacity", /^40 k of 100 k40 %$/], ["Fill", /^[1-3]\d(\.\d)? %$/], ["Promised", /^0\.1 %$/],
      ["Expected", /^(< )?0\.0\d* %$/], ["Measured", /^0(\.0\d*)? %$/], ["Size", /^\d\d\d kB$/], ["Bits/item", /^1[5-9](\.\d)?$/], ["Age", /^\d+ (s|min)$/], ["Forecast", /^(not growing|not known yet|full in .*)$/],
    ]) assert.match(await cell("shop:skus", label), says, label);
    assert.match(await cell("sessions", "Kind"), /^growing-cuckoo$/);
    // One that forgets counts on, and is neither full nor over its capacity; one that refuses says so.
    assert.equal(await cell("lately", "Items of capacity"), "500 so farkeeps 200");
    assert.equal(await cell("lately", "Forecast"), "never full");
    assert.match(await row("lately").locator(".pill").textContent(), /fine/);
    assert.deepEqual([await cell("refusing", "Items of capacity"), await cell("refusing", "Forecast")], ["500 of 500100 %", "full"]);
    assert.match(await row("refusing").locator(".pill").textContent(), /full, refuses/);
    assert.match(await cell("overfull", "Items of capacity"), /^(2,\d{3}|3,000) of 1,000\d{3} %$/);
    assert.ok(parseFloat(await cell("overfull", "Expected")) > 5 && parseFloat(await cell("overfull", "Measured")) > 5, "a rate far above the promised 1 %");
    // A state is a colour and a word.
    const look = async (name) => {
      const pill = row(name).locator(".pill");
      return { word: await pill.textContent(), colour: await pill.evaluate((each) => getComputedStyle(each).color), bar: await row(name).locator(".bar").first().getAttribute("class") };
    };
    const [bad, fine] = [await look("overfull"), await look("shop:skus")];
    assert.ok(/over capacity/.test(bad.word) && /fine/.test(fine.word) && bad.colour !== fine.colour && /bad/.test(bad.bar) && !/bad/.test(fine.bar), JSON.stringify([bad, fine]));
    // Every head sorts, both ways, as the server does.
    const heads = await page.locator("thead th button").evaluateAll((all) => all.map((each) => [each.textContent, each.dataset.sort]));
    assert.deepEqual(heads.map(([name]) => name), ["Filter", "Kind", "Items of capacity", "Fill", "Promised", "Expected", "Measured", "Size", "Bits/item", "Age", "Forecast"]);
    for (const [name, sort] of heads.slice(1)) {
      const seen = [];
      for (let press = 0; press < 2; press += 1) {
        await page.locator(`thead th button[data-sort="${sort}"]`).click();
        const order = (press === 0) === ["kind", "full"].includes(sort) ? "asc" : "desc";
        await page.locator(`th[aria-sort=${order}ending]`, { hasText: name }).waitFor();
        await page.waitForFunction((wanted) => document.querySelector("[role=status].hidden").textContent.includes(wanted), `sorted by ${sort}`);
        assert.equal(await page.getByLabel("Sort by").inputValue(), `${sort} ${order}`);
        const links = await page.locator("tbody th a").allTextContents();
        seen.push(links);
        if (["kind", "asked", "bytes", "used", "bits"].includes(sort)) {
          const { filters } = await json(`${url}/v1/filters?sort=${sort}&order=${order}`);
          assert.deepEqual(links, filters.map((each) => each.name), `${sort} ${order}`);
        }
      }
      assert.deepEqual([...seen[0]].sort(), [...seen[1]].sort());
    }
  });
  told("filters: fill, three rates, bits an item, age, words with colours, and every column sorts");
}

/** What a key has in filters of other kinds, and that the hash of one without a secret is told. */
async function tryKeys(browsing, url) {
  const ask = async (name, key, work) => browsing.visit(`${url}/${link(name)}`, "light", async (page) => {
    await page.getByLabel("Key", { exact: true }).fill(key);
    await page.keyboard.press("Enter");
    await page.locator(".notice strong", { hasText: /^(Maybe|Certainly not)$/ }).waitFor();
    const card = page.getByRole("region", { name: "Try a key" });
    await work(page, card, (await card.locator("dl.facts").textContent()));
  });
  await ask("public", "p-7", async (page, card, facts) => {
    assert.match(facts, /Hash[0-9a-f]{32}/);
    assert.ok(await card.locator(".bit.set").count() >= 3 && await card.locator(".bit:not(.set)").count() === 0);
  });
  await ask("shop:skus", "sku-7", async (page, card, facts) => {
    assert.match(facts, /Hashkept back: it is under a secret/);
    await card.getByText(/^Block \d/).waitFor();
  });
  await ask("carts", "cart-7", async (page, card) => {
    await card.getByText(/^Block \d/).waitFor();
    assert.ok(await card.locator(".bit.set", { hasText: /holds [1-9]/ }).count() >= 6);
  });
  await ask("carts", "nobody", async (page, card) => assert.ok(await card.locator(".bit", { hasText: "holds 0" }).count() >= 1));
  await ask("sessions", "session-7", async (page, card) => {
    await card.getByText(/^Fingerprint [0-9a-f]+$/).first().waitFor();
    assert.ok(await card.locator(".bucket").count() >= 1 && await card.locator(".slot.hit").count() >= 1);
    await browsing.picture(page, "filter-buckets");
  });
  await ask("sessions", "nobody at all", async (page, card) => {
    assert.match(await card.locator(".notice strong").textContent(), /Certainly not/);
    assert.equal(await card.locator(".slot.hit").count(), 0);
  });
  told("filter: hash, block, bits, counters, buckets of a key");
}

/** "You are here" lies on the curve: what a page computes of a filter is what the server says of it. */
async function drawn(url) {
  const near = (got, want, what) => assert.ok(Math.abs(got / want - 1) < 0.05, `${what}: ${got} is drawn, ${want} told`);
  for (const name of DRAWN) {
    const filter = await json(`${url}/v1/filters/${encodeURIComponent(name)}`);
    const { rateAt } = curveOf(filter);
    const { items, rate, byBits } = standsAt(filter);
    assert.equal(byBits, name === "overfull", `${name} stands at ${items}`);
    // One that took many for known stands at the items that its bits speak of, and there they make the rate.
    near(rateAt(items), byBits ? rate : filter.rate.expected, `${name} with ${items} items`);
  }
  told(`filter: the curves of ${DRAWN.length} filters go through where they are`);
}

async function oneFilter(browsing, url) {
  await tryKeys(browsing, url);
  await drawn(url);
  for (const [name, says] of [["refusing", "it refuses more"], ["crawler:urls", "each is larger"], ["bf:strict", "each is larger"], [EVIL, "a larger one is put beside it"]]) {
    await browsing.visit(`${url}/${link(name)}`, "light", (page) => page.getByRole("region", { name: "Its layers" }).getByText(says).waitFor());
  }
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
    const http = await page.locator(".lines > div", { hasText: "HTTP" }).locator("code").textContent();
    assert.ok(http.startsWith(`curl -X POST ${url}/v1/filters `), http);
    await browsing.picture(page, "filter-tried");
  });
  // Of tables it is drawn how full their buckets and blocks are.
  for (const [name, title] of [["tickets", "How full its buckets are"], ["sessions", "How full its buckets are"], ["counted", "How full its blocks are"]]) {
    await browsing.visit(`${url}/${link(name)}`, "light", async (page) => {
      const card = page.getByRole("region", { name: title });
      await card.getByText(/^From .* of the slots in use, [1-9].* on average\./).waitFor();
      assert.ok(await card.locator(".heat-cell").count() > 10);
    });
  }
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

async function advice(browsing, url, port) {
  await browsing.visit(`${url}/#/advice`, "light", async (page) => {
    const of = (name, sentence) => page.locator(".advice li", { hasText: name }).filter({ hasText: sentence });
    await of("crawler:urls", "grown to 5 layers").waitFor();
    await of("public", "hashed without a secret").waitFor();
    // A command can be taken to where it is run; nothing runs by itself.
    const open = of("public", "without a secret");
    const commands = await open.locator("code").allTextContents();
    assert.deepEqual(commands, ["BG.CREATE public:next KIND classic CAPACITY 100000 RATE 0.01", "BG.SWAP public public:next", "DEL public:next"]);
    assert.match(await open.locator("ol.fix > li").nth(1).textContent(), /Fill it from the data.*BG\.ADD public:next KEY/);
    const [command] = commands;
    await open.getByRole("link", { name: "Step 1 for public: take it to the workbench" }).click();
    await page.locator("h1", { hasText: "Workbench" }).waitFor();
    assert.equal(await page.getByLabel("Command", { exact: true }).inputValue(), command);
    await page.keyboard.press("Enter");
    await page.locator(".console .reply", { hasText: "OK" }).waitFor();
    // The other steps in their order, with the keys that only their owner has: then there is nothing more to advise of it.
    await resp(port, [`BG.ADD public:next ${keys("p-", 200).join(" ")}`, ...commands.slice(1)]);
    assert.ok(!(await resp(port, [`BG.EXISTS public ${keys("p-", 200).join(" ")}`])).includes(":0"));
    await page.goBack();
    await page.locator(".advice li").first().waitFor();
    assert.equal(await of("public", "without a secret").count(), 0);
    const about = page.locator(".advice li", { hasText: "overfull" }).first();
    await about.waitFor();
    assert.ok((await about.locator("p").first().textContent()).length > 20, "a reason");
    assert.ok(await about.locator("code").count() >= 1, "a command");
    await about.getByRole("link", { name: /Look at/ }).click();
    await page.locator("h1", { hasText: "overfull" }).waitFor();
    await page.locator(".page-actions .pill", { hasText: "over capacity" }).waitFor();
  });
  told("advice: sentences, a reason, the commands of the whole way, the way to the filter");
}

async function workbench(browsing, url, port) {
  await browsing.visit(`${url}/#/workbench`, "light", async (page) => {
    const line = page.getByLabel("Command", { exact: true });
    const run = async (text, reply) => {
      await line.fill(text);
      await page.keyboard.press("Enter");
      await page.locator(".console > div").last().locator(".reply", { hasText: reply }).waitFor();
    };
    await run("BF.ADD 'two words' \"a\\nb\"", "(true)");
    await run("BF.EXISTS \"two words\" mallory", "(false)");
    // A name that is no plain text, as it is typed and as the server writes it, is one name.
    await run("BF.ADD café alice", "(true)");
    await run("BF.EXISTS \"caf\\xc3\\xa9\" alice", "(true)");
    await run("EXISTS \"caf\\xc3\\xa9\"", "(integer) 1");
    await run("DEL café", "(integer) 1");
    await run("BG.INFO visits kind", "rotating");
    await run("NOSUCH thing", /\(error\) ERR unknown command/);
    await run("BF.ADD 'open", "A quote is not closed");
    await line.press("ArrowUp");
    assert.equal(await line.inputValue(), "BF.ADD 'open");
    await line.fill("bf.add");
    await page.locator("#command-help", { hasText: "Needs the role write" }).waitFor();
    await run("CONFIG SET slowlog-log-slower-than 0", "OK");
    await run("BG.INFO visits", "rotating");
    // One that anybody may run needs no role.
    await line.fill("ping");
    await page.locator("#command-help", { hasText: "Needs no role." }).waitFor();
    await line.fill("");
    const post = (argv) => json(`${url}/v1/command`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ argv }) });
    const named = "a/rather/long/name/".repeat(20);
    await post(["BG.CREATE", named, "KIND", "blocked", "CAPACITY", "1000", "RATE", "0.01"]);
    await post(["DEL", named]);
    await browsing.picture(page, "workbench-used");
    await page.getByRole("radio", { name: "Slow log" }).check({ force: true });
    await page.locator("td code", { hasText: "BG.INFO" }).first().waitFor();
    // A long command is shown by its beginning, and opens.
    const long = page.locator("tr", { has: page.locator("details", { hasText: "BG.CREATE a/rather/long" }) }).first();
    assert.ok((await long.boundingBox()).height < 120, "a row of a long command is low");
    await long.locator("summary").click();
    assert.match(await long.locator("pre").textContent(), /^BG\.CREATE (a\/rather\/long\/name\/){5}.* KIND blocked CAPACITY 1000 RATE 0\.01$/);
    await page.getByRole("radio", { name: "Live tail" }).check({ force: true });
    await post(["CONFIG", "SET", "slowlog-log-slower-than", "10000"]);
    await page.locator(".tail li", { hasText: /slowlog-log-slower-than/i }).first().waitFor();
    // A busy server that nothing is wrong with is seen to work: names and numbers, no key.
    await resp(port, [`BF.MEXISTS crawler:urls ${keys("hidden-key-", 300).join(" ")}`]);
    await page.locator(".tail li.traffic", { hasText: "BF.MEXISTS 1" }).first().waitFor();
    await page.locator(".tail li.traffic", { hasText: /crawler:urls: 300 lookups, \d+ spared/ }).first().waitFor();
    assert.ok(!(await page.locator(".tail li.traffic").allTextContents()).join().includes("hidden-key"), "no key is told");
    await page.getByLabel("What was done each second").uncheck();
    assert.equal(await page.locator(".tail li.traffic").count(), 0);
    await page.getByLabel("What was done each second").check();
    await browsing.picture(page, "workbench-tail");
  });
  told("workbench: commands, errors, history, help, slow log, live tail");
}

/** Somebody adds while the page is looked at: the row says when the filter will be full. */
async function forecast(browsing, url, port) {
  await resp(port, ["BG.CREATE queue:soft KIND blocked CAPACITY 1000000 RATE 0.01 ONFULL goon", `BG.ADD queue:soft ${keys("job-", 500).join(" ")}`]);
  await browsing.visit(`${url}/#/filters`, "light", async (page) => {
    const row = page.locator("tbody tr", { hasText: "queue:jobs" });
    await row.getByText("500 of 1 M").waitFor();
    await resp(port, chunks(keys("job-", 3_000, 501)).map((part) => `BG.ADD queue:jobs ${part.join(" ")}`));
    await row.getByText("3,500 of 1 M").waitFor();
    // The server looks every ten seconds how fast filters grow. What goes on when it is full is said to do so.
    await row.getByText(/^full in \d+/).waitFor();
    let at = 0;
    const adding = setInterval(() => {
      at += 1;
      resp(port, ["queue:soft", "crawler:urls"].map((name) => `BG.ADD ${name} ${keys(`late-${at}-`, 20).join(" ")}`)).catch(() => {});
    }, 500);
    try {
      await page.locator("tbody tr", { hasText: "queue:soft" }).getByText(/^over capacity in \d+/).waitFor();
      await page.locator("tbody tr", { hasText: "crawler:urls" }).getByText(/^grows in \d+/).waitFor();
    } finally {
      clearInterval(adding);
    }
  });
  await resp(port, ["DEL queue:soft"]);
  told("filters: a row that moves, when it will be full, over its capacity, or grow");
}

async function manyFilters(browsing, url, port) {
  await resp(port, keys("user:", 1_000).map((name, at) => `BF.RESERVE ${name}:seen 0.01 ${100 + at}`));
  await resp(port, keys("user:", 1_000).map((name, at) => `BF.MADD ${name}:seen ${keys("k", 1 + (at % 90)).join(" ")}`));
  await browsing.everyView("thousand-filters", `${url}/#/filters`, "Filters", (page) => page.locator("tbody tr").nth(49).waitFor());
  await browsing.visit(`${url}/#/filters`, "light", async (page) => {
    const shown = (text) => page.locator(".pager > span", { hasText: text }).waitFor();
    await shown(/1 to 50 of 1,0\d\d filters/);
    await page.getByRole("button", { name: "Next" }).click();
    await shown(/51 to 100 of/);
    await page.keyboard.press("/");
    await page.keyboard.type("user:77");
    await shown(/1 to 11 of 11 filters/);
    assert.match(page.url(), /match=user/);
    await page.getByRole("searchbox").fill("");
    await shown(/1 to 50 of/);
    await page.getByRole("button", { name: "Items of capacity" }).click();
    await page.locator("th[aria-sort=descending]", { hasText: "Items of capacity" }).waitFor();
    await page.waitForFunction(() => document.querySelector("tbody th a").textContent === "overfull");
    await page.getByLabel("Sort by").selectOption("bytes desc");
    await page.waitForFunction(() => document.querySelector("tbody th a").textContent !== "overfull");
    await page.getByLabel("Kind").selectOption("rotating");
    await shown(/1 to 1 of 1 filter$/);
    await page.getByRole("searchbox").fill("no such name");
    await page.getByText("Nothing found").waitFor();
    await page.getByRole("button", { name: "Show all" }).click();
    await shown(/1 to 50 of/);
  });
  told("filters: a thousand, pages, search, sorting by head and by choice");
  await quietFilter(browsing, url, port);
}

/** Of a busy server the stream names the filters that most is done with: the page of a quiet one moves all the same. */
async function quietFilter(browsing, url, port) {
  await resp(port, ["BG.CREATE quiet KIND blocked CAPACITY 1000 RATE 0.0001", `BG.ADD quiet ${keys("first-", 5).join(" ")}`]);
  const questions = keys("user:", 1_000).map((name) => `BF.MEXISTS ${name}:seen ${keys("q", 20).join(" ")}`);
  let isBusy = true;
  const asking = (async () => {
    while (isBusy) {
      await resp(port, questions);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  })();
  try {
    await browsing.visit(`${url}/${link("quiet")}`, "light", async (page) => {
      const items = page.locator(".figure", { has: page.locator('dt:text-is("Items")') }).locator(".value");
      await items.filter({ hasText: /^5$/ }).waitFor();
      // One key, where each of a thousand others is asked for twenty at a time.
      await resp(port, ["BG.ADD quiet one-more"]);
      await items.filter({ hasText: /^6$/ }).waitFor();
      await page.getByRole("region", { name: "Parameters" }).getByText("6, of which 6 were certainly new").waitFor();
      // And one that is deleted is gone, without a word in the console but the one that says so.
      await resp(port, ["DEL quiet"]);
      await page.getByText("This filter is not there any more").waitFor();
    }, { allowed: [/404/] });
  } finally {
    isBusy = false;
    await asking;
  }
  told("filter: the page of a quiet one among a thousand busy ones");
}

/** What the planner tells people to give to any Redis client, given to one. */
async function plannedLines(port) {
  for (const { kind } of KINDS) {
    for (const query of ["items=2000&rate=0.01", "items=2000&rate=0.001&growth=tenfold&window=60"]) {
      await resp(port, [lines(kind, needFrom(new URLSearchParams(query))).resp, "BG.EXISTS keys key-1", "DEL keys"]);
    }
  }
  told(`planner: the server takes the lines of ${KINDS.length} kinds`);
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
    // The first command logs in as whoever looks at it, asks for the password, and is seen here.
    await page.getByRole("button", { name: "Copy: First command" }).click();
    const command = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(command, /^redis-cli -p \d+ --user default --askpass BF\.ADD visitors alice$/);
    pasted(command, { input: `${password}\n` });
    await page.getByText("No filter yet").waitFor({ state: "hidden" });
    await page.getByRole("button", { name: "Sign out" }).click();
    await dialog.waitFor();
  }, refused);
  told("sign-in: wrong, right, a first command that logs in, out again");
}
