// SPDX-License-Identifier: Apache-2.0
// An answer that follows its question: the latest one wins, the one before is shown until then.
import { ask, isAbort, Refusal, type Body } from './api';

export class Live<T> {
  value = $state.raw<T | null>(null);
  error = $state.raw<Refusal | null>(null);
  loading = $state(false);
  milliseconds = $state(0); // of the last answer

  #key = '';
  #abort: AbortController | null = null;

  /** Asks unless the same is already asked; null asks nothing. */
  follow(path: string, body: Body | null): void {
    const key = body === null ? '' : path + JSON.stringify(body);
    if (key === this.#key) return;
    this.#key = key;
    this.#abort?.abort();
    if (body === null) {
      this.value = null;
      this.error = null;
      this.loading = false;
      return;
    }
    const abort = new AbortController();
    this.#abort = abort;
    this.loading = true;
    const started = performance.now();
    ask<T>(path, body, abort.signal)
      .then((value) => {
        if (this.#abort !== abort) return;
        this.value = value;
        this.error = null;
        this.milliseconds = performance.now() - started;
        this.loading = false;
      })
      .catch((error: unknown) => {
        if (this.#abort !== abort || isAbort(error)) return;
        this.error = error instanceof Refusal ? error : new Refusal(String(error));
        this.loading = false;
      });
  }

  cancel(): void {
    this.#abort?.abort();
    this.#abort = null;
    this.#key = '';
    this.loading = false;
  }
}
