// Asking the process that served the page. Its login is kept for this tab alone.

import { debounced } from "./dom.js";
import { parser, patience } from "./stream.js";

/** What the process said no with: problem details of RFC 9457. */
export class Refusal extends Error {
  constructor(status, title, detail) {
    super(detail);
    this.status = status;
    this.title = title;
  }
}

/** Milliseconds without a byte after which a stream is dead, though nobody said so: figures come each second. */
const SILENCE = 10_000;
/** Milliseconds that a question may take: whoever has not answered by then will not. */
const PATIENCE = 60_000;

const LOGIN = "bloomgate-login";
let login = null;
try {
  login = sessionStorage.getItem(LOGIN);
} catch {}

/** Remembers how to log in for this tab: the value of an Authorization header, or nothing. */
export function setLogin(value) {
  login = value;
  try {
    if (value) sessionStorage.setItem(LOGIN, value);
    else sessionStorage.removeItem(LOGIN);
  } catch {}
}

export const hasLogin = () => login !== null;

/** Who logs in, by a name and a password; nothing without a login, or with a token. */
export function loginName() {
  if (!login?.startsWith("Basic ")) return null;
  const bytes = Uint8Array.from(atob(login.slice(6)), (letter) => letter.charCodeAt(0));
  return new TextDecoder().decode(bytes).split(":")[0];
}

/** The header for a token. */
export const bearer = (token) => `Bearer ${token}`;

/** The header for a user and password, in UTF-8. */
export function basic(user, password) {
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  return `Basic ${btoa(String.fromCharCode(...bytes))}`;
}

const headers = (more) => (login ? { Authorization: login, ...more } : { ...more });

/** Told when a login is missing or wrong. */
let onLogin = () => {};
export const whenLoginIsNeeded = (listener) => (onLogin = listener);

async function send(path, options = {}) {
  let response;
  try {
    // Without the browser's own credentials it does not open its own window for them.
    response = await fetch(path, { credentials: "omit", cache: "no-store", ...options, headers: headers(options.headers) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw silent();
  }
  if (response.ok) return response;
  if (response.status === 401) onLogin(hasLogin());
  throw await refusal(response);
}

async function refusal(response) {
  try {
    const problem = await response.json();
    return new Refusal(response.status, problem.title ?? `Status ${response.status}`, problem.detail ?? "There is no more to say.");
  } catch {
    return new Refusal(response.status, `Status ${response.status}`, `${response.url} answered ${response.status} without saying why.`);
  }
}

/** The JSON under a path. */
export async function get(path, { signal, ...options } = {}) {
  const late = AbortSignal.timeout(PATIENCE);
  try {
    return await (await send(path, { ...options, signal: signal ? AbortSignal.any([signal, late]) : late })).json();
  } catch (error) {
    throw late.aborted && !signal?.aborted ? silent() : error;
  }
}

const silent = () => new Refusal(0, "Bloomgate does not answer", "The process that served this page cannot be reached. It may have been stopped, or the network is gone.");

/** Sends JSON and gives the JSON that comes back, or nothing. */
export async function post(path, body, options = {}) {
  const response = await send(path, {
    method: "POST", body: body === undefined ? "" : JSON.stringify(body), ...options,
    headers: { "Content-Type": "application/json", ...options.headers },
  });
  const text = await response.text();
  return text === "" ? null : JSON.parse(text);
}

/**
 * Follows a stream of events until `stop` is called: told what comes, and how the line is. A machine that froze, or a network that is
 * gone, ends no connection: a line on which nothing comes is ended here. `again` tries at once, where the next try is waited for.
 */
export function follow(path, { event, line }) {
  let [over, failures, attempt, wake] = [false, 0, null, () => {}];
  const quiet = debounced(() => attempt.abort(), SILENCE);
  const listen = async () => {
    attempt = new AbortController();
    quiet();
    const response = await send(path, { headers: { Accept: "text/event-stream" }, signal: attempt.signal });
    const take = parser((message) => event(message.event, JSON.parse(message.data)));
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let isLive = false;
    for (;;) {
      const { done, value } = await reader.read();
      if (done || over) return;
      quiet();
      if (!isLive) line("live");
      [isLive, failures] = [true, 0];
      take(value);
    }
  };
  const run = async () => {
    while (!over) {
      let refused = null;
      try {
        await listen();
      } catch (error) {
        refused = error.status;
      }
      quiet.cancel();
      if (over) return;
      if (refused === 401) return line("login");
      line("lost");
      failures += 1;
      await new Promise((done) => {
        wake = done;
        setTimeout(done, 1000 * patience(failures));
      });
    }
  };
  run();
  return {
    again: () => wake(),
    stop: () => {
      over = true;
      quiet.cancel();
      attempt.abort();
      wake();
    },
  };
}
