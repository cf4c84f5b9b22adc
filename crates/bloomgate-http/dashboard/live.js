// What happens now, once for all pages: the stream of events of the server or of the gate.

import { follow } from "./api.js";

/** Seconds that are remembered for the curves. */
const REMEMBERED = 300;
/** Milliseconds that a hidden page goes on listening. */
const HIDDEN_FOR = 30_000;

class Live {
  #listeners = new Map();
  /** The last of each kind: what a page shows before the next one comes. */
  last = { line: "connecting", stats: null, alerts: [], gate: null };
  /** [{at, overview}] or [{at, gate}], a second each, the oldest first. */
  history = [];
  /** When something came last. */
  heard = null;
  /** Tries at once to listen again, where the line was lost. */
  again = () => {};

  /** Calls `listener` with every `kind` from now on, and with the last one at once; gives a function that ends it. */
  on(kind, listener) {
    if (!this.#listeners.has(kind)) this.#listeners.set(kind, new Set());
    this.#listeners.get(kind).add(listener);
    if (this.last[kind] !== null && this.last[kind] !== undefined) listener(this.last[kind]);
    return () => this.#listeners.get(kind).delete(listener);
  }

  #tell(kind, value) {
    if (kind in this.last) this.last[kind] = value;
    for (const listener of this.#listeners.get(kind) ?? []) listener(value);
  }

  #remember(entry) {
    this.history.push(entry);
    if (this.history.length > REMEMBERED) this.history.shift();
  }

  /** Puts what the server remembers before what was seen here, for whoever has just come. */
  seed({ at_ms, lookups, definitely_not }) {
    const first = this.history[0]?.at ?? Infinity;
    const before = at_ms.map((at, index) => ({ at, overview: { per_second: { lookups: lookups[index], definitely_not: definitely_not[index] } } }));
    this.history = [...before.filter((entry) => entry.at < first), ...this.history].slice(-REMEMBERED);
  }

  /** Follows the events while the page is looked at: a browser has few connections to one place, and tabs that nobody sees
   * would use them up. */
  start(about) {
    const path = about.process === "gate" ? about.events.replace(/^\//, "") : "v1/events";
    let [following, leaving] = [null, 0];
    this.again = () => following?.again();
    const begin = () => {
      clearTimeout(leaving);
      // Timers of a page that nobody saw may be a minute late: the next try is now.
      this.again();
      following ??= follow(path, {
        line: (line) => this.#tell("line", line),
        event: (kind, data) => {
          this.heard = Date.now();
          if (kind === "stats") this.#remember({ at: data.at_ms, overview: data.overview });
          if (kind === "gate") this.#remember({ at: Date.now(), gate: data });
          this.#tell(kind, kind === "alerts" ? data.alerts : data);
        },
      });
    };
    const end = () => {
      following?.stop();
      following = null;
    };
    addEventListener("online", this.again);
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") begin();
      else leaving = setTimeout(end, HIDDEN_FOR);
    });
    begin();
  }
}

export const live = new Live();
