// SPDX-License-Identifier: Apache-2.0
// The view of a job, in a browser: what it shows is what the command line says, and it follows its knobs.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { cli, launch, open, serve } from './browser.js';

let view;
let browser;
let page;
before(async () => {
  view = await serve(['examples/llama3-70b.toml']);
  browser = await launch();
  page = await open(browser.context, view.address);
  await page.tab.waitForSelector('[data-lever]');
});
after(async () => {
  await browser?.close();
  await view?.end();
});

const number = (selector, attribute) => page.tab.locator(selector).first().getAttribute(attribute).then(Number);

test('shows the numbers of the command line', async () => {
  const { answer } = cli('fit', 'examples/llama3-70b.toml', '--all-ranks');
  const worst = answer.ranks.find((rank) => rank.pp_rank === answer.worst_rank);
  assert.equal(await number('dd[data-bytes]', 'data-bytes'), worst.device_used_bytes);
  assert.equal(await number('dd[data-seconds]', 'data-seconds'), answer.time.step_seconds);
  for (const rank of answer.ranks)
    assert.equal(await number(`[data-rank="${rank.pp_rank}"]`, 'data-used'), rank.device_used_bytes);
  for (const row of worst.table)
    if (row.bytes !== 0) assert.equal(await number(`[data-row="${row.name}"]`, 'data-bytes'), row.bytes);
  for (const change of answer.changes)
    assert.equal(await number(`[data-lever="${change.lever}"]`, 'data-bytes'), change.difference_bytes);
});

test('a turned knob changes the answer and the address, and can be put back', async () => {
  const { tab } = page;
  const before = await number('dd[data-bytes]', 'data-bytes');
  await tab.getByRole('button', { name: 'double micro-batch' }).click();
  const { answer } = cli('fit', 'examples/llama3-70b.toml', '--all-ranks', '--micro-batch-size', '2');
  const worst = answer.ranks.find((rank) => rank.pp_rank === answer.worst_rank);
  await tab.waitForSelector(`dd[data-bytes="${worst.device_used_bytes}"]`);
  assert.match(await tab.evaluate(() => location.hash), /micro_batch_size%3D2/);
  assert.equal(await tab.locator('[data-value="verdict"]').textContent(), 'does not fit');
  await tab.getByRole('button', { name: 'put micro-batch back' }).click();
  await tab.waitForSelector(`dd[data-bytes="${before}"]`);
});

test('says nothing to other hosts and nothing to the console', () => {
  assert.deepEqual(page.foreign, []);
  assert.deepEqual(page.complaints, []);
});
