// SPDX-License-Identifier: Apache-2.0
// The state of the page is its address: what is looked at, with which knobs, how far zoomed in. A link shows the same.

export type View = 'fit' | 'plan' | 'recording' | 'why' | 'rl' | 'metrics';
export const kViews: View[] = ['fit', 'plan', 'recording', 'why', 'rl', 'metrics'];

export type Route = {
  view: View;
  files: string[];
  keys: Record<string, string>;
  params: Record<string, string>; // of the view alone: rank, axis, from, to
};

function parse(hash: string): Route {
  const [name, query = ''] = hash.replace(/^#/, '').split('?', 2);
  const search = new URLSearchParams(query);
  const keys: Record<string, string> = {};
  for (const pair of search.getAll('set')) {
    const at = pair.indexOf('=');
    if (at > 0) keys[pair.slice(0, at)] = pair.slice(at + 1);
  }
  const params: Record<string, string> = {};
  for (const [key, value] of search) if (key !== 'set' && key !== 'files') params[key] = value;
  return {
    view: (kViews as string[]).includes(name) ? (name as View) : 'fit',
    files: (search.get('files') ?? '').split(',').filter((id) => id !== ''),
    keys,
    params,
  };
}

function print(route: Route): string {
  const search = new URLSearchParams();
  if (route.files.length > 0) search.set('files', route.files.join(','));
  for (const [key, value] of Object.entries(route.keys)) search.append('set', `${key}=${value}`);
  for (const [key, value] of Object.entries(route.params)) if (value !== '') search.set(key, value);
  const query = search.toString();
  return `#${route.view}${query ? '?' + query : ''}`;
}

export const route = $state<Route>(parse(location.hash));

let known = location.hash; // the address that the route was read from or written to

function readAddress(): void {
  known = location.hash;
  if (known !== print(route)) Object.assign(route, parse(known));
}
addEventListener('hashchange', readAddress);
addEventListener('popstate', readAddress);

export const hasAddress = location.hash !== '';

/** Changes the address; zooming and hovering replace the entry of the history, everything else adds one. */
export function go(change: Partial<Route>, replace = false): void {
  if (location.hash !== known) {
    // Somebody went elsewhere and the event is on its way: that holds, and a late zoom of the view before it does not.
    readAddress();
    if (replace) return;
  }
  Object.assign(route, change);
  const hash = print(route);
  if (hash === location.hash) return;
  known = hash;
  if (replace) history.replaceState(null, '', hash);
  else history.pushState(null, '', hash);
}

export function setKey(key: string, value: string | null): void {
  const keys = { ...route.keys };
  if (value === null) delete keys[key];
  else keys[key] = value;
  go({ keys });
}

export function setParam(changes: Record<string, string | number | null>, replace = true): void {
  const params = { ...route.params };
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === '') delete params[key];
    else params[key] = String(value);
  }
  go({ params }, replace);
}
