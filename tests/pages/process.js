// A process of a test's own: to hold it up, to kill it, to start it again where it was, and to bring it into a bad state.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Milliseconds that a start may take. */
const STARTS_IN = 60_000;

export class Process {
  #child = null;
  #text = "";

  /** Starts it, and waits until its log says `pattern`; the groups of that are then in `told`. */
  static async start(binary, words, pattern) {
    const started = new Process();
    started.#child = spawn(binary, words, { stdio: ["ignore", "ignore", "pipe"] });
    started.told = await new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`not ready: ${started.#text}`)), STARTS_IN);
      started.#child.stderr.on("data", (data) => {
        started.#text += data;
        const found = pattern.exec(started.#text);
        if (!found) return;
        clearTimeout(late);
        resolve(found.slice(1));
      });
      started.#child.on("exit", () => reject(new Error(`it ended: ${started.#text}`)));
    });
    return started;
  }

  /** A server, on free ports unless they are said. */
  static async server(binary, words, { resp = "127.0.0.1:0", http = "127.0.0.1:0" } = {}) {
    const server = await Process.start(binary, ["serve", "--resp", resp, "--http", http, ...words], /ready on (\S+?:\d+)[ ,].*HTTP on ([0-9.:]+)/);
    [server.resp, server.http] = server.told;
    return Object.assign(server, { url: `http://${server.http}`, port: Number(server.resp.split(":").at(-1)) });
  }

  /** A gate before products in a file of SQLite, or before what the words say; ready, or waiting for its source. */
  static async gate(binary, words, pattern = /gate ready on (http\S+)[^]*filters? ready/) {
    const gate = await Process.start(binary, ["gate", "--listen", "127.0.0.1:0", ...words], pattern);
    [gate.url] = gate.told;
    return gate;
  }

  signal(name) {
    this.#child.kill(name);
  }

  /** Ends it, and waits for that. */
  async end(signal = "SIGTERM") {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    // One that was stopped hears nothing.
    this.#child.kill("SIGCONT");
    this.#child.kill(signal);
    await ended;
  }
}

/** Gives a folder to `work`, and takes it away. */
export async function inFolder(work) {
  const folder = mkdtempSync(join(tmpdir(), "bloomgate-pages-"));
  try {
    await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Statements for a file of SQLite. */
export function sqlite(file, ...statements) {
  const program = "import sqlite3, sys\nshop = sqlite3.connect(sys.argv[1], timeout=30)\nfor statement in sys.argv[2:]: shop.execute(statement)\nshop.commit()";
  execFileSync("python3", ["-c", program, file, ...statements]);
}

/** A file of SQLite with so many products. */
export function shop(file, products = 500) {
  sqlite(file, "CREATE TABLE products (sku TEXT PRIMARY KEY, price INTEGER) WITHOUT ROWID",
    `WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${products}) INSERT INTO products SELECT 'sku-' || n, n FROM numbers`);
  return file;
}

/** Runs a line as a terminal would that somebody pastes it into; what it prints. */
export function pasted(line, { input = "", env = {} } = {}) {
  return execFileSync("sh", ["-ec", line], { encoding: "utf8", input, timeout: 30_000, env: { ...process.env, ...env } });
}
