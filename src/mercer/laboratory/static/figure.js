// A picture on a canvas that follows the size of its box and the theme.

import { palette } from "./colours.js";

export const figures = new Set();

export class Figure {
  /** `draw(context, width, height, colours)` draws everything anew, in CSS pixels. */
  constructor(canvas, draw) {
    this.canvas = canvas;
    this.draw = draw;
    this.waiting = false;
    this.width = 0;
    this.height = 0;
    this.resized = null; // called after the size has changed
    figures.add(this);
    this.observer = new ResizeObserver(() => this.#resized());
    this.observer.observe(canvas);
  }

  #resized() {
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (!w || !h) {
      this.width = 0;
      return;
    }
    const [width, height] = [Math.round(w * ratio), Math.round(h * ratio)];
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
    this.width = w;
    this.height = h;
    this.paint();
    this.resized?.();
  }

  /** Draws before the next frame, once however often it is asked for. */
  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.paint();
    });
  }

  paint() {
    if (!this.width || !this.height) return;
    const context = this.canvas.getContext("2d");
    const ratio = this.canvas.width / this.width;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    this.draw(context, this.width, this.height, palette());
  }

  get visible() {
    return this.width > 0 && this.canvas.offsetParent !== null;
  }

  close() {
    this.observer.disconnect();
    figures.delete(this);
  }
}

export function redrawAll() {
  for (const figure of figures) figure.redraw();
}
