// How it works: a small filter to poke. Insert a word and watch its bits light up, ask for another, and meet a false positive.

import { lineChart } from "../chart.js";
import { calm, el, replace, setText } from "../dom.js";
import { count, counted, digits, rate as percent } from "../format.js";
import { bar, card, choice, head, pill } from "../parts.js";
import { dice, findFalsePositive, measure, randomWord, sketch } from "../sketch.js";

const KINDS = {
  classic: { name: "Classic", how: "A word sets a few bits, anywhere in the row. Asked again, all of them must be set: one that is not proves that the word was never inserted." },
  blocked: { name: "Blocked", how: "A word first chooses one block, and all its bits lie in it. A processor then fetches one cache line for a lookup instead of several. Blocks fill unevenly, so it takes a few more bits." },
  counting: { name: "Counting", how: "Each cell counts how many words lie on it, so that a word can be taken out again: four bits where the others have one." },
  cuckoo: { name: "Cuckoo", how: "A word leaves a fingerprint of 8 bits in one of two buckets. Where both are full, one that lies there moves to its other bucket. It can be taken out again, and a full table says so." },
};

const FIRST = ["apple", "plum", "cherry"];

export function show({ parameters }) {
  let kind = Object.hasOwn(KINDS, parameters.get("kind") ?? "") ? parameters.get("kind") : "classic";
  let [cells, hashes] = [128, 3];
  let filter = null;
  let shownAt = { places: [] };
  const seeds = { word: dice(11), ask: 1 };
  let trail = [];

  const word = el("input", { type: "text", id: "how-word", maxlength: "40", autocomplete: "off", autocapitalize: "off", spellcheck: "false", placeholder: "a word, such as pear" });
  const stage = el("div", { class: "stage-of-bits" });
  const said = el("div", { class: "notice verdict", role: "status" });
  const inside = el("ul", { class: "words", "aria-label": "Words in the filter" });
  const numbers = el("dl", { class: "facts" });
  const explained = el("p", { class: "lead" });
  const removeButton = el("button", { type: "button", on: { click: () => act("remove") } }, "Remove");
  const chart = lineChart(230);
  const unset = el("span", {});
  const legend = el("p", { class: "legend" }, el("span", {}, el("span", { class: "swatch", "aria-hidden": "true" }), "orange: looked at for the word"), unset);

  const bitsChoice = el("div", { class: "field" });
  // A slot of the table has the room of two cells here.
  const sizes = () => {
    const [name, cellsOfOne] = kind === "cuckoo" ? ["Slots", 2] : [kind === "counting" ? "Counters" : "Bits", 1];
    replace(bitsChoice, el("span", { class: "label" }, name),
      choice(name, [64, 128, 256].map((size) => [String(size), String(size / cellsOfOne)]), String(cells), (value) => {
        cells = Number(value);
        reset();
      }));
  };
  const hashesInput = el("input", { type: "range", id: "how-hashes", min: 1, max: 8, step: 1, value: hashes });
  const hashesOut = el("output", { for: "how-hashes" }, hashes);
  const hashesName = el("span", {}, "Bits of a word");
  const hashesField = el("div", { class: "field" }, el("label", { for: "how-hashes" }, hashesName, hashesOut), hashesInput);
  hashesInput.addEventListener("input", () => {
    hashes = Number(hashesInput.value);
    setText(hashesOut, hashes);
    reset();
  });

  function reset() {
    filter = sketch(kind, cells, hashes);
    trail = [[0, 0]];
    for (const each of FIRST) filter.insert(each);
    trail.push([filter.words.size, measure(filter, 1_500, 5)]);
    shownAt = { places: [] };
    tell("", `${FIRST.length} words are in it`, "Insert one of your own, or ask for one.");
    setText(explained, KINDS[kind].how);
    setText(hashesName, kind === "counting" ? "Counters of a word" : "Bits of a word");
    replace(unset, el("span", { class: "swatch missing", "aria-hidden": "true" }), kind === "counting" ? "red: at 0, which proves absence" : "red: not set, which proves absence");
    removeButton.hidden = kind !== "counting" && kind !== "cuckoo";
    hashesField.hidden = unset.hidden = kind === "cuckoo";
    draw();
  }

  function tell(state, title, ...sentences) {
    said.className = `notice verdict ${state}`;
    replace(said, el("strong", {}, title), sentences.filter(Boolean).map((sentence) => el("p", {}, sentence)));
  }

  function act(what) {
    const text = word.value.trim();
    if (text === "") {
      tell("warn", "A word is missing", "Write one in the field, or press “Insert 10 words”.");
      word.focus();
      return;
    }
    ({ insert, query, remove })[what](text);
    draw();
  }

  const names = (places) => places.map((place) => `#${place}`).join(", ");

  function insert(text) {
    const known = filter.words.has(text);
    const done = filter.insert(text);
    trail.push([filter.words.size, measure(filter, 1_500, 5)]);
    shownAt = { ...done, text };
    if (kind === "cuckoo") {
      if (!done.ok) return tell("bad", `No room for “${text}”`, "Fifty moves found no free slot: the table is full. It refuses, and everything that was in it is still there.");
      const moved = done.moves.length;
      return tell("ok", `“${text}” is in`, `Its fingerprint is ${hex(done.print)}; it may lie in bucket ${done.first} or ${done.second}.`,
        moved > 0 ? `Both were full: ${counted(moved, "fingerprint")} moved to make room.` : "");
    }
    const fresh = done.fresh.length;
    tell("ok", `“${text}” is in`, `${done.block === null ? "" : `Block ${done.block}. `}Its ${kind === "counting" ? "counters" : "bits"} are ${names(done.places)}: ${fresh === 0 ? `all of them were ${kind === "counting" ? "above 0" : "set"} already` : `${counted(fresh, "of them is new", "of them are new")}`}.`,
      !known && fresh === 0 ? "So the filter would have said “maybe” before: that was a false positive." : "");
  }

  function query(text) {
    const answer = filter.query(text);
    shownAt = { ...answer, text };
    tellAnswer(text, answer);
  }

  function tellAnswer(text, answer) {
    if (!answer.maybe) {
      tell("ok", "Certainly not", kind === "cuckoo"
        ? `The fingerprint of “${text}”, ${hex(answer.print)}, is in neither bucket ${answer.first} nor bucket ${answer.second}.`
        : kind === "counting" ? `Counter #${answer.missing} of “${text}” is 0. Whoever had inserted it would have raised it. A “no” is never wrong.`
          : `Bit #${answer.missing} of “${text}” is not set. Whoever had inserted it would have set it. A “no” is never wrong.`);
      return;
    }
    if (answer.truth) {
      tell("", "Maybe", `All it looks at for “${text}” is there, and you know that it is right: you inserted it. The filter does not know.`);
      return;
    }
    const by = kind === "cuckoo" ? answer.found.map((found) => `“${found.word}”`).join(", ")
      : [...new Set(answer.places)].map((place) => `#${place} by “${[...filter.owners[place]][0] ?? "?"}”`).join(", ");
    tell("warn", "Maybe: a false positive", `“${text}” was never inserted. ${kind === "cuckoo" ? `Its fingerprint ${hex(answer.print)} is that of ${by}, in a bucket of its own.` : `Its ${kind === "counting" ? "counters were raised" : "bits were set"} by others: ${by}.`}`,
      "That is the price: such a key is looked up for nothing. A larger filter makes it rarer.");
  }

  function remove(text) {
    const done = filter.remove(text);
    trail.push([filter.words.size, measure(filter, 1_500, 5)]);
    shownAt = { ...done, text };
    if (!done.ok) tell("ok", `“${text}” is certainly not in it`, "There is nothing to remove.");
    else if (done.truth) tell("ok", `“${text}” is out again`, kind === "cuckoo" ? "One fingerprint was taken out." : "Its counters are one lower.");
    else tell("bad", `“${text}” was never inserted`, "It looked as if it were there, and removing it took away what belongs to other words: one of them may now get a wrong “no”. Remove only what was added.");
  }

  function insertMany(number) {
    let refused = 0;
    for (let at = 0; at < number; at += 1) {
      let each = randomWord(seeds.word);
      while (filter.words.has(each)) each += randomWord(seeds.word);
      if (!filter.insert(each).ok) refused += 1;
      else trail.push([filter.words.size, null]);
    }
    trail.at(-1)[1] = measure(filter, 1_500, 5);
    trail = trail.filter(([, value]) => value !== null);
    shownAt = { places: [] };
    tell(refused > 0 ? "bad" : "ok", refused > 0 ? `${counted(refused, "word")} found no room` : `${counted(number, "word")} more`,
      `${percent(filter.fill)} of it is taken; of words nobody inserted, ${percent(trail.at(-1)[1])} get a “maybe”.`);
    draw();
  }

  function seek() {
    seeds.ask += 1;
    const found = findFalsePositive(filter, seeds.ask);
    if (!found) {
      shownAt = { places: [] };
      tell("ok", "None in 20,000 words", "The filter is still too empty. Insert more words and try again.");
    } else {
      word.value = found.word;
      shownAt = { ...found, text: found.word };
      tellAnswer(found.word, found);
      said.append(el("p", {}, el("small", {}, `Found at the ${count(found.tried)}${["st", "nd", "rd"][found.tried - 1] ?? "th"} word that was tried.`)));
    }
    draw();
  }

  function draw() {
    replace(stage, kind === "cuckoo" ? buckets() : grid());
    const measured = trail.at(-1)[1];
    replace(inside, [...filter.words.keys()].slice(-60).map((each) =>
      el("li", {}, el("button", { type: "button", "aria-label": `Ask for ${each}`, on: { click: () => {
        word.value = each;
        act("query");
      } } }, each))));
    replace(numbers,
      el("dt", {}, "Words"), el("dd", {}, count(filter.words.size)),
      el("dt", {}, { cuckoo: "Slots taken", counting: "Counters above 0" }[kind] ?? "Bits set"), el("dd", {}, `${filter.used} of ${filter.size} (${percent(filter.fill)})`, bar(filter.fill, filter.fill > 0.7 && kind !== "cuckoo" ? "warn" : "")),
      el("dt", {}, "Measured rate"), el("dd", {}, percent(measured)),
      el("dt", {}, "By theory"), el("dd", {}, percent(filter.expectedWith(filter.words.size))));
    drawCurve();
  }

  function grid() {
    const probes = new Set(shownAt.places ?? []);
    const fresh = new Set(calm() ? [] : shownAt.fresh ?? []);
    const set = filter.used;
    const cell = (value, place) => {
      const classes = ["cell", value > 0 ? "set" : "", probes.has(place) ? (value > 0 ? "probe" : "missing") : "", fresh.has(place) ? "fresh" : ""].filter(Boolean).join(" ");
      return el("span", { class: classes, title: `#${place}` }, kind === "counting" ? value : value > 0 ? "1" : "0");
    };
    // The blocks of a blocked filter stand apart, and the one that the word chose is framed.
    const size = kind === "blocked" ? filter.blockSize : filter.size;
    const groups = Array.from({ length: filter.size / size }, (_, block) =>
      el("div", { class: `cells${kind === "blocked" ? " block" : ""}${shownAt.block === block ? " chosen" : ""}` }, filter.cells.slice(block * size, (block + 1) * size).map((value, at) => cell(value, block * size + at))));
    return el("div", { class: "blocks", role: "img", "aria-label": `${filter.size} cells, ${set} set${probes.size > 0 ? `; of “${shownAt.text}”: ${[...probes].map((place) => `${place} ${filter.cells[place] > 0 ? "set" : "not set"}`).join(", ")}` : ""}` },
      groups);
  }

  function buckets() {
    const near = new Set([shownAt.first, shownAt.second]);
    return el("div", { class: "buckets", role: "img", "aria-label": `${filter.buckets} buckets of four slots, ${filter.used} taken` },
      filter.slots.map((slots, bucket) => el("div", { class: `bucket${near.has(bucket) ? " probe" : ""}` },
        el("span", { class: "name" }, bucket),
        slots.map((held) => el("span", { class: `slot${held ? " set" : ""}${held && near.has(bucket) && held.print === shownAt.print ? " hit" : ""}`, title: held?.word }, held ? hex(held.print) : "··")))));
  }

  function drawCurve() {
    const most = Math.max(20, Math.ceil(Math.max(...trail.map(([words]) => words)) * 1.15));
    const theory = [];
    for (let words = 0; words <= most && (kind !== "cuckoo" || words <= filter.size); words += 1) {
      theory.push([words, filter.expectedWith(words)]);
    }
    const high = Math.min(1, Math.max(0.05, ...trail.map(([, value]) => value * 1.25), theory.at(-1)[1]));
    chart.draw({
      title: "False positives against words",
      words: `With ${filter.words.size} words ${percent(trail.at(-1)[1])} were measured; theory says ${percent(filter.expectedWith(filter.words.size))}.`,
      x: { label: "words in the filter", kind: "linear", range: [0, most], format: (value) => digits(value, 4) },
      y: { label: "wrong “maybe”", kind: "linear", range: [0, high], format: (value) => percent(value) },
      series: [
        { name: "theory", points: theory, tone: 1, area: true },
        { name: "measured with 1,500 words", points: [...trail].sort(([a], [b]) => a - b), tone: 2, dashed: true },
      ],
      marks: [{ x: filter.words.size, y: trail.at(-1)[1], label: "you are here" }],
    });
  }

  const ask = el("form", { class: "stack", on: { submit: (event) => {
    event.preventDefault();
    act(event.submitter?.value === "insert" ? "insert" : "query");
  } } },
  el("div", { class: "field" }, el("label", { for: "how-word" }, "A word"), word),
  el("div", { class: "row" }, el("button", { class: "primary", value: "insert" }, "Insert"), el("button", { value: "query" }, "Ask"), removeButton));

  const node = el("div", { class: "stack" },
    head("How it works", "A filter forgets the words and keeps a few bits of each. Poke it.",
      choice("Kind", Object.entries(KINDS).map(([name, { name: title }]) => [name, title]), kind, (value) => {
        kind = value;
        history.replaceState(null, "", `#/how?kind=${kind}`);
        sizes();
        reset();
      })),
    explained,
    el("div", { class: "split how" },
      el("div", { class: "stack" },
        card("Try it", ask, el("div", { class: "row" },
          el("button", { type: "button", on: { click: () => insertMany(10) } }, "Insert 10 words"),
          el("button", { type: "button", on: { click: seek } }, "Find a false positive"),
          el("button", { type: "button", class: "quiet", on: { click: reset } }, "Start over"))),
        card("Its size", bitsChoice, hashesField, numbers)),
      el("div", { class: "stack" }, card(null, said, stage, legend, el("div", { class: "stack" }, el("h3", {}, "What you inserted (the filter does not know)"), inside)),
        card(null, chart.node))));
  sizes();
  reset();
  return { node, stop: () => chart.stop() };
}

const hex = (number) => number.toString(16).padStart(2, "0");
