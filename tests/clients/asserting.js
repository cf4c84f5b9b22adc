// What the Node clients' checks share: arguments, groups of checks, and an end at the first wrong answer.
'use strict';

const { isDeepStrictEqual, inspect, parseArgs } = require('node:util');

class Wrong extends Error {}

// What was looked at last: the errors of a client do not say which call they belong to.
let last = 'nothing';

/** The answer is the same, types and all. */
function check(sent, got, expected) {
  last = sent;
  // Replies come as objects with or without a prototype; only their content counts.
  const plain = (value) =>
    value !== null && typeof value === 'object' && !Array.isArray(value) && !Buffer.isBuffer(value) && !(value instanceof Error)
      ? { ...value }
      : value;
  if (!isDeepStrictEqual(plain(got), plain(expected))) {
    throw new Wrong(`sent      ${sent}\nexpected  ${inspect(expected)}\ngot       ${inspect(got, { maxArrayLength: 20 })}`);
  }
}

/** Something about an answer that has no single value. */
function holds(sent, fact, got) {
  last = sent;
  if (!fact) throw new Wrong(`sent      ${sent}\ngot       ${inspect(got)}, which cannot be`);
}

/** The command is refused with these words. */
async function refused(sent, words, call) {
  let got;
  try {
    got = await call();
  } catch (error) {
    if (!String(error.message).includes(words)) {
      throw new Wrong(`sent      ${sent}\nexpected  an error: ${words}\ngot       ${error.name}: ${error.message}`);
    }
    return error;
  }
  throw new Wrong(`sent      ${sent}\nexpected  an error: ${words}\ngot       ${inspect(got)}`);
}

/** Reads the arguments and runs every group; the process ends with code 1 at the first wrong answer. */
async function run(client, groups) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      port: { type: 'string' },
      'guarded-port': { type: 'string' },
      password: { type: 'string' },
      protocol: { type: 'string' },
    },
  });
  const scene = {
    port: Number(values.port),
    guardedPort: Number(values['guarded-port']),
    password: values.password,
    protocol: Number(values.protocol),
  };
  if (!scene.port || !scene.guardedPort || !scene.password || ![2, 3].includes(scene.protocol)) {
    console.error('usage: --port PORT --guarded-port PORT --password TEXT --protocol 2|3 [GROUP...]');
    process.exit(2);
  }
  const name = `${client}, RESP${scene.protocol}`;
  for (const [group, body] of Object.entries(groups)) {
    if (positionals.length > 0 && !positionals.includes(group)) continue;
    try {
      await body(scene);
    } catch (error) {
      const text = error instanceof Wrong ? error.message : `${error.name}: ${error.message}`;
      console.log(`${name}: ${group}: FAILED\n${text}\nafter     ${last}`);
      process.exit(1);
    }
    console.log(`${name}: ${group}: ok`);
  }
  // Nothing may be left open: a client that was not closed would keep the process.
  process.exit(0);
}

module.exports = { check, holds, refused, run };
