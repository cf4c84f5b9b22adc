// Everything that is looked at in a browser: `all.js BROWSER SHOTS JSON`. The JSON says where the processes are, with which binary
// more of them are started, and may name one view to look at pages in, and a folder of pages that are shown instead of its own.

import { anywhere } from "./anywhere.js";
import { Browsing } from "./browsing.js";
import { connection } from "./connection.js";
import { demo } from "./demo.js";
import { gate } from "./gate.js";
import { server } from "./server.js";
import { gateStates, serverStates } from "./states.js";

const [browser, shots, places] = process.argv.slice(2);
const at = JSON.parse(places);
const browsing = await Browsing.open(browser, shots, { views: at.view ? [at.view] : undefined, files: at.files });
let failed = null;
try {
  if (at.server) {
    await connection(browsing, at.binary);
    await serverStates(browsing, at.binary);
    await server(browsing, at.server);
  }
  await anywhere(browsing, (at.server ?? at.gate ?? at.demo).url);
  if (at.gate) {
    await gateStates(browsing, at.binary);
    await gate(browsing, at.gate);
  }
  if (at.demo) await demo(browsing, at.demo);
} catch (error) {
  failed = error;
}
await browsing.close();
if (failed) {
  console.error(failed);
  console.error(`how the page looked: ${shots}/failed.png`);
  process.exit(1);
}
