// The plane: points that are placed, dragged, relabelled and deleted, by mouse, touch and
// keyboard, over whatever `ground` draws.

import { Axes, line, say, ticks } from "./axes.js";
import { Figure } from "./figure.js";

const REACH = 14; // pixels within which a point is taken; fingers get twice that
const round = (value, step) => Number((Math.round(value / step) * step).toPrecision(8));

export class Plane {
  /**
   * `hooks`: ground(context, axes, colours) and marks(context, axes, colours) draw below
   * and as the points; changed(points, "drag" | "done") and viewed(view, done) tell what
   * the user did; say(text) speaks to screen readers.
   */
  constructor(canvas, hooks) {
    this.canvas = canvas;
    this.hooks = hooks;
    this.points = [];
    this.view = { x: [-2, 2], y: [-2, 2] };
    this.equal = true;
    this.labelled = true;
    this.label = 0;
    this.tool = "place";
    this.editable = true;
    this.selected = -1;
    this.cursor = null;
    this.pointers = new Map();
    this.drag = null;
    this.axes = null;
    this.figure = new Figure(canvas, (context, width, height, colours) => {
      this.axes = new Axes(this.range(width, height), { x: 0, y: 0, w: width, h: height });
      this.#draw(context, width, height, colours);
    });
    this.#listen();
  }

  /** The data range shown: the view, made wider on one side to keep circles round. */
  range(width = this.figure.width, height = this.figure.height) {
    let [x0, x1] = this.view.x;
    let [y0, y1] = this.view.y;
    if (this.equal && width && height) {
      const unit = Math.max((x1 - x0) / width, (y1 - y0) / height);
      const [cx, cy] = [(x0 + x1) / 2, (y0 + y1) / 2];
      [x0, x1] = [cx - (unit * width) / 2, cx + (unit * width) / 2];
      [y0, y1] = [cy - (unit * height) / 2, cy + (unit * height) / 2];
    }
    return [x0, x1, y0, y1];
  }

  get shown() {
    const [x0, x1, y0, y1] = this.range();
    return { x: [x0, x1], y: [y0, y1] };
  }

  show(points, view) {
    this.points = points;
    if (view) this.view = view;
    if (this.selected >= points.length) this.selected = -1;
    this.figure.redraw();
  }

  /** The point under a pixel, or -1. */
  pointAt(x, y, reach = REACH) {
    let [best, least] = [-1, reach * reach];
    this.points.forEach(([px, py], i) => {
      const distance = (this.axes.x(px) - x) ** 2 + (this.axes.y(py) - y) ** 2;
      if (distance <= least) [best, least] = [i, distance];
    });
    return best;
  }

  #draw(context, width, height, colours) {
    const { axes } = this;
    context.fillStyle = colours.paper;
    context.fillRect(0, 0, width, height);
    this.hooks.ground(context, axes, colours);
    drawRulers(context, axes, colours);
    this.hooks.marks(context, axes, colours);
    if (this.selected >= 0 && document.activeElement === this.canvas) {
      const [x, y] = this.points[this.selected];
      context.strokeStyle = colours.ink;
      context.lineWidth = 2;
      context.beginPath();
      context.arc(axes.x(x), axes.y(y), 13, 0, 2 * Math.PI);
      context.stroke();
    } else if (this.cursor && document.activeElement === this.canvas) {
      const [x, y] = [axes.x(this.cursor[0]), axes.y(this.cursor[1])];
      context.strokeStyle = colours.ink;
      context.lineWidth = 1.5;
      context.beginPath();
      line(context, x - 12, y, x + 12, y);
      line(context, x, y - 12, x, y + 12);
      context.stroke();
    }
  }

  #place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  /** Data coordinates of a pixel, rounded to what a pixel can tell. */
  #data(x, y) {
    const [x0, x1, y0, y1] = this.axes.range;
    const step = (span) => 10 ** Math.floor(Math.log10(span / 1000));
    return [round(this.axes.dataX(x), step(x1 - x0)), round(this.axes.dataY(y), step(y1 - y0))];
  }

  #listen() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", (event) => this.#up(event));
    canvas.addEventListener("pointercancel", (event) => this.#up(event, true));
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.#key(event));
    for (const name of ["focus", "blur"]) canvas.addEventListener(name, () => this.figure.redraw());
  }

  #down(event) {
    if (!this.axes) return;
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture(event.pointerId);
    const [x, y] = this.#place(event);
    this.pointers.set(event.pointerId, [x, y]);
    if (this.pointers.size === 2) {
      this.#cancelDrag();
      this.drag = { kind: "pinch", view: this.shown, start: [...this.pointers.values()] };
      return;
    }
    const reach = event.pointerType === "touch" ? 2 * REACH : REACH;
    const hit = this.pointAt(x, y, reach);
    const pan = this.tool === "pan" || event.shiftKey || event.button === 1 || event.button === 2;
    if (pan || !this.editable) {
      this.drag = { kind: "pan", x, y, view: this.shown };
    } else if (this.tool === "erase") {
      this.drag = { kind: "erase" };
      if (hit >= 0) this.#remove(hit);
    } else if (this.tool === "label") {
      this.drag = { kind: "label" };
      if (hit >= 0) this.#relabelAt(hit);
    } else if (hit >= 0) {
      this.selected = hit;
      const [px, py] = this.points[hit];
      this.drag = {
        kind: "move",
        index: hit,
        before: this.points,
        dx: this.axes.x(px) - x,
        dy: this.axes.y(py) - y,
        moved: false,
      };
      this.canvas.dataset.busy = "drag";
    } else {
      this.drag = { kind: "add", x, y };
    }
    this.figure.redraw();
  }

  #move(event) {
    const [x, y] = this.#place(event);
    if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, [x, y]);
    const { drag } = this;
    if (!drag) {
      if (this.axes)
        this.canvas.dataset.over = this.editable && this.pointAt(x, y) >= 0 ? "point" : "";
      return;
    }
    if (drag.kind === "pinch") return this.#pinch();
    if (drag.kind === "pan") return this.#pan(x - drag.x, y - drag.y, drag.view);
    if (drag.kind === "erase") {
      const hit = this.pointAt(x, y);
      if (hit >= 0) this.#remove(hit);
    }
    if (drag.kind === "label") {
      const hit = this.pointAt(x, y);
      if (hit >= 0) this.#relabelAt(hit);
    }
    if (
      drag.kind === "add" &&
      Math.hypot(x - drag.x, y - drag.y) > 6 &&
      event.pointerType !== "mouse"
    ) {
      this.drag = { kind: "pan", x: drag.x, y: drag.y, view: this.shown };
    }
    if (drag.kind === "move") {
      const at = this.#data(x + drag.dx, y + drag.dy);
      const [px, py, label] = this.points[drag.index];
      if (at[0] === px && at[1] === py) return;
      drag.moved = true;
      this.points = this.points.with(drag.index, [...at, label]);
      this.hooks.changed(this.points, "drag");
      this.figure.redraw();
    }
  }

  #up(event, cancelled = false) {
    const { drag } = this;
    this.pointers.delete(event.pointerId);
    delete this.canvas.dataset.busy;
    if (!drag) return;
    if (drag.kind === "pinch" && this.pointers.size) return;
    this.drag = null;
    if (drag.kind === "move" && drag.moved)
      this.hooks.changed(this.points, "done", event.timeStamp);
    if (drag.kind === "pan" || drag.kind === "pinch") this.hooks.viewed(this.view, true);
    if (drag.kind === "add" && !cancelled) this.#add(...this.#data(...this.#place(event)));
  }

  #cancelDrag() {
    if (this.drag?.kind === "move" && this.drag.moved) this.hooks.changed(this.points, "done");
    this.drag = null;
  }

  #add(x, y) {
    this.points = [...this.points, [x, y, this.labelled ? this.label : 0]];
    this.selected = this.points.length - 1;
    this.hooks.changed(this.points, "done");
    this.hooks.say(`point ${this.points.length} at ${say(x)}, ${say(y)}`);
    this.figure.redraw();
  }

  #remove(index) {
    this.points = this.points.toSpliced(index, 1);
    this.selected = -1;
    this.hooks.changed(this.points, "done");
    this.hooks.say(`point deleted, ${this.points.length} left`);
    this.figure.redraw();
  }

  #pan(dx, dy, view) {
    const box = this.axes.box;
    const [sx, sy] = [(view.x[1] - view.x[0]) / box.w, (view.y[1] - view.y[0]) / box.h];
    this.#see({ x: view.x.map((v) => v - dx * sx), y: view.y.map((v) => v + dy * sy) });
  }

  #pinch() {
    const [[ax, ay], [bx, by]] = this.drag.start;
    const [[cx, cy], [dx, dy]] = [...this.pointers.values()];
    const zoom = Math.max(
      0.1,
      Math.hypot(ax - bx, ay - by) / Math.max(1, Math.hypot(cx - dx, cy - dy)),
    );
    const { view } = this.drag;
    const box = this.axes.box;
    const [fx, fy] = [(ax + bx) / 2 / box.w, 1 - (ay + by) / 2 / box.h];
    const [tx, ty] = [(cx + dx) / 2 / box.w, 1 - (cy + dy) / 2 / box.h];
    const side = ([low, high], from, to) => {
      const at = low + from * (high - low);
      const span = (high - low) * zoom;
      return [at - to * span, at + (1 - to) * span];
    };
    this.#see({ x: side(view.x, fx, tx), y: side(view.y, fy, ty) });
  }

  #wheel(event) {
    if (!this.axes) return;
    event.preventDefault();
    this.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.004), ...this.#place(event));
  }

  /** Shows more (factor > 1) or less around a pixel. */
  zoom(factor, x = this.figure.width / 2, y = this.figure.height / 2) {
    const [x0, x1, y0, y1] = this.range();
    if ((x1 - x0) * factor > 2e6 || (x1 - x0) * factor < 1e-3) return;
    const [cx, cy] = [this.axes.dataX(x), this.axes.dataY(y)];
    const around = (low, high, c) => [c + (low - c) * factor, c + (high - c) * factor];
    this.#see({ x: around(x0, x1, cx), y: around(y0, y1, cy) });
    this.hooks.viewed(this.view, false);
  }

  #see(view) {
    this.view = view;
    this.hooks.viewed(view, false);
    this.figure.redraw();
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const actions = {
      "+": () => this.zoom(0.8),
      "=": () => this.zoom(0.8),
      "-": () => this.zoom(1.25),
      n: () => this.#choose(1),
      p: () => this.#choose(-1),
      Escape: () => this.#choose(0),
      Enter: () => this.#enter(),
      " ": () => this.#enter(),
      Delete: () => this.#keyRemove(),
      Backspace: () => this.#keyRemove(),
    };
    const { key } = event;
    if (key in arrows) this.#arrow(...arrows[key], event.shiftKey ? 40 : 8);
    else if (key in actions) actions[key]();
    else if (/^[1-6]$/.test(key)) this.#relabel(Number(key) - 1);
    else if (key === "0") this.hooks.frame?.();
    else return;
    event.preventDefault();
  }

  #arrow(dx, dy, pixels) {
    const at =
      this.selected >= 0
        ? this.points[this.selected]
        : (this.cursor ?? [
            this.axes.dataX(this.figure.width / 2),
            this.axes.dataY(this.figure.height / 2),
          ]);
    const next = this.#data(this.axes.x(at[0]) + dx * pixels, this.axes.y(at[1]) - dy * pixels);
    if (this.selected >= 0 && this.editable) {
      this.points = this.points.with(this.selected, [...next, at[2]]);
      this.hooks.changed(this.points, "key");
    } else this.cursor = next;
    this.hooks.say(`${say(next[0])}, ${say(next[1])}`);
    this.figure.redraw();
  }

  #choose(step) {
    const n = this.points.length;
    if (step && n)
      this.selected = this.selected < 0 ? (step > 0 ? 0 : n - 1) : (this.selected + step + n) % n;
    else this.selected = -1;
    if (this.selected >= 0) {
      const [x, y, label] = this.points[this.selected];
      const named = this.labelled ? `, class ${label + 1}` : "";
      this.hooks.say(`point ${this.selected + 1} of ${n}${named}, at ${say(x)}, ${say(y)}`);
    } else this.hooks.say("no point selected");
    this.figure.redraw();
  }

  #enter() {
    if (!this.editable) return;
    if (this.selected >= 0) return this.#choose(0);
    const [x0, x1, y0, y1] = this.range();
    const at = this.cursor ?? [(x0 + x1) / 2, (y0 + y1) / 2];
    this.#add(...at);
    this.selected = -1;
  }

  #keyRemove() {
    if (this.editable && this.selected >= 0) this.#remove(this.selected);
  }

  #relabel(label) {
    if (!this.labelled || !this.editable) return;
    if (this.selected < 0) return this.hooks.labelled?.(label);
    this.#relabelAt(this.selected, label);
  }

  #relabelAt(index, label = this.label) {
    const [x, y, before] = this.points[index];
    if (!this.labelled || before === label) return;
    this.points = this.points.with(index, [x, y, label]);
    this.hooks.changed(this.points, "done");
    this.hooks.say(`now class ${label + 1}`);
    this.figure.redraw();
  }
}

/** Quiet numbers along the lower and left edges, inside of the picture. */
export function drawRulers(context, axes, colours) {
  const { x, y, w, h } = axes.box;
  const [x0, x1, y0, y1] = axes.range;
  context.save();
  context.font = `11px ${colours.font}`;
  context.fillStyle = colours.soft;
  context.strokeStyle = colours.line;
  context.lineWidth = 1;
  const across = Math.max(2, Math.round(w / 110));
  const up = Math.max(2, Math.round(h / 110));
  context.beginPath();
  const xs = ticks(x0, x1, across).filter((t) => axes.x(t) > x + 30 && axes.x(t) < x + w - 14);
  const ys = ticks(y0, y1, up).filter((t) => axes.y(t) > y + 12 && axes.y(t) < y + h - 26);
  for (const t of xs) line(context, axes.x(t), y + h - 4, axes.x(t), y + h);
  for (const t of ys) line(context, x, axes.y(t), x + 4, axes.y(t));
  context.stroke();
  context.textAlign = "center";
  context.textBaseline = "bottom";
  for (const t of xs) context.fillText(say(t), axes.x(t), y + h - 6);
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const t of ys) context.fillText(say(t), x + 7, axes.y(t));
  context.restore();
}

/** A view that shows all points with room around them. */
export function viewOf(points, slack = 0.18) {
  if (!points.length) return { x: [-2, 2], y: [-2, 2] };
  const side = (values) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const room = (high - low) * slack || 1;
    return [low - room, high + room];
  };
  return { x: side(points.map((p) => p[0])), y: side(points.map((p) => p[1])) };
}
