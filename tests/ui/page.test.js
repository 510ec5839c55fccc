// SPDX-License-Identifier: Apache-2.0
// How the page behaves: zooming, hovering, dropping, saving, errors, keys; and that everybody can use it.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { spawnSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { launch, open, page as pageFolder, program, root, serve } from './browser.js';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const recording = 'tests/data/snapshots/stacks-evalmix--default.pickle.gz';
const earlier = 'tests/data/snapshots/anatomy-hf-gpt2.pickle.gz';
const metrics = 'tests/data/rl/observe/prime_rl.jsonl';
const inputs = ['examples/llama3-70b.toml', recording, 'examples/logs/llama3-70b.log', 'examples/rl/telescope.toml', earlier, metrics];
// Pictures for the documents: docs/pictures when they are to be made anew, a folder to look at otherwise.
const pictures = process.env.PLIMSOLL_PICTURES ?? join(root, 'build/logs/ui');

let view;
let browser;
let tab;
let complaints;
let foreign;
before(async () => {
  mkdirSync(pictures, { recursive: true });
  view = await serve(inputs);
  browser = await launch();
  ({ tab, complaints, foreign } = await open(browser.context, view.address));
  await tab.waitForSelector('[data-lever]');
});
after(async () => {
  await browser?.close();
  await view?.end();
});

const show = async (hash, selector) => {
  await tab.evaluate((to) => { location.hash = to; }, hash);
  await tab.waitForSelector(selector, { timeout: 20000 });
  await tab.waitForTimeout(250);
};
const kViews = {
  fit: ['#fit?files=f1', '[data-lever]'],
  plan: ['#plan?files=f1', '[data-plan]'],
  recording: ['#recording?files=f2', '[data-panel="peak"] [data-group]'],
  why: ['#why?files=f3', '[data-fix]'],
  rl: ['#rl?files=f4', '[data-panel="knobs"] td'],
  metrics: ['#metrics?files=f6', '[data-verdict]'],
};

test('the bundle is small', () => {
  const bytes = ['index.html', 'page.js', 'page.css'].reduce((sum, name) => sum + gzipSync(readFileSync(join(pageFolder, name))).length, 0);
  assert.ok(bytes <= 400_000, `${bytes} bytes gzipped`);
});

for (const [name, [hash, selector]] of Object.entries(kViews)) {
  test(`${name}: everybody can use it, in light and dark`, async () => {
    await show(hash, selector);
    for (const theme of ['light', 'dark']) {
      if ((await tab.evaluate(() => document.documentElement.dataset.theme)) !== theme) await tab.keyboard.press('t');
      await tab.waitForTimeout(150);
      await tab.evaluate(axe);
      const found = await tab.evaluate(() => axe.run(document, { resultTypes: ['violations'] }));
      assert.deepEqual(found.violations.map((v) => [v.id, v.nodes.map((node) => node.html.slice(0, 120)).slice(0, 3)]), [], theme);
      await tab.setViewportSize({ width: 1280, height: 1000 });
      await tab.waitForTimeout(100);
      await tab.screenshot({ path: join(pictures, `${name}-${theme}.png`) });
      await tab.setViewportSize({ width: 1280, height: 720 });
    }
    await tab.keyboard.press('t');
  });
}

test('a chart zooms, moves and shows what is under the pointer', async () => {
  await show(...kViews.recording);
  const chart = tab.locator('[data-panel="columns"] [role="group"][tabindex]').first();
  await chart.scrollIntoViewIfNeeded();
  const box = await chart.boundingBox();
  await tab.mouse.move(box.x + box.width * 0.6, box.y + box.height * 0.6);
  await tab.waitForSelector('[data-panel="columns"] .tip');
  assert.match(await tab.locator('[data-panel="columns"] .tip').textContent(), /event .*allocated.*GiB/s);
  await tab.mouse.click(box.x + box.width * 0.6, box.y + box.height * 0.6);
  const before = await tab.evaluate(() => location.hash);
  assert.match(before, /event=\d+/);
  for (let i = 0; i < 6; ++i) await tab.keyboard.press('w');
  await tab.waitForFunction(() => {
    const state = new URLSearchParams(location.hash.split('?')[1]);
    return state.has('from') && Number(state.get('to')) - Number(state.get('from')) < 31369 * 0.2;
  });
  const [from, to] = await tab.evaluate(() => ['from', 'to'].map((key) => Number(new URLSearchParams(location.hash.split('?')[1]).get(key))));
  assert.ok(to - from < 31369 * 0.2, `${from} to ${to}`);
  await tab.keyboard.press('d');
  await tab.waitForFunction((old) => Number(new URLSearchParams(location.hash.split('?')[1]).get('from')) > old, from);
  await tab.keyboard.press('f');
  await tab.waitForFunction(() => !/from=/.test(location.hash));
});

test('a block tells who made it', async () => {
  await show(...kViews.recording);
  const chart = tab.locator('[data-panel="blocks"] [role="group"][tabindex]').first();
  await chart.scrollIntoViewIfNeeded();
  const box = await chart.boundingBox();
  // The largest block of the recording lies low and late.
  await tab.mouse.move(box.x + box.width * 0.72, box.y + box.height * 0.62);
  await tab.waitForSelector('[data-panel="blocks"] .tip');
  await tab.mouse.click(box.x + box.width * 0.72, box.y + box.height * 0.62);
  await tab.waitForSelector('[data-object]');
  assert.match(await tab.locator('[data-object]').textContent(), /\.py:\d+/);
});

test('the map of the segments is gone through by keyboard', async () => {
  await show(...kViews.recording);
  const map = tab.locator('[data-panel="segments"] [role="slider"]');
  await map.focus();
  assert.equal(await map.getAttribute('aria-valuetext'), 'no block chosen');
  await tab.keyboard.press('ArrowRight');
  const first = await map.getAttribute('aria-valuetext');
  assert.match(first, /(MiB|KiB|GiB|bytes)$/);
  for (let i = 0; i < 40 && (await map.getAttribute('aria-valuetext')).startsWith('a hole'); ++i) await tab.keyboard.press('ArrowRight');
  await tab.keyboard.press('Enter');
  await tab.waitForSelector('[data-object]');
});

test('an answer that is cancelled is given up by the server', async () => {
  const names = [];
  const cancelled = tab.waitForRequest((request) => request.url().endsWith('/api/cancel'));
  tab.on('request', (request) => {
    if (request.url().endsWith('/api/plan')) names.push(request.postDataJSON().ask);
  });
  await tab.evaluate(() => (location.hash = '#plan?files=f1&set=gpus%3D1024&set=global_batch_size%3D4096'));
  await tab.getByRole('button', { name: 'Cancel' }).click();
  assert.equal((await cancelled).postDataJSON().cancel, names.at(-1));
  assert.ok(names.at(-1).length > 4);
});

test('other settings are drawn on the same axis', async () => {
  await show(...kViews.recording);
  await tab.getByRole('button', { name: 'Try them' }).click();
  await tab.waitForSelector('[data-setting]', { timeout: 30000 });
  await tab.locator('[data-panel="what-if"]').getByRole('button', { name: 'draw' }).first().click();
  await tab.waitForSelector('[data-panel="columns"] :text("reserved under")', { timeout: 30000 });
});

test('two recordings are differenced, with the figures of plimsoll diff', async () => {
  await show(...kViews.recording);
  await tab.locator('[data-panel="diff"] select').selectOption('f5');
  await tab.waitForSelector('[data-difference]', { timeout: 30000 });
  const said = JSON.parse(spawnSync(program, ['diff', earlier, recording, '--json'], { cwd: root, encoding: 'utf8' }).stdout);
  assert.equal(Number(await tab.locator('[data-difference]').getAttribute('data-difference')), said.difference);
  assert.equal(Number(await tab.locator('[data-before]').getAttribute('data-before')), said.a.peak_allocated);
  const rows = await tab.locator('[data-diff-row]').evaluateAll((cells) => cells.map((cell) => [cell.dataset.diffRow, Number(cell.dataset.bytes)]));
  assert.deepEqual(rows, said.categories.filter((row) => row.difference !== 0).map((row) => [row.name, row.difference]));
  assert.match(await tab.evaluate(() => location.hash), /against=f5/);
  await tab.evaluate(axe);
  const found = await tab.evaluate(() => window.axe.run('[data-panel="diff"]'));
  assert.deepEqual(found.violations.map((one) => one.id), []);
  await tab.locator('[data-panel="diff"]').screenshot({ path: join(pictures, 'difference.png') });
});

test('metrics of a run are judged as plimsoll rl --observe judges them', async () => {
  await show(...kViews.metrics);
  const said = JSON.parse(spawnSync(program, ['rl', '--observe', metrics, '--json'], { cwd: root, encoding: 'utf8' }).stdout);
  assert.equal(await tab.locator('[data-verdict]').getAttribute('data-verdict'), said.verdict);
  const values = await tab.locator('[data-evidence]').evaluateAll((cells) => cells.map((cell) => Number(cell.dataset.evidence)));
  assert.deepEqual(values, said.findings.flatMap((finding) => finding.evidence.map((one) => one.value)));
  const knobs = await tab.locator('[data-advice]').evaluateAll((items) => items.map((item) => item.dataset.advice));
  assert.deepEqual(knobs, said.findings.flatMap((finding) => finding.advice.map((one) => one.knob)));
  assert.ok(values.length > 0);
});

test('every configuration that fits is drawn', async () => {
  await show(...kViews.plan);
  const note = await tab.locator('[data-panel="scatter"]').textContent();
  const drawn = Number(/of (.+?) points/.exec(note)[1].replace(/\D/g, ''));
  const said = JSON.parse(spawnSync(program, ['plan', 'examples/llama3-70b.toml', '--json'], { cwd: root, encoding: 'utf8' }).stdout);
  assert.ok(drawn >= said.counts.fit, `${drawn} points of ${said.counts.fit}`);
});

test('a link shows the same view', async () => {
  await show(`#recording?files=f2&by=module&from=5000&to=9000`, '[data-panel="peak"] [data-group]');
  const other = await open(browser.context, await tab.evaluate(() => location.href));
  await other.tab.waitForSelector('[data-panel="peak"] [data-group]', { timeout: 20000 });
  await other.tab.waitForFunction(() => /from=5000/.test(location.hash) && document.querySelector('[aria-label="Stacked by"] [aria-pressed="true"]')?.textContent === 'module');
  await other.tab.close();
});

test('every turn of a knob redraws the answer', async () => {
  await show(...kViews.fit);
  for (const name of ['double sequence length', 'halve sequence length', 'double pipeline', 'halve pipeline']) {
    const before = await tab.locator('dd[data-bytes]').first().getAttribute('data-bytes');
    await tab.getByRole('button', { name, exact: true }).click();
    await tab.waitForFunction((old) => document.querySelector('dd[data-bytes]')?.dataset.bytes !== old, before);
  }
});

test('files are dropped anywhere, and hostile names are text', async () => {
  await show(...kViews.fit);
  const name = '<img src=x onerror=alert(1)>.log';
  const text = '[rank0]: torch.OutOfMemoryError: CUDA out of memory. <script>alert(1)</script> Tried to allocate 2.00 GiB.\n';
  const data = await tab.evaluateHandle(([n, t]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([t], n));
    return transfer;
  }, [name, text]);
  await tab.dispatchEvent('main', 'dragover', { dataTransfer: data });
  await tab.waitForSelector('.dropping');
  await tab.dispatchEvent('main', 'drop', { dataTransfer: data });
  await tab.waitForSelector('[data-class]', { timeout: 15000 });
  await tab.waitForSelector('.log .line');
  assert.match(await tab.locator('.log').textContent(), /<script>alert\(1\)<\/script>/);
  assert.equal(await tab.locator('main img, main script').count(), 0);
});

test('a broken file is explained, not shown', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-broken-'));
  const broken = join(folder, 'broken.pickle');
  writeFileSync(broken, Buffer.from([0x80, 0x04, 0x95, 0xff, 0xff, 0x00, 0x01, 0x02]));
  const other = await serve([broken]);
  const shown = await open(browser.context, other.address);
  await shown.tab.waitForSelector('[role="alert"]', { timeout: 15000 });
  assert.match(await shown.tab.locator('[role="alert"]').first().textContent(), /broken\.pickle/);
  await shown.tab.screenshot({ path: join(pictures, 'error.png') });
  await shown.tab.close();
  await other.end();
  rmSync(folder, { recursive: true });
});

test('nothing at all is an invitation', async () => {
  const other = await serve([]);
  const shown = await open(browser.context, other.address);
  await shown.tab.waitForSelector('text=Does it fit?');
  await shown.tab.evaluate(axe);
  const found = await shown.tab.evaluate(() => axe.run(document, { resultTypes: ['violations'] }));
  assert.deepEqual(found.violations.map((v) => v.id), []);
  await shown.tab.screenshot({ path: join(pictures, 'empty.png') });
  await shown.tab.keyboard.press('?');
  await shown.tab.waitForSelector('dialog[open]');
  await shown.tab.close();
  await other.end();
});

test('a wrong token gets nothing', async () => {
  const reply = await fetch(`http://127.0.0.1:${view.port}/?token=wrong`);
  assert.equal(reply.status, 403);
});

test('a saved file shows the same without a server', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-saved-'));
  const file = join(folder, 'saved.html');
  const made = spawnSync(program, ['view', ...inputs, '--html', file], { cwd: root, env: { ...process.env, PLIMSOLL_PAGE: pageFolder }, encoding: 'utf8' });
  assert.equal(made.status, 0, made.stderr);
  assert.ok(statSync(file).size < 40e6, `${statSync(file).size} bytes`);
  const saved = await open(browser.context, pathToFileURL(file).href);
  await saved.tab.waitForSelector('[data-lever]', { timeout: 20000 });
  const shown = await saved.tab.locator('dd[data-bytes]').first().getAttribute('data-bytes');
  await show(...kViews.fit);
  assert.equal(shown, await tab.locator('dd[data-bytes]').first().getAttribute('data-bytes'));
  for (const [name, selector] of [['Plan', '[data-plan]'], ['Recording', '[data-panel="peak"] [data-group]'], ['Why', '[data-fix]'], ['RL', '[data-panel="knobs"] td']]) {
    await saved.tab.getByRole('button', { name, exact: true }).click();
    await saved.tab.waitForSelector(selector, { timeout: 20000 });
    assert.equal(await saved.tab.locator('[role="alert"]').count(), 0, `${name}: ${await saved.tab.locator('[role="alert"]').allTextContents()}`);
  }
  assert.deepEqual(saved.foreign, []);
  assert.deepEqual(saved.complaints, []);
  await saved.tab.close();
  rmSync(folder, { recursive: true });
});

test('it reads well on a large screen', async () => {
  await tab.setViewportSize({ width: 3840, height: 2160 });
  for (const name of ['fit', 'recording']) {
    await show(...kViews[name]);
    await tab.waitForTimeout(600);
    const wide = await tab.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 3840, `${name} is ${wide} pixels wide`);
    await tab.screenshot({ path: join(pictures, `${name}-4k.png`) });
  }
  await tab.setViewportSize({ width: 1280, height: 720 });
});

test('says nothing to other hosts, nothing to the console, and ends when asked', async () => {
  assert.deepEqual(foreign, []);
  assert.deepEqual(complaints, []);
  assert.equal(await view.end(), 0);
  await tab.evaluate(() => { location.hash = '#fit?files=f1&set=micro_batch_size%3D4'; });
  await tab.waitForSelector('[role="alert"]');
  assert.match(await tab.locator('[role="alert"]').first().textContent(), /does not answer/);
});
