// SPDX-License-Identifier: Apache-2.0
// What the page shows is what the command line says: random jobs, recordings and logs, read out of the page.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { cli, launch, open, root, serve } from './browser.js';

// The same on every machine.
let seed = 20260101;
const random = (n) => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return Math.floor((seed / 2 ** 32) * n);
};
const one = (list) => list[random(list.length)];

const jobs = 50;
const files = (folder, count, matches) => {
  const found = [];
  const walk = (at) => {
    for (const entry of readdirSync(join(root, at), { withFileTypes: true }))
      if (entry.isDirectory()) walk(join(at, entry.name));
      else if (matches(entry.name)) found.push(join(at, entry.name));
  };
  walk(folder);
  found.sort();
  const step = Math.max(1, Math.floor(found.length / count));
  return found.filter((_, i) => i % step === 0).slice(0, count);
};
const recordings = files('tests/data/snapshots', 10, (name) => name.endsWith('.pickle.gz'));
const logs = files('tests/data/why/stories', 20, (name) => name.endsWith('.log') || name.endsWith('.txt'));

let browser;
before(async () => {
  browser = await launch();
});
after(async () => browser?.close());

const attribute = async (tab, selector, name) => Number(await tab.locator(selector).first().getAttribute(name));
const goTo = (tab, hash) => tab.evaluate((to) => { location.hash = to; }, hash);

test(`${jobs} random jobs`, async () => {
  const view = await serve(['examples/llama3-70b.toml']);
  const { tab, complaints } = await open(browser.context, view.address);
  await tab.waitForSelector('dd[data-bytes]');
  let refused = 0;
  for (let i = 0; i < jobs; ++i) {
    const keys = {
      tensor_model_parallel_size: one(['1', '2', '4', '8']),
      pipeline_model_parallel_size: one(['1', '2', '4']),
      virtual_pipeline_model_parallel_size: one(['1', '2', '5']),
      micro_batch_size: one(['1', '2', '4']),
      seq_length: one(['2048', '4096', '8192']),
      recompute_granularity: one(['none', 'selective', 'full']),
      global_batch_size: one(['32', '64']),
    };
    const words = Object.entries(keys).flatMap(([key, value]) => [`--${key.replaceAll('_', '-')}`, value]);
    const { code, answer, said } = cli('fit', 'examples/llama3-70b.toml', '--all-ranks', ...words);
    const set = Object.entries(keys).map(([key, value]) => `set=${encodeURIComponent(`${key}=${value}`)}`).join('&');
    const settled = tab.waitForResponse((r) => r.url().endsWith('/api/fit') && (r.request().postData() ?? '').includes(`"seq_length":"${keys.seq_length}"`) && !(r.request().postData() ?? '').includes('changes'));
    await goTo(tab, `#fit?files=f1&n=${i}&${set}`);
    if (code > 1) {
      ++refused;
      const message = said.replace(/^plimsoll: /, '').split('\n')[0];
      await tab.waitForFunction((wanted) => document.querySelector('[role="alert"]')?.textContent.includes(wanted), message, { timeout: 10000 });
      continue;
    }
    await settled.catch(() => {});
    const worst = answer.ranks.find((rank) => rank.pp_rank === answer.worst_rank);
    await tab.waitForSelector(`dd[data-bytes="${worst.device_used_bytes}"]`, { timeout: 10000 });
    assert.equal(await attribute(tab, 'dd[data-seconds]', 'data-seconds'), answer.time.step_seconds);
    assert.equal(await attribute(tab, 'dd[data-headroom]', 'data-headroom'), worst.headroom_bytes);
    const used = await tab.locator('[data-rank]').evaluateAll((all) => all.map((bar) => Number(bar.dataset.used)));
    assert.deepEqual(used, answer.ranks.map((rank) => rank.device_used_bytes));
    const table = await tab.locator('[data-row]').evaluateAll((all) => all.map((cell) => [cell.dataset.row, Number(cell.dataset.bytes)]));
    assert.deepEqual(table, worst.table.filter((row) => row.bytes !== 0).map((row) => [row.name, row.bytes]));
  }
  assert.ok(refused < jobs * 0.8, `${refused} of ${jobs} jobs were refused: too few were compared`);
  assert.deepEqual(complaints, []);
  await tab.close();
  await view.end();
});

test(`${recordings.length} recordings`, async () => {
  const view = await serve(recordings);
  const { tab, complaints } = await open(browser.context, view.address);
  for (let i = 0; i < recordings.length; ++i) {
    const { answer } = cli('replay', recordings[i], '--peak', '--leaks');
    await goTo(tab, `#recording?files=f${i + 1}`);
    await tab.waitForSelector(`dd[data-peak-allocated="${answer.peak_allocated}"]`, { timeout: 15000 });
    await tab.waitForSelector(`dd[data-fragmentation="${answer.fragmentation}"]`, { timeout: 15000 });
    assert.equal(await attribute(tab, '[data-peak-reserved]', 'data-peak-reserved'), answer.peak_reserved, recordings[i]);
    await tab.waitForSelector('[data-panel="peak"] [data-group]');
    const groups = await tab.locator('[data-group]').evaluateAll((all) => all.map((cell) => [cell.dataset.group, Number(cell.dataset.bytes)]));
    assert.deepEqual(groups, answer.peak.categories.filter((group) => group.bytes > 0).map((group) => [group.name, group.bytes]), recordings[i]);
    // What is drawn at the peak is the peak.
    const columns = await tab.evaluate(async (file) => {
      const token = new URLSearchParams(location.search).get('token');
      const reply = await fetch('/api/columns', { method: 'POST', headers: { 'X-Plimsoll-Token': token }, body: JSON.stringify({ files: [file], columns: 700 }) });
      return reply.json();
    }, `f${i + 1}`);
    assert.equal(Math.max(...columns.allocated), answer.peak_allocated, recordings[i]);
    columns.allocated.forEach((allocated, c) => assert.equal(columns.bands.reduce((sum, band) => sum + band.bytes[c], 0), allocated));
  }
  assert.deepEqual(complaints, []);
  await tab.close();
  await view.end();
});

test(`${logs.length} logs`, async () => {
  const view = await serve(logs);
  const { tab, complaints } = await open(browser.context, view.address);
  for (let i = 0; i < logs.length; ++i) {
    const { answer } = cli('why', logs[i]);
    await goTo(tab, `#why?files=f${i + 1}`);
    await tab.waitForFunction((n) => document.querySelector('.log') && document.querySelectorAll('[aria-label="Files"], .file').length >= 0 && location.hash.endsWith(`f${n}`), i + 1);
    await tab.waitForSelector(`[data-class="${answer.class}"][data-confidence="${answer.confidence}"]`, { timeout: 10000 });
    const figures = Object.entries(answer.numbers ?? {}).filter(([, value]) => value !== null);
    await tab.waitForFunction((n) => document.querySelectorAll('[data-figure]').length === n, figures.length);
    const shown = await tab.locator('[data-figure]').evaluateAll((all) => all.map((cell) => [cell.dataset.figure, cell.dataset.value]));
    assert.deepEqual(shown, figures.map(([name, value]) => [name, String(value)]), logs[i]);
    const fixes = await tab.locator('[data-fix]').evaluateAll((all) => all.map((cell) => [cell.dataset.fix, cell.dataset.low === undefined ? null : Number(cell.dataset.low)]));
    assert.deepEqual(fixes, answer.fixes.map((fix) => [fix.id, fix.saves_bytes?.[0] ?? null]), logs[i]);
  }
  assert.deepEqual(complaints, []);
  await tab.close();
  await view.end();
});
