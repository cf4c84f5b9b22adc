// A browser that fails the test for every error that a page logs, and looks at pages in the light, in the dark and on a phone.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { chromium } from "playwright-core";

import { checkContrast, checkKeyboard, checkRoom, checkTree } from "./checks.js";

/** How pages are looked at. */
export const VIEWS = {
  light: { viewport: { width: 1280, height: 860 }, colorScheme: "light" },
  dark: { viewport: { width: 1280, height: 860 }, colorScheme: "dark" },
  phone: { viewport: { width: 390, height: 844 }, colorScheme: "light", hasTouch: true, isMobile: true, deviceScaleFactor: 2 },
};

/** Widths in between, at which every page has to have room too. */
const WIDTHS = [768, 1024];

/** Nothing takes longer. */
const PATIENCE = 40_000;

export class Browsing {
  /** `views` are those that every page is looked at in, all unless said. `files` is a folder whose files are shown in place of
   * those in the binary, under the same headers: while writing. */
  static async open(executablePath, shots, { views = Object.keys(VIEWS), files = null } = {}) {
    mkdirSync(shots, { recursive: true });
    const browsing = new Browsing();
    Object.assign(browsing, { shots, views, files });
    browsing.browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
    return browsing;
  }

  close() {
    return this.browser.close();
  }

  fileAt({ pathname }) {
    const file = `${this.files}${pathname === "/" ? "/index.html" : pathname}`;
    return existsSync(file) ? file : null;
  }

  async giveFile(route) {
    const asked = new URL(route.request().url());
    let response = await route.fetch();
    // A module that the binary does not have yet gets the headers of one that it has.
    if (response.status() === 404) response = await route.fetch({ url: `${asked.origin}/app.js` });
    const file = this.fileAt(asked);
    await route.fulfill({ response, body: readFileSync(file) });
  }

  /** Opens an address in a view, gives the page to `work`, and fails for whatever the page complained about. */
  async visit(url, view, work, options = {}) {
    const context = await this.browser.newContext({ ...VIEWS[view], ...options });
    context.setDefaultTimeout(PATIENCE);
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    if (this.files) await context.route((asked) => this.fileAt(asked) !== null, (route) => this.giveFile(route));
    const page = await context.newPage();
    const complaints = [];
    const allowed = options.allowed ?? [];
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type()) && !allowed.some((pattern) => pattern.test(message.text()))) complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(String(error.stack)));
    page.on("request", (request) => {
      if (!request.url().startsWith(new URL(url).origin) && !request.url().startsWith("data:")) complaints.push(`asked elsewhere: ${request.url()}`);
    });
    await page.addInitScript(() => {
      globalThis.shifted = 0;
      new PerformanceObserver((list) => list.getEntries().forEach((entry) => {
        if (!entry.hadRecentInput) globalThis.shifted += entry.value;
      })).observe({ type: "layout-shift", buffered: true });
    });
    try {
      await page.goto(url);
      await work(page);
      assert.deepEqual(complaints, [], "what the page complained about");
    } catch (error) {
      // A page that hangs gives no picture either; what went wrong counts.
      await page.screenshot({ path: `${this.shots}/failed.png`, fullPage: true, timeout: 5_000 }).catch(() => {});
      throw error;
    } finally {
      await context.close();
    }
  }

  /** A picture of the whole page, from its top. */
  async picture(page, name) {
    await page.evaluate(() => scrollTo(0, 0));
    await page.screenshot({ path: `${this.shots}/${name}.png`, fullPage: true });
  }

  /** The page with all checks, in every view, and a picture of each. */
  async everyView(name, url, heading, ready, options) {
    for (const view of this.views) {
      await this.visit(url, view, async (page) => {
        await page.locator("h1", { hasText: heading }).waitFor();
        await ready?.(page);
        await checkTree(page, heading);
        await checkContrast(page);
        await checkRoom(page);
        await this.picture(page, `${name}-${view}`);
        if (view === "light") await checkKeyboard(page);
        const shifted = await page.evaluate(() => globalThis.shifted);
        if (view === "light") await checkWidths(page);
        assert.ok(shifted < 0.1, `${name}, ${view}: the layout shifted by ${shifted.toFixed(3)}`);
      }, options);
    }
    told(`${name}: ${this.views.join(", ")}`);
  }
}

/** Room at other widths. Charts follow the width of their place a frame later. */
async function checkWidths(page) {
  for (const width of WIDTHS) {
    await page.setViewportSize({ ...VIEWS.light.viewport, width });
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    await checkRoom(page, width);
  }
}

/** One line for each group of checks. */
export function told(line) {
  console.log(`ok ${line}`);
}
