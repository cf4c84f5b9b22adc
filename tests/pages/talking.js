// Talking to the processes under test from outside the browser.

import net from "node:net";

import { splitWords } from "./dashboard/words.js";

/** A command as clients send it. */
function encoded(line) {
  const words = splitWords(line);
  return Buffer.concat([Buffer.from(`*${words.length}\r\n`), ...words.flatMap((word) => [Buffer.from(`$${word.length}\r\n`), word, Buffer.from("\r\n")])]);
}

/** Sends commands, one after the other, and waits until each has a reply; gives all replies as they came. */
export function resp(port, commands, login) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, "127.0.0.1");
    const lines = login ? [login, ...commands] : commands;
    let text = "";
    socket.setTimeout(60_000, () => reject(new Error(`no reply to all of ${lines.length} commands: ${text.slice(-200)}`)));
    socket.on("error", reject);
    socket.on("close", () => reject(new Error(`the server ended the conversation: ${text.slice(-200)}`)));
    // A PING at the end marks it: its word comes in no other reply here.
    socket.on("data", (data) => {
      text += data;
      if (!text.includes("the-end-of-it")) return;
      socket.end();
      const errors = text.split("\r\n").filter((line) => line.startsWith("-"));
      if (errors.length > 0) reject(new Error(errors[0]));
      else resolve(text);
    });
    socket.write([...lines, "PING the-end-of-it"].map(encoded).reduce((all, one) => Buffer.concat([all, one])));
  });
}

/** JSON over HTTP. */
export async function json(url, options) {
  const response = await fetch(url, options);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return response.json();
}

/** So many keys that begin alike: key-1 … key-n. */
export const keys = (prefix, number, from = 1) => Array.from({ length: number }, (_, at) => `${prefix}${from + at}`);
