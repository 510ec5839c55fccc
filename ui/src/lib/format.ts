// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them. Bytes are binary, as the command line prints them.

const kUnits = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function bytes(value: number, digits = 2): string {
  let unit = 0;
  let size = Math.abs(value);
  while (size >= 1024 && unit < kUnits.length - 1) {
    size /= 1024;
    ++unit;
  }
  return `${value < 0 ? '−' : ''}${size.toFixed(unit === 0 ? 0 : digits)} ${kUnits[unit]}`;
}

export function signedBytes(value: number): string {
  return value > 0 ? `+${bytes(value)}` : bytes(value);
}

export function seconds(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return '0 s';
  if (size < 1e-3) return `${(value * 1e6).toFixed(1)} µs`;
  if (size < 1) return `${(value * 1e3).toFixed(1)} ms`;
  if (size < 120) return `${value.toFixed(3)} s`;
  if (size < 7200) return `${(value / 60).toFixed(1)} min`;
  return `${(value / 3600).toFixed(1)} h`;
}

export function count(value: number): string {
  return Math.round(value).toLocaleString('en-US').replace(/,/g, '\u202f');
}

export function percent(share: number, digits = 1): string {
  return `${(100 * share).toFixed(digits)} %`.replace('-', '−');
}

export function signedPercent(share: number): string {
  const text = percent(share);
  return share > 0 ? `+${text}` : text;
}

/** Where the gridlines of an axis lie: round numbers, about `most` of them. */
export function ticks(from: number, to: number, most: number): number[] {
  const length = to - from;
  if (!(length > 0)) return [];
  const raw = length / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw) ?? 10 * power;
  const result: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to + step * 1e-9; at += step) result.push(at);
  return result;
}

/** Round values for an axis of ratios: 1, 2 and 5 of every power of ten, and finer ones where the axis is short. */
export function ratioTicks(from: number, to: number, most: number): number[] {
  if (!(from > 0) || to / from < 2) return ticks(from, to, most);
  for (const digits of [[1, 1.5, 2, 3, 4, 5, 6, 8], [1, 2, 3, 5], [1, 2, 5], [1]]) {
    const result: number[] = [];
    for (let power = 10 ** Math.floor(Math.log10(from)); power <= to; power *= 10)
      for (const digit of digits) if (digit * power >= from && digit * power <= to) result.push(digit * power);
    if (result.length <= most || digits.length === 1) return result;
  }
  return [];
}

/** The same for bytes: powers of two. */
export function byteTicks(to: number, most: number): number[] {
  if (!(to > 0)) return [];
  let step = 1;
  while (to / step > most) step *= 2;
  if (to / (step * 0.75) <= most && step > 4) {
    // steps of ten GiB read better than steps of eight
    const unit = 1024 ** Math.floor(Math.log2(step) / 10);
    const nice = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500].map((n) => n * unit).find((n) => to / n <= most);
    if (nice) step = nice;
  }
  const result: number[] = [];
  for (let at = 0; at <= to; at += step) result.push(at);
  return result;
}
