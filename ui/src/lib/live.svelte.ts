// SPDX-License-Identifier: Apache-2.0
// An answer that follows its question: the latest one wins, the one before is shown until then.
import { untrack } from 'svelte';
import { ask, isAbort, Refusal, type Body } from './api';

const keyOf = (path: string, body: Body): string => path + JSON.stringify(body);

// An answer that comes sooner is waited for without a sign: drawing one takes longer than to see it.
const kSoon = 150; // milliseconds

export class Live<T> {
  value = $state.raw<T | null>(null);
  error = $state.raw<Refusal | null>(null);
  loading = $state(false);
  late = $state(false); // loading for longer than kSoon
  milliseconds = $state(0); // of the last answer
  /** Called with the question when its answer has come, before that is drawn: the server need not wait for the page. */
  answered: ((body: Body) => void) | null = null;

  #key = '';
  #shown = $state(''); // what the value, or the refusal, is the answer to
  #abort: AbortController | null = null;
  #next: { path: string; body: Body } | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Asks unless the same is already asked; null asks nothing. The question before it is given up. */
  follow(path: string, body: Body | null): void {
    if (!this.#isNew(path, body)) return;
    this.#next = null;
    this.#abort?.abort();
    this.#abort = null;
    if (body !== null) return this.#ask(path, body);
    this.value = null;
    this.error = null;
    this.#rest();
  }

  /** The same for pictures that are zoomed: the answer on its way is taken, and the latest question asked after it. */
  pursue(path: string, body: Body): void {
    if (!this.#isNew(path, body)) return;
    // What waits is not to be asked again when the answer comes.
    if (untrack(() => this.loading)) this.#next = { path, body };
    else this.#ask(path, body);
  }

  /** Whether what is shown answers this question, and not one before it. */
  answers(path: string, body: Body): boolean {
    return this.#shown === keyOf(path, body);
  }

  cancel(): void {
    this.#abort?.abort();
    this.#abort = null;
    this.#next = null;
    this.#key = '';
    this.#rest();
  }

  #isNew(path: string, body: Body | null): boolean {
    const key = body === null ? '' : keyOf(path, body);
    if (key === this.#key) return false;
    this.#key = key;
    return true;
  }

  #ask(path: string, body: Body): void {
    const abort = new AbortController();
    this.#abort = abort;
    this.loading = true;
    this.#timer ??= setTimeout(() => (this.late = true), kSoon);
    const started = performance.now();
    ask<T>(path, body, abort.signal)
      .then((value) => {
        if (this.#abort !== abort) return;
        this.answered?.(body);
        this.value = value;
        this.error = null;
        this.#shown = keyOf(path, body);
        this.milliseconds = performance.now() - started;
        this.#done();
      })
      .catch((error: unknown) => {
        if (this.#abort !== abort || isAbort(error)) return;
        this.error = error instanceof Refusal ? error : new Refusal(String(error));
        this.#shown = keyOf(path, body);
        this.#done();
      });
  }

  #rest(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.loading = false;
    this.late = false;
  }

  #done(): void {
    this.#rest();
    const next = this.#next;
    this.#next = null;
    if (next) this.#ask(next.path, next.body);
  }
}
