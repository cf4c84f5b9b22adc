// Everything that is looked at in a browser: `all.js BROWSER SHOTS JSON`. The JSON says where the processes are, and may name
// one view to look at pages in, and a folder of pages that are shown instead of those in the binary.

import { anywhere } from "./anywhere.js";
import { Browsing } from "./browsing.js";
import { demo } from "./demo.js";
import { gate } from "./gate.js";
import { server } from "./server.js";

const [browser, shots, places] = process.argv.slice(2);
const at = JSON.parse(places);
const browsing = await Browsing.open(browser, shots, { views: at.view ? [at.view] : undefined, files: at.files });
let failed = null;
try {
  if (at.server) await server(browsing, at.server);
  await anywhere(browsing, (at.server ?? at.gate ?? at.demo).url);
  if (at.gate) await gate(browsing, at.gate);
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
