// How a terminal talks to this server: which program, where, as whom. Pure.

/** A word as a shell takes it. */
export const shellWord = (text) => (/^[\w.,:@%+/=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

const HERE = ["localhost", "127.0.0.1", "[::1]", "::1"];
const ANYWHERE = ["0.0.0.0", "[::]", ""];

const hostIn = (address) => address.slice(0, address.lastIndexOf(":"));

/** The host that redis-cli is told; nothing where it is the one that it takes by itself. */
function hostOf(address, place) {
  const host = hostIn(address);
  const isHere = HERE.includes(place.hostname);
  if (host === "[::1]") return "::1";
  // What listens on loopback alone is asked on that machine, whatever name the browser has for it.
  if (HERE.includes(host) || (isHere && ANYWHERE.includes(host))) return null;
  return (isHere ? host : place.hostname).replace(/^\[|\]$/g, "");
}

/**
 * The first commands for a server without filters, as somebody types them: one that makes a filter with its first key, one that makes
 * a filter of a chosen size, and what has to be known. `overview` is what the server tells (it listens without TLS, with it, or both),
 * `place` the address of the page, `hasLogin` whether it logs in.
 */
export function firstCommands({ addresses, user }, place, hasLogin) {
  // A user of one namespace is told no addresses.
  const all = addresses ? [addresses.resp, addresses.tls].filter(Boolean) : [":6479"];
  // From another machine that which is not on loopback alone.
  const address = all.find((each) => HERE.includes(place.hostname) || !HERE.includes(hostIn(each))) ?? all[0];
  const tls = address === addresses?.tls;
  const host = hostOf(address, place);
  const cli = ["redis-cli", tls && "--tls", host && `-h ${host}`, `-p ${address.split(":").at(-1)}`,
    // The password is asked for: on the command line everybody on the machine could read it.
    hasLogin && `--user ${shellWord(user?.name ?? "default")} --askpass`].filter(Boolean).join(" ");
  return {
    first: `${cli} BF.ADD visitors alice`, sized: `${cli} BG.CREATE seen KIND blocked CAPACITY 1000000 RATE 0.01`,
    note: tls ? "It listens over TLS alone. If your system does not know who signed its certificate, add --cacert FILE." : null,
  };
}
