// SPDX-License-Identifier: Apache-2.0
// Builds index.html, page.js, page.css and the hash of page.js that a self-contained file names in its policy.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';

const out = resolve(process.env.PLIMSOLL_PAGE_OUT ?? '../build/page');

// An inline script ends at the first "</script": the bundle must not hold one, nor the start of a comment.
function hashOfScript(): Plugin {
  return {
    name: 'hash-of-script',
    closeBundle() {
      const file = join(out, 'page.js');
      const text = readFileSync(file, 'utf8').replace(/<\/script/gi, '<\\/script').replace(/<!--/g, '<\\!--');
      writeFileSync(file, text);
      writeFileSync(join(out, 'page.js.sha256'), 'sha256-' + createHash('sha256').update(text).digest('base64') + '\n');
    },
  };
}

export default defineConfig({
  plugins: [svelte(), hashOfScript()],
  base: './',
  build: {
    outDir: out,
    emptyOutDir: true,
    target: 'es2022',
    cssCodeSplit: false,
    modulePreload: false,
    assetsInlineLimit: 100_000,
    rollupOptions: {
      output: { entryFileNames: 'page.js', assetFileNames: 'page[extname]', inlineDynamicImports: true },
    },
  },
});
