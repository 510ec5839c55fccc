// SPDX-License-Identifier: Apache-2.0
// An answer that follows its question: the latest one wins, the one before is shown until then.
import { untrack } from 'svelte';
import { ask, isAbort, Refusal, type Body } from './api';

const keyOf = (path: string, body: Body): string => path + JSON.stringify(body);

export class Live<T> {
  value = $state.raw<T | null>(null);
  error = $state.raw<Refusal | null>(null);
  loading = $state(false);
  milliseconds = $state(0); // of the last answer

  #key = '';
  #shown = $state(''); // what the value, or the refusal, is the answer to
  #abort: AbortController | null = null;
  #next: { path: string; body: Body } | null = null;

  /** Asks unless the same is already asked; null asks nothing. The question before it is given up. */
  follow(path: string, body: Body | null): void {
    if (!this.#isNew(path, body)) return;
    this.#next = null;
    this.#abort?.abort();
    this.#abort = null;
    if (body !== null) return this.#ask(path, body);
    this.value = null;
    this.error = null;
    this.loading = false;
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
    this.loading = false;
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
    const started = performance.now();
    ask<T>(path, body, abort.signal)
      .then((value) => {
        if (this.#abort !== abort) return;
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

  #done(): void {
    this.loading = false;
    const next = this.#next;
    this.#next = null;
    if (next) this.#ask(next.path, next.body);
  }
}
