// What happens now, once for all pages: the server's stream of events, or the gate's figures asked for once a second.

import { follow, get } from "./api.js";

/** Seconds that are remembered for the curves. */
const REMEMBERED = 300;

class Live {
  #listeners = new Map();
  /** The last of each kind: what a page shows before the next one comes. */
  last = { line: "connecting", stats: null, alerts: [], gate: null };
  /** [{at, overview}] or [{at, gate}], a second each, the oldest first. */
  history = [];

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

  start(about) {
    if (about.process === "gate") this.#pollGate(about.stats);
    else this.#followServer();
  }

  #followServer() {
    follow("v1/events", {
      line: (line) => this.#tell("line", line),
      event: (kind, data) => {
        if (kind === "stats") {
          this.#remember({ at: data.at_ms, overview: data.overview });
          this.#tell("stats", data);
        } else if (kind === "alerts") this.#tell("alerts", data.alerts);
        else this.#tell(kind, data);
      },
    });
  }

  /** The gate has one page of figures and no stream: it is asked each second while the page is looked at. */
  async #pollGate(path) {
    for (;;) {
      if (document.visibilityState === "visible") {
        try {
          const gate = await get(path.replace(/^\//, ""));
          this.#remember({ at: Date.now(), gate });
          this.#tell("line", "live");
          this.#tell("gate", gate);
        } catch (error) {
          this.#tell("line", error.status === 401 ? "login" : "lost");
        }
      }
      await new Promise((wake) => setTimeout(wake, 1_000));
    }
  }
}

export const live = new Live();
