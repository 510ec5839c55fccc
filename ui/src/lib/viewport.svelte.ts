// SPDX-License-Identifier: Apache-2.0
// The part of an axis that is looked at. Charts that share one move together.

export class Viewport {
  end = $state(1); // the axis is [0, end]
  from = $state(0);
  to = $state(1);
  cursor = $state<number | null>(null); // under the pointer
  least = 1e-6; // share of the axis that zooming ends at

  /** A new axis; what was looked at stays, as far as it is there. */
  setEnd(end: number): void {
    if (!(end > 0) || end === this.end) return;
    const whole = this.isWhole();
    this.end = end;
    if (whole || this.from >= end) this.show(0, end);
    else this.show(this.from, Math.min(this.to, end));
  }
  isWhole(): boolean {
    return this.from <= 0 && this.to >= this.end;
  }
  show(from: number, to: number): void {
    const length = Math.min(Math.max(to - from, this.end * this.least), this.end);
    const left = Math.min(Math.max(from, 0), this.end - length);
    this.from = left;
    this.to = left + length;
  }
  whole(): void {
    this.show(0, this.end);
  }
  zoom(factor: number, around?: number): void {
    const at = around ?? this.cursor ?? (this.from + this.to) / 2;
    const centre = Math.min(Math.max(at, this.from), this.to);
    const length = Math.min((this.to - this.from) * factor, this.end);
    const share = (centre - this.from) / (this.to - this.from);
    this.show(centre - share * length, centre - share * length + length);
  }
  pan(share: number): void {
    const shift = (this.to - this.from) * share;
    this.show(this.from + shift, this.to + shift);
  }
  /** The keys of Perfetto: true when one of them was meant. */
  key(event: KeyboardEvent): boolean {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    switch (event.key.toLowerCase()) {
      case 'w':
        this.zoom(0.7);
        return true;
      case 's':
        this.zoom(1 / 0.7);
        return true;
      case 'a':
        this.pan(-0.15);
        return true;
      case 'd':
        this.pan(0.15);
        return true;
      case 'f':
        this.whole();
        return true;
      default:
        return false;
    }
  }
}

// WASD act on the chart that was touched last.
let active: Viewport | null = null;
export function activate(view: Viewport): void {
  active = view;
}
export function activeViewport(): Viewport | null {
  return active;
}
