// SPDX-License-Identifier: Apache-2.0
// How long the page takes to follow a knob of the 70B job: from the click until every answer has come, levers
// included, and the frame with them is drawn.
//   tools/page && npm ci --prefix tests/ui --ignore-scripts && node bench/page_knobs.js
import { launch, open, serve } from '../tests/ui/browser.js';

const kTurns = ['double micro-batch', 'halve micro-batch', 'double sequence length', 'halve sequence length'];
const kRounds = 10;

const view = await serve(['examples/llama3-70b.toml']);
const browser = await launch();
const { tab } = await open(browser.context, view.address);
await tab.waitForSelector('[data-lever]');

/** Milliseconds from the click to the first frame after which nothing is waited for. */
const turn = (name) =>
  tab.evaluate(
    (label) =>
      new Promise((done, fail) => {
        const knob = document.querySelector(`button[aria-label="${label}"]`);
        if (!knob) return fail(new Error(`there is no knob '${label}'`));
        const root = document.documentElement;
        const started = performance.now();
        let verdict = 0;
        let quiet = 0; // frames since the last answer came
        let all = 0; // the first of them
        knob.click();
        const look = () => {
          const now = performance.now() - started;
          const stale = document.querySelector('.verdict').ariaBusy === 'true';
          if (verdict === 0 && !stale && now > 5) verdict = now;
          quiet = root.dataset.waiting === '0' ? quiet + 1 : 0;
          if (quiet === 1) all = now;
          if (quiet === 4) return done({ verdict, all });
          requestAnimationFrame(look);
        };
        requestAnimationFrame(look);
      }),
    name,
  );

const turns = [];
for (let round = 0; round < kRounds; ++round) for (const name of kTurns) turns.push(await turn(name));
const shown = (name, pick) => {
  const sorted = turns.map(pick).sort((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))].toFixed(0);
  console.log(`${name}: median ${at(0.5)} ms, 90 % within ${at(0.9)} ms, worst ${at(1)} ms (${sorted.length} turns)`);
};
shown('verdict and ranks', (one) => one.verdict);
shown('every panel', (one) => one.all);
await browser.close();
await view.end();
