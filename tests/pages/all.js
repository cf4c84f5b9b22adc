// Everything that is looked at in a browser: `all.js BROWSER SHOTS JSON [VIEW]`, the JSON says where the processes are.

import { anywhere } from "./anywhere.js";
import { Browsing } from "./browsing.js";
import { gate } from "./gate.js";
import { server } from "./server.js";

const [browser, shots, places, view] = process.argv.slice(2);
const at = JSON.parse(places);
const browsing = await Browsing.open(browser, shots, view ? [view] : undefined);
let failed = null;
try {
  if (at.server) await server(browsing, at.server);
  await anywhere(browsing, (at.server ?? at.gate).url);
  if (at.gate) await gate(browsing, at.gate);
} catch (error) {
  failed = error;
}
await browsing.close();
if (failed) {
  console.error(failed);
  console.error(`how the page looked: ${shots}/failed.png`);
  process.exit(1);
}
