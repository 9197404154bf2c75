// Fits follow the state: coarse and often while something is dragged, fine when it rests.

import { Channel, Superseded } from "./api.js";

const CELLS = { drag: 2300, rest: 12000 };
const FEWER = 0.6; // of the cells of a drag's grid, where an answer took too long
const LONG = 55; // ms: an answer that long leaves no room for 15 frames in a second

/** What a request needs of the state. */
export function requestOf(state, view) {
  const { task, points, machine, kernel, set } = state;
  const body = { task, points, machine, kernel, view };
  if (set && Object.keys(set).length) body.set = set;
  return body;
}

/** Columns and rows of about so many cells in the shape of a box. */
export function gridFor(width, height, cells) {
  const ratio = Math.max(0.25, Math.min(4, (width || 1) / (height || 1)));
  const columns = Math.round(Math.sqrt(cells * ratio));
  return [
    Math.max(8, Math.min(256, columns)),
    Math.max(8, Math.min(256, Math.round(cells / columns))),
  ];
}

export class Fitter {
  /** `hooks`: view() and size() of the plane; fitted(fit), failed(error), busy(head or null). */
  constructor(hooks) {
    this.hooks = hooks;
    this.channel = new Channel("/api/fit");
    this.cells = CELLS.drag;
    this.fit = null;
    this.tail = 0;
  }

  /** Asks for a fit of `state`; `since` is when the user let go, for the measurement. */
  async ask(state, { dragging = false, since = performance.now() } = {}) {
    const view = this.hooks.view();
    const [width, height] = this.hooks.size();
    const grid = gridFor(width, height, dragging ? this.cells : CELLS.rest);
    const body = { ...requestOf(state, view), grid };
    const sent = performance.now();
    const timer = setTimeout(() => this.hooks.busy({}), 90);
    const turn = ++this.tail;
    try {
      const head = await this.channel.ask(body, {
        now: !dragging,
        progress: (told) => this.hooks.busy(told),
      });
      this.fit = {
        head,
        view,
        task: state.task,
        machine: state.machine.name,
        points: state.points,
      };
      if (dragging) this.#adapt(performance.now() - sent);
      this.hooks.fitted(this.fit, { dragging, since });
    } catch (error) {
      if (error instanceof Superseded) return;
      this.fit = null;
      this.hooks.failed(error);
    } finally {
      clearTimeout(timer);
      if (turn === this.tail) this.hooks.busy(null);
    }
  }

  #adapt(took) {
    if (took > LONG) this.cells = Math.max(700, this.cells * FEWER);
    else if (took < LONG / 2) this.cells = Math.min(CELLS.drag, this.cells / FEWER);
  }
}

/** Marks the frame in which a picture is on screen, for measurements in the browser. */
export function markPainted(name, since) {
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      performance.measure(name, { start: since, end: performance.now() });
      if (performance.getEntriesByType("measure").length > 2000) performance.clearMeasures();
    };
    channel.port2.postMessage(null);
  });
}
