// SPDX-License-Identifier: Apache-2.0
// Questions to the server, or to the answers that a self-contained file holds. The page computes nothing: what it
// shows is in these answers.

export type Body = {
  files?: string[];
  keys?: Record<string, string>;
  flags?: string[];
  rank?: number;
  event?: number;
  columns?: number;
  from?: number;
  to?: number;
  low?: number;
  high?: number;
  axis?: string;
  by?: string;
  setting?: string;
  ask?: string; // a name for the question, to give it up by
};

export class Refusal extends Error {
  hint: string;
  status: number;
  constructor(message: string, hint = '', status = 0) {
    super(message);
    this.hint = hint;
    this.status = status;
  }
}

type Baked = { version: string; answers: Record<string, unknown> };
const bakedText = document.getElementById('baked')?.textContent;
const baked: Baked | null = bakedText ? (JSON.parse(bakedText) as Baked) : null;

/** A file that was sent: nothing can be asked beyond what it holds. */
export const isBaked = baked !== null;

const token = new URLSearchParams(location.search).get('token') ?? '';

// What a baked answer is found by: the question without what only zooming and hovering change.
export function bakedKey(path: string, body: Body): string {
  const { files = [], keys = {}, flags = [], rank = 0, axis = '', by = '', setting = '' } = body;
  const sorted = Object.entries(keys).sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([path, files, sorted, [...flags].sort(), rank, axis, by, setting]);
}

async function readReply<T>(response: Response): Promise<T> {
  let answer: unknown;
  try {
    answer = await response.json();
  } catch {
    throw new Refusal('the answer of the server cannot be read', '', response.status);
  }
  if (!response.ok) {
    const error = (answer as { error?: { message?: string; hint?: string } }).error;
    throw new Refusal(error?.message ?? `the server refused (${response.status})`, error?.hint ?? '', response.status);
  }
  return answer as T;
}

function post(path: string, body: object, signal?: AbortSignal): Promise<Response> {
  return fetch(`/api/${path}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Plimsoll-Token': token },
    body: JSON.stringify(body),
    signal,
  });
}

// Names of questions differ between pages and within one.
const pageName = Array.from(crypto.getRandomValues(new Uint32Array(2)), (part) => part.toString(36)).join('');
let asked = 0;

// How many answers are on their way, for whoever measures the page from outside.
let waiting = 0;
function wait(by: 1 | -1): void {
  waiting += by;
  document.documentElement.dataset.waiting = String(waiting);
}

export async function ask<T>(path: string, body: Body = {}, signal?: AbortSignal): Promise<T> {
  wait(1);
  try {
    return await askServer<T>(path, body, signal);
  } finally {
    wait(-1);
  }
}

async function askServer<T>(path: string, body: Body = {}, signal?: AbortSignal): Promise<T> {
  if (baked) {
    const found = baked.answers[bakedKey(path, body)] as T | { error: { message: string; hint?: string } } | undefined;
    if (found === undefined)
      throw new Refusal('this file does not hold that answer', 'open the inputs with plimsoll view to ask further');
    if (typeof found === 'object' && found !== null && 'error' in found)
      throw new Refusal(found.error.message, found.error.hint ?? '');
    return found as T;
  }
  const name = `${pageName}-${++asked}`;
  // The server would go on for an answer that nobody waits for.
  const giveUp = (): void => void post('cancel', { cancel: name }).catch(() => {});
  signal?.addEventListener('abort', giveUp, { once: true });
  let response: Response;
  try {
    response = await post(path, signal ? { ...body, ask: name } : body, signal);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal('the server does not answer', 'plimsoll view has ended; start it again and open its new address');
  }
  signal?.removeEventListener('abort', giveUp);
  return readReply<T>(response);
}

export type FileItem = { id: string; name: string; kind: 'job' | 'recording' | 'log' | 'rl' | 'metrics'; bytes: number };

/** Sends a dropped file; `progress` gets shares of 1. */
export function drop(file: File, progress: (share: number) => void, signal?: AbortSignal): Promise<FileItem> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', `/api/drop?name=${encodeURIComponent(file.name)}`);
    request.setRequestHeader('X-Plimsoll-Token', token);
    request.setRequestHeader('Content-Type', 'application/octet-stream');
    request.upload.onprogress = (event) => progress(event.total > 0 ? event.loaded / event.total : 0);
    request.onerror = () => reject(new Refusal(`${file.name} could not be sent`, 'plimsoll view has ended, or the file is too large'));
    request.onabort = () => reject(new Refusal('cancelled'));
    request.onload = () => {
      try {
        const answer = JSON.parse(request.responseText);
        if (request.status === 200) resolve(answer as FileItem);
        else reject(new Refusal(answer.error?.message ?? 'refused', answer.error?.hint ?? '', request.status));
      } catch {
        reject(new Refusal('the answer of the server cannot be read', '', request.status));
      }
    };
    signal?.addEventListener('abort', () => request.abort());
    request.send(file);
  });
}

export const isAbort = (error: unknown): boolean => error instanceof DOMException && error.name === 'AbortError';
