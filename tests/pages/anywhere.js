// The pages that both processes have: How it works, the planner, the frame itself.

import assert from "node:assert/strict";

import { told } from "./browsing.js";
import { checkContrast, checkTree } from "./checks.js";

export async function anywhere(browsing, url) {
  await browsing.everyView("how", `${url}/#/how`, "How it works", (page) => page.locator(".cell").first().waitFor());
  await browsing.everyView("planner", `${url}/#/planner`, "Planner", (page) => page.locator("tr.chosen").waitFor());
  await poke(browsing, url);
  await plan(browsing, url);
  await frame(browsing, url);
}

async function poke(browsing, url) {
  await browsing.visit(`${url}/#/how`, "light", async (page) => {
    const said = page.locator(".verdict");
    const set = () => page.locator(".cell.set").count();
    await page.locator(".cell.set").first().waitFor();
    const before = await set();
    await page.getByLabel("A word", { exact: true }).fill("pear");
    await page.getByRole("button", { name: "Insert", exact: true }).click();
    assert.match(await said.textContent(), /“pear” is in/);
    const after = await set();
    assert.ok(after > before && after <= before + 3, `${before} to ${after} bits`);
    assert.equal(await page.locator(".cell.probe").count() <= 3, true);
    await page.getByRole("button", { name: "Ask", exact: true }).click();
    assert.match(await said.textContent(), /Maybe.*you inserted it/);
    await page.getByLabel("A word", { exact: true }).fill("zeppelin");
    await page.keyboard.press("Tab");
    await page.getByRole("button", { name: "Ask", exact: true }).click();
    assert.match(await said.textContent(), /Certainly not/);
    assert.ok(await page.locator(".cell.missing").count() >= 1);
    // The rate that is shown rises with what is in it, and so do the bits.
    const fact = async (name) => parseFloat(await page.locator(`dl.facts dt:text-is("${name}") + dd`).textContent());
    const seen = [];
    for (let at = 0; at < 4; at += 1) {
      await page.getByRole("button", { name: "Insert 10 words" }).click();
      seen.push({ words: await fact("Words"), bits: await fact("Bits set"), measured: await fact("Measured rate"), theory: await fact("By theory") });
    }
    for (const name of ["words", "bits", "measured", "theory"]) {
      assert.ok(seen.every((now, at) => at === 0 || now[name] > seen[at - 1][name]), `${name}: ${JSON.stringify(seen)}`);
    }
    assert.ok(seen.at(-1).measured > 10, `${seen.at(-1).measured} % of a filter that is nearly full`);
    await page.getByRole("button", { name: "Find a false positive" }).click();
    assert.match(await said.textContent(), /a false positive.*was never inserted/);
    // It is one: the word is not among those that were inserted, and all that the filter looks at is set.
    const wrong = await page.getByLabel("A word", { exact: true }).inputValue();
    assert.equal(await page.getByRole("button", { name: `Ask for ${wrong}`, exact: true }).count(), 0);
    assert.deepEqual([await page.locator(".cell.probe").count() >= 1, await page.locator(".cell.missing").count()], [true, 0]);
    await browsing.picture(page, "how-false-positive");
    for (const kind of ["Blocked", "Counting", "Cuckoo"]) {
      await page.getByRole("radio", { name: kind }).check({ force: true });
      await page.getByLabel("A word", { exact: true }).fill("apple");
      await page.getByRole("button", { name: "Ask", exact: true }).click();
      assert.match(await said.textContent(), /Maybe/);
      assert.equal(new URL(page.url()).hash, `#/how?kind=${kind.toLowerCase()}`);
      // Blocks stand apart, counters count, a cuckoo table has buckets.
      const shape = { Blocked: ".cells.block.chosen", Counting: ".cell.probe:text-matches('^[1-9]$')", Cuckoo: ".bucket.probe .slot.hit" }[kind];
      assert.ok(await page.locator(shape).count() >= 1, shape);
      if (kind !== "Blocked") {
        await page.getByRole("button", { name: "Remove", exact: true }).click();
        assert.match(await said.textContent(), /“apple” is out again/);
      }
      for (let at = 0; at < 3; at += 1) await page.getByRole("button", { name: "Insert 10 words" }).click();
      await browsing.picture(page, `how-${kind.toLowerCase()}`);
    }
    // 64 slots, and thirty words a try: one is refused in the end.
    for (let at = 0; at < 6; at += 1) await page.getByRole("button", { name: "Insert 10 words" }).click();
    assert.match(await said.textContent(), /found no room/);
  });
  told("how: inserting, asking, a false positive, four kinds, a full table");
}

async function plan(browsing, url) {
  await browsing.visit(`${url}/#/planner?items=10000000&rate=0.001&deletes=1`, "light", async (page) => {
    const line = (name) => page.locator(".lines > div", { hasText: name }).locator("code");
    assert.equal(await page.getByLabel("Keys", { exact: true }).first().inputValue(), "10,000,000");
    assert.match(await page.locator(".notice h2").textContent(), /cuckoo/);
    assert.match(await line("Any Redis client").textContent(), /^BG\.CREATE keys KIND cuckoo CAPACITY 10000000 RATE 0\.001$/);
    await page.getByLabel("Keys are removed").uncheck();
    assert.match(await page.locator(".notice h2").textContent(), /blocked/);
    assert.equal(new URL(page.url()).hash, "#/planner?items=10000000&rate=0.001");
    await page.getByRole("slider", { name: "Keys" }).focus();
    await page.keyboard.press("ArrowRight");
    assert.equal(await page.getByLabel("Keys", { exact: true }).first().inputValue(), "11,000,000");
    await sliders(page, line);
    await page.getByRole("button", { name: "cuckoo", exact: true }).click();
    assert.match(await page.locator(".notice").first().textContent(), /keeps keys for ever/);
    await page.getByRole("button", { name: "Copy: RESP command" }).click();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^BG\.CREATE keys KIND cuckoo/);
    const wrong = page.locator("#text-1, input[inputmode=decimal]").first();
    await wrong.fill("many");
    assert.equal(await wrong.getAttribute("aria-invalid"), "true");
    assert.ok(await page.getByText("please.").first().isVisible());
  });
  told("planner: links, sliders, kinds, copying, wrong numbers");
}

/** Growth and window by keys alone: each step says what it is, and result and address follow. */
async function sliders(page, line) {
  const [growth, window] = ["Growth", "Window"].map((name) => page.getByRole("slider", { name }));
  const said = (slider) => slider.getAttribute("aria-valuetext");
  const address = () => new URLSearchParams(new URL(page.url()).hash.split("?")[1]);
  assert.equal(await said(growth), "not at all");
  await growth.focus();
  for (const [key, words, value] of [["ArrowRight", "to 1.2 times as many", "1.2"], ["ArrowRight", "to 1.5 times as many", "1.5"], ["End", "nobody knows how far", "unknown"]]) {
    await page.keyboard.press(key);
    assert.deepEqual([await said(growth), address().get("growth")], [words, value]);
  }
  assert.match(await page.locator(".notice h2").textContent(), /scalable/);
  await page.keyboard.press("ArrowLeft");
  assert.match(await line("Any Redis client").textContent(), /CAPACITY 1100000000 /);
  await page.keyboard.press("Home");
  assert.equal(address().get("growth"), null);
  await window.focus();
  let steps = 0;
  for (; (await said(window)) !== "1 day"; steps += 1) {
    assert.ok(steps < 20, await said(window));
    await page.keyboard.press("ArrowRight");
  }
  assert.match(await page.locator(".notice h2").textContent(), /rotating/);
  assert.match(await line("Command line").textContent(), /dedup .*--window 86400s/);
  assert.match(await line("Rust").textContent(), /std::time::Duration::from_secs\(86400\)/);
  assert.equal(address().get("window"), "86400");
  // A link may say what lies between two steps.
  const between = await page.context().newPage();
  await between.goto(page.url().replace("window=86400", "window=5400&growth=2.5"));
  await between.locator("tr.chosen").waitFor();
  assert.equal(await said(between.getByRole("slider", { name: "Window" })), "90 minutes");
  assert.equal(await said(between.getByRole("slider", { name: "Growth" })), "to 2.5 times as many");
  assert.match(await between.locator(".lines > div", { hasText: "Any Redis client" }).locator("code").textContent(), /CAPACITY 27500000 RATE 0\.001 WINDOW 5400$/);
  await between.close();
}

async function frame(browsing, url) {
  await browsing.visit(`${url}/#/how`, "light", async (page) => {
    await page.locator("h1", { hasText: "How it works" }).waitFor();
    // The theme is kept over a reload.
    await page.getByRole("radio", { name: "Dark" }).check({ force: true });
    const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await paper();
    await page.reload();
    await page.locator("h1", { hasText: "How it works" }).waitFor();
    assert.equal(await paper(), dark);
    await page.getByRole("radio", { name: "Auto" }).check({ force: true });
    assert.notEqual(await paper(), dark);
    // By keyboard alone: the skip link, then a page, whose heading has the focus.
    await page.reload();
    await page.locator("h1", { hasText: "How it works" }).waitFor();
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the page");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
    await page.locator("h1", { hasText: "How it works" }).waitFor();
    await page.getByRole("link", { name: "Planner" }).focus();
    await page.keyboard.press("Enter");
    await page.locator("h1", { hasText: "Planner" }).waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Planner");
    await page.goBack();
    await page.locator("h1", { hasText: "How it works" }).waitFor();
    await page.goto(`${url}/#/nowhere`);
    await page.locator("h1", { hasText: "There is no such page" }).waitFor();
    await checkTree(page, "There is no such page");
    await checkContrast(page);
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "There is no such page");
  });
  await browsing.visit(`${url}/#/how`, "phone", async (page) => {
    await page.locator("h1", { hasText: "How it works" }).waitFor();
    assert.equal(await page.getByRole("link", { name: "Planner" }).isVisible(), false);
    await page.getByRole("button", { name: "Menu" }).click();
    assert.equal(await page.getByRole("button", { name: "Menu" }).getAttribute("aria-expanded"), "true");
    await page.screenshot({ path: `${browsing.shots}/menu-phone.png` });
    await page.keyboard.press("Escape");
    assert.equal(await page.evaluate(() => document.activeElement.matches("button.menu")), true);
    await page.getByRole("button", { name: "Menu" }).click();
    await page.getByRole("link", { name: "Planner" }).click();
    await page.locator("h1", { hasText: "Planner" }).waitFor();
    assert.equal(await page.getByRole("link", { name: "Planner" }).isVisible(), false);
  });
  await browsing.visit(`${url}/#/how`, "light", async (page) => {
    await page.locator("h1", { hasText: "How it works" }).waitFor();
    const moving = await page.evaluate(() => [...document.querySelectorAll("*")].filter((each) => parseFloat(getComputedStyle(each).transitionDuration) > 0).length);
    assert.equal(moving, 0, "things that move though less motion is asked for");
  }, { reducedMotion: "reduce" });
  told("frame: theme, keyboard, back, menu on a phone, less motion");
}
