// What must hold on every page, whatever it shows: names for whoever does not see it, contrast, room, quiet.

import assert from "node:assert/strict";

/** Roles that somebody acts on, and must have a name. */
const ACTED_ON = new Set(["button", "link", "textbox", "searchbox", "slider", "checkbox", "radio", "combobox", "listbox", "image", "img", "meter"]);

/** The accessibility tree as the browser tells it to screen readers. */
async function tree(page) {
  const session = await page.context().newCDPSession(page);
  const { nodes } = await session.send("Accessibility.getFullAXTree");
  await session.detach();
  return nodes.filter((node) => !node.ignored).map((node) => ({ role: node.role?.value, name: (node.name?.value ?? "").trim() }));
}

/** Landmarks, one first heading, and a name for everything that is acted on. */
export async function checkTree(page, heading) {
  const nodes = await tree(page);
  const of = (role) => nodes.filter((node) => node.role === role);
  assert.equal(of("main").length, 1, "one main landmark");
  const nameless = nodes.filter((node) => ACTED_ON.has(node.role) && node.name === "");
  assert.deepEqual(nameless, [], "everything that is acted on has a name");
  const firsts = await page.locator("h1").allTextContents();
  assert.deepEqual(firsts.length, 1, `one first heading, not ${JSON.stringify(firsts)}`);
  if (heading) assert.equal(firsts[0], heading);
  const ids = await page.evaluate(() => [...document.querySelectorAll("[id]")].map((element) => element.id));
  assert.equal(new Set(ids).size, ids.length, `ids that come twice: ${ids.filter((id, at) => ids.indexOf(id) !== at)}`);
  return nodes;
}

/** Text stands out from what is behind it: 4.5 to 1, large text 3 to 1 (WCAG 2.2, 1.4.3). */
export async function checkContrast(page) {
  const poor = await page.evaluate(() => {
    const parts = (colour) => {
      const canvas = (globalThis.contrastCanvas ??= new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true }));
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
      return { red, green, blue, alpha: alpha / 255 };
    };
    const light = ({ red, green, blue }) => {
      const linear = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
      return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
    };
    const behind = (element) => {
      for (let at = element; at; at = at.parentElement) {
        const colour = parts(getComputedStyle(at).backgroundColor);
        if (colour.alpha > 0.95) return colour;
      }
      return { red: 255, green: 255, blue: 255 };
    };
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const element = node.parentElement;
      const text = node.textContent.trim();
      if (text === "" || !element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) || element.closest(".hidden, [disabled], noscript, option, title, datalist")) continue;
      const style = getComputedStyle(element);
      const colour = element.closest("svg") ? style.fill : style.color;
      const [front, back] = [light(parts(colour)), light(behind(element))];
      const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
      const size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      if (ratio < (large ? 3 : 4.5)) found.push(`${text.slice(0, 40)}: ${ratio.toFixed(2)} (${colour})`);
    }
    return [...new Set(found)];
  });
  assert.deepEqual(poor, [], "text that does not stand out");
}

/** Nothing is wider than the window, and no table than its place. */
export async function checkRoom(page, width = page.viewportSize().width) {
  const wide = await page.evaluate(() => {
    const most = document.documentElement.clientWidth + 1;
    const tables = [...document.querySelectorAll(".table-wrap")].filter((each) => each.scrollWidth > each.clientWidth + 1);
    if (tables.length > 0) return tables.map((each) => `table ${each.ariaLabel}: ${each.scrollWidth} in ${each.clientWidth}`);
    if (document.documentElement.scrollWidth <= most) return [];
    const outside = [...document.querySelectorAll("body *")].filter((element) => element.getBoundingClientRect().right > most && !element.closest(".table-wrap, .hidden"));
    return outside.slice(0, 5).map((element) => `${element.tagName}.${element.className} ${Math.round(element.getBoundingClientRect().right)}`);
  });
  assert.deepEqual(wide, [], `wider than the window of ${width} px`);
}

/** Every element that takes the focus by Tab is seen to have it, and every control can be reached. */
export async function checkKeyboard(page) {
  await page.evaluate(() => {
    document.activeElement?.blur();
    scrollTo(0, 0);
  });
  const reached = new Set();
  const wanted = await page.evaluate(() => {
    const controls = [...document.querySelectorAll("a[href], button, input, select, textarea, [tabindex='0']")];
    const seen = controls.filter((each) => each.checkVisibility({ checkVisibilityCSS: true }) && !each.disabled);
    // Of a group of radio buttons Tab reaches one.
    const radios = new Set();
    return seen.filter((each) => {
      if (each.type !== "radio") return true;
      const first = !radios.has(each.name);
      radios.add(each.name);
      return first;
    }).length;
  });
  for (let at = 0; at < wanted + 20; at += 1) {
    await page.keyboard.press("Tab");
    const now = await page.evaluate(() => {
      const element = document.activeElement;
      if (!element || element === document.body) return null;
      element.dataset.reached ??= String(Math.random());
      const style = getComputedStyle(element);
      const beside = element.nextElementSibling ? getComputedStyle(element.nextElementSibling) : style;
      const outlined = (each) => each.outlineStyle !== "none" && parseFloat(each.outlineWidth) >= 1;
      return { key: element.dataset.reached, outlined: outlined(style) || outlined(beside), what: `${element.tagName}.${element.className} ${element.textContent.slice(0, 30)}` };
    });
    if (!now) continue;
    if (reached.has(now.key)) break;
    assert.ok(now.outlined, `the focus is not seen on ${now.what}`);
    reached.add(now.key);
  }
  assert.ok(reached.size >= wanted, `Tab reached ${reached.size} of ${wanted} controls`);
}
