// A command as people type it, cut into words as redis-cli does; and replies as they are read. Pure.

/** The bytes of a word that is put together of text and of single bytes. */
class Word {
  #bytes = [];
  #text = "";

  text(more) {
    this.#text += more;
  }

  byte(value) {
    this.#close();
    this.#bytes.push(value);
  }

  // Only when it is whole: half of a character that takes two units is none.
  #close() {
    for (const byte of new TextEncoder().encode(this.#text)) this.#bytes.push(byte);
    this.#text = "";
  }

  end() {
    this.#close();
    return Uint8Array.from(this.#bytes);
  }
}

/**
 * The words of a line, as bytes: quotes hold spaces, and in double ones \n, \t, \", \\ and \x41 are what they are in redis-cli.
 * \xc3\xa9 are two bytes, as the server writes them where a name is no plain text.
 */
export function splitWords(line) {
  const words = [];
  let at = 0;
  while (at < line.length) {
    if (/\s/.test(line[at])) {
      at += 1;
      continue;
    }
    const word = new Word();
    while (at < line.length && !/\s/.test(line[at])) {
      const quote = line[at];
      if (quote !== "\"" && quote !== "'") {
        word.text(quote);
        at += 1;
        continue;
      }
      at += 1;
      for (;;) {
        if (at >= line.length) throw new Error(`A quote is not closed: ${quote}`);
        if (line[at] === quote) break;
        if (line[at] === "\\" && quote === "\"") {
          const hex = /^\\x([0-9a-fA-F]{2})/.exec(line.slice(at, at + 4));
          if (hex) {
            word.byte(parseInt(hex[1], 16));
            at += 4;
            continue;
          }
          const next = line[at + 1];
          word.text({ n: "\n", r: "\r", t: "\t", b: "\b", a: "\x07" }[next] ?? next ?? "");
          at += 2;
          continue;
        }
        if (line[at] === "\\" && quote === "'" && line[at + 1] === "'") at += 1;
        word.text(line[at]);
        at += 1;
      }
      at += 1;
    }
    words.push(word.end());
  }
  return words;
}

/** Bytes in base64: JSON has texts alone, and not every word is one. */
export function base64(bytes) {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

/** A reply as redis-cli shows it: numbered lists, pairs of maps, texts in quotes. */
export function replyText(reply, indent = "") {
  if (reply === null || reply === undefined) return "(nil)";
  if (typeof reply === "number") return `(${Number.isInteger(reply) ? "integer" : "double"}) ${reply}`;
  if (typeof reply === "boolean") return reply ? "(true)" : "(false)";
  if (typeof reply === "string") return indent === "" ? reply : JSON.stringify(reply);
  if (typeof reply.base64 === "string" && Object.keys(reply).length === 1) return `(bytes, base64) ${reply.base64}`;
  const list = Array.isArray(reply);
  const parts = list ? reply.map((value, at) => [`${at + 1})`, value]) : Object.entries(reply).map(([name, value]) => [`${name} =>`, value]);
  if (parts.length === 0) return list ? "(empty array)" : "(empty map)";
  return parts.map(([name, value]) => {
    const lead = `${name} `;
    const deeper = indent + " ".repeat(list ? lead.length : 2);
    const nested = value !== null && typeof value === "object" && !(typeof value.base64 === "string");
    return nested && !list ? `${lead}\n${deeper}${replyText(value, deeper)}` : `${lead}${replyText(value, deeper || " ")}`;
  }).join(`\n${indent}`);
}
