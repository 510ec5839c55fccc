// SPDX-License-Identifier: Apache-2.0
// A canvas that is as fine as the screen, and what pointer and wheel do on a chart.
import { activate, type Viewport } from './viewport.svelte';

export function prepare(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const scale = Math.min(devicePixelRatio || 1, 3);
  const wide = Math.max(1, Math.round(width * scale));
  const high = Math.max(1, Math.round(height * scale));
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  const context = canvas.getContext('2d')!;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** The size of the page's letters: charts grow with them on large screens. It is asked for often, and asking the page
 *  makes it compute its styles; it follows the width of the window alone. */
let letters = 0;
addEventListener('resize', () => (letters = 0));
export function rem(): number {
  letters ||= parseFloat(getComputedStyle(document.documentElement).fontSize) || 14;
  return letters;
}

export type Frame = { left: number; right: number; width: number };

/** Wheel zooms around the pointer, dragging moves, shift and dragging marks a range to zoom to. */
export function navigate(node: HTMLElement, options: { view: Viewport; frame: () => Frame; pick?: (at: number) => void }) {
  const at = (event: PointerEvent | WheelEvent): number => {
    const { view, frame } = options;
    const { left, right } = frame();
    const box = node.getBoundingClientRect();
    const share = (event.clientX - box.left - left) / Math.max(1, right - left);
    return view.from + Math.min(Math.max(share, 0), 1) * (view.to - view.from);
  };
  let dragging: { x: number; from: number; to: number; moved: boolean } | null = null;

  const wheel = (event: WheelEvent): void => {
    // A page scrolls with the wheel; a chart zooms with it once it was touched, or with Ctrl as maps do.
    if (!event.ctrlKey && !event.shiftKey && document.activeElement !== node) return;
    event.preventDefault();
    const { view } = options;
    if (event.shiftKey) view.pan((event.deltaY || event.deltaX) / 1000);
    else view.zoom(Math.exp(event.deltaY / 400), at(event));
  };
  const down = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    activate(options.view);
    node.focus({ preventScroll: true });
    dragging = { x: event.clientX, from: options.view.from, to: options.view.to, moved: false };
    node.setPointerCapture(event.pointerId);
  };
  const move = (event: PointerEvent): void => {
    activate(options.view);
    options.view.cursor = at(event);
    if (!dragging) return;
    const { left, right } = options.frame();
    const shift = ((dragging.x - event.clientX) / Math.max(1, right - left)) * (dragging.to - dragging.from);
    if (Math.abs(dragging.x - event.clientX) > 3) dragging.moved = true;
    if (dragging.moved) options.view.show(dragging.from + shift, dragging.to + shift);
  };
  const up = (event: PointerEvent): void => {
    if (dragging && !dragging.moved) options.pick?.(at(event));
    dragging = null;
  };
  const leave = (): void => {
    if (!dragging) options.view.cursor = null;
  };
  const key = (event: KeyboardEvent): void => {
    const { view } = options;
    const step = (view.to - view.from) / 100;
    if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
      const before = view.cursor ?? (view.from + view.to) / 2;
      view.cursor = Math.min(Math.max(before + (event.key === 'ArrowLeft' ? -step : step), view.from), view.to);
      event.preventDefault();
    } else if (event.key === 'Enter' && view.cursor !== null) {
      options.pick?.(view.cursor);
    }
  };
  const focus = (): void => activate(options.view);

  node.addEventListener('wheel', wheel, { passive: false });
  node.addEventListener('pointerdown', down);
  node.addEventListener('pointermove', move);
  node.addEventListener('pointerup', up);
  node.addEventListener('pointerleave', leave);
  node.addEventListener('keydown', key);
  node.addEventListener('focus', focus);
  return {
    update(next: typeof options) {
      options = next;
    },
    destroy() {
      node.removeEventListener('wheel', wheel);
      node.removeEventListener('pointerdown', down);
      node.removeEventListener('pointermove', move);
      node.removeEventListener('pointerup', up);
      node.removeEventListener('pointerleave', leave);
      node.removeEventListener('keydown', key);
      node.removeEventListener('focus', focus);
    },
  };
}
