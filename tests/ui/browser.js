// SPDX-License-Identifier: Apache-2.0
// The program and a browser for a test: plimsoll view on some files, and Debian's Chromium on its address.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

export const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
export const program = resolve(process.env.PLIMSOLL_PROGRAM ?? join(root, 'build/release/src/plimsoll'));
export const page = resolve(process.env.PLIMSOLL_PAGE ?? join(root, 'build/page'));
const environment = { ...process.env, PLIMSOLL_PAGE: page, DISPLAY: '', WAYLAND_DISPLAY: '' };

/** plimsoll view on these files; ends with end(). */
export async function serve(files = [], flags = []) {
  const child = spawn(program, ['view', ...files, '--no-browser', ...flags], { cwd: root, env: environment });
  let said = '';
  child.stderr.on('data', (data) => (said += data));
  const address = await new Promise((done, fail) => {
    child.stdout.once('data', (data) => done(String(data).trim()));
    child.once('exit', (code) => fail(new Error(`plimsoll view ended with ${code}: ${said}`)));
  });
  return {
    address,
    child,
    port: Number(new URL(address).port),
    token: new URL(address).searchParams.get('token'),
    said: () => said,
    async end() {
      if (child.exitCode !== null) return child.exitCode;
      const ended = new Promise((done) => child.once('exit', done));
      child.kill('SIGINT');
      return ended;
    },
  };
}

/** What the command line prints with --json, and its exit code. */
export function cli(...words) {
  const run = spawnSync(program, [...words, '--json'], { cwd: root, env: environment, maxBuffer: 1 << 28, encoding: 'utf8' });
  return { code: run.status, answer: run.stdout ? JSON.parse(run.stdout) : null, said: run.stderr };
}

export async function launch(options = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-ui-'));
  const context = await chromium.launchPersistentContext(folder, {
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    headless: true,
    viewport: { width: 1280, height: 720 },
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync'],
    ...options,
  });
  return {
    context,
    async close() {
      await context.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A tab on the address, with everything it complains about. */
export async function open(context, address) {
  const tab = await context.newPage();
  const complaints = [];
  const foreign = [];
  tab.on('pageerror', (error) => complaints.push(String(error)));
  tab.on('console', (message) => {
    if (message.type() === 'error' && !message.text().includes('status of 4')) complaints.push(message.text());
  });
  tab.on('request', (request) => {
    const { hostname, protocol } = new URL(request.url());
    if (!['127.0.0.1', 'localhost'].includes(hostname) && !['data:', 'blob:', 'file:'].includes(protocol)) foreign.push(request.url());
  });
  await tab.goto(address);
  return { tab, complaints, foreign };
}
