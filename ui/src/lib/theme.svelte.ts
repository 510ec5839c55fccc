// SPDX-License-Identifier: Apache-2.0
// Light or dark, and the colours that canvases draw with: they are those of the style sheet.

type Choice = 'system' | 'light' | 'dark';
const kKey = 'plimsoll-theme';

function remembered(): Choice {
  try {
    const kept = localStorage.getItem(kKey);
    return kept === 'light' || kept === 'dark' ? kept : 'system';
  } catch {
    return 'system';
  }
}

const system = matchMedia('(prefers-color-scheme: dark)');
export const theme = $state({ choice: remembered(), systemDark: system.matches, version: 0 });
system.addEventListener('change', (event) => {
  theme.systemDark = event.matches;
  apply();
});

export const isDark = (): boolean => (theme.choice === 'system' ? theme.systemDark : theme.choice === 'dark');

let kept = new Map<string, string>();
export function apply(): void {
  document.documentElement.dataset.theme = isDark() ? 'dark' : 'light';
  kept = new Map();
  ++theme.version;
}

export function toggle(): void {
  theme.choice = isDark() ? 'light' : 'dark';
  try {
    localStorage.setItem(kKey, theme.choice);
  } catch {
    // a file opened from disk may have no storage; the choice holds until it is closed
  }
  apply();
}

/** A colour of the style sheet; reading it in a drawing redraws when the theme changes. */
export function colour(name: string): string {
  void theme.version;
  let value = kept.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    kept.set(name, value);
  }
  return value;
}

/** The colour of a category of memory; the same name has the same colour in every view. */
const kCategory: Record<string, string> = {
  parameters: 'c-parameters',
  gradients: 'c-gradients',
  'optimizer state': 'c-optimizer',
  activations: 'c-activations',
  temporaries: 'c-temporaries',
  workspaces: 'c-workspaces',
  communication: 'c-communication',
  'allocator rounding': 'c-rounding',
  'cached, unused': 'c-cached',
  'CUDA context': 'c-context',
  NCCL: 'c-nccl',
  free: 'c-free',
  parameter: 'c-parameters',
  gradient: 'c-gradients',
  'optimizer-state': 'c-optimizer',
  activation: 'c-activations',
  temporary: 'c-temporaries',
  unattributed: 'c-rounding',
};
const kOthers = ['c-workspaces', 'c-communication', 'c-context', 'c-nccl'];

export function categoryColour(name: string): string {
  const known = kCategory[name];
  if (known) return colour(known);
  let hash = 0;
  for (let i = 0; i < name.length; ++i) hash = (hash * 31 + name.charCodeAt(i)) >>> 0;
  return colour(kOthers[hash % kOthers.length]);
}

/** One of twelve colours that can be told apart, for series without a meaning of their own. */
export function seriesColour(index: number): string {
  return colour(`s${index % 12}`);
}
