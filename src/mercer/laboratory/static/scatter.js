// Points in three dimensions, turned by dragging or by the arrow keys.

import { line } from "./axes.js";
import { Figure } from "./figure.js";
import { drawPoint } from "./marks.js";
import { note } from "./charts.js";

export class Scatter {
  constructor(canvas, announce = () => {}) {
    this.points = [];
    this.names = ["1", "2", "3"];
    this.turn = -0.7;
    this.tilt = 0.45;
    this.empty = "";
    this.plane = null; // [a, b, c, d]: a·z + d = 0
    this.figure = new Figure(canvas, (...given) => this.#draw(...given));
    canvas.addEventListener("pointerdown", (event) => this.#grab(event));
    canvas.addEventListener("keydown", (event) => {
      const turns = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
      if (!(event.key in turns)) return;
      event.preventDefault();
      this.#rotate(0.12 * turns[event.key][0], 0.12 * turns[event.key][1]);
      announce(`turned to ${Math.round((this.turn * 180) / Math.PI)} degrees`);
    });
  }

  /** `points`: {at: [a, b, c], group, r}; their axes are scaled alike. */
  show(points, names, empty = "") {
    this.points = points;
    this.names = names;
    this.empty = empty;
    this.figure.redraw();
  }

  #grab(event) {
    const { canvas } = this.figure;
    canvas.setPointerCapture(event.pointerId);
    let [x, y] = [event.clientX, event.clientY];
    const move = (next) => {
      this.#rotate((next.clientX - x) * 0.01, (next.clientY - y) * 0.01);
      [x, y] = [next.clientX, next.clientY];
    };
    const end = () => {
      canvas.removeEventListener("pointermove", move);
      canvas.removeEventListener("pointerup", end);
      canvas.removeEventListener("pointercancel", end);
    };
    canvas.addEventListener("pointermove", move);
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
  }

  #rotate(turn, tilt) {
    this.turn += turn;
    this.tilt = Math.max(-1.5, Math.min(1.5, this.tilt + tilt));
    this.figure.redraw();
  }

  #draw(context, width, height, colours) {
    if (!this.points.length) {
      note(context, width, height, colours, this.empty || "nothing to draw yet");
      return;
    }
    let size = 1e-12;
    for (const point of this.points) for (const v of point.at) size = Math.max(size, Math.abs(v));
    const scale = (0.4 * Math.min(width, height)) / size;
    const [c, s, C, S] = [
      Math.cos(this.turn),
      Math.sin(this.turn),
      Math.cos(this.tilt),
      Math.sin(this.tilt),
    ];
    const place = ([a, b, d]) => {
      const [x, y] = [a * c - b * s, a * s + b * c];
      return [width / 2 + scale * x, height / 2 - scale * (d * C - y * S), y * C + d * S];
    };
    const ends = [];
    for (let axis = 0; axis < 3; axis++) {
      const end = [0, 0, 0];
      end[axis] = size * 1.1;
      const start = end.map((v) => -v);
      const [from, to] = [place(start), place(end)];
      context.strokeStyle = colours.line;
      context.lineWidth = 1;
      context.beginPath();
      line(context, from[0], from[1], to[0], to[1]);
      context.stroke();
      ends.push([to[0] + Math.sign(to[0] - width / 2) * 10, to[1] - 8]);
    }
    if (this.plane) this.#drawPlane(context, place, size, colours);
    const placed = this.points.map((point) => ({ point, at: place(point.at) }));
    placed.sort((p, q) => q.at[2] - p.at[2]);
    for (const { point, at } of placed) {
      const depth = 1 - (0.35 * at[2]) / (size * 1.8);
      drawPoint(context, at[0], at[1], {
        group: point.group,
        r: (point.r ?? 4.5) * depth,
        edge: point.ring ? colours.ink : null,
      });
    }
    // Names last, or points would hide them.
    ends.forEach((at, axis) => this.#name(context, at, this.names[axis], width, colours));
  }

  #name(context, [x, y], text, width, colours) {
    context.font = `11px ${colours.font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const half = context.measureText(text).width / 2 + 3;
    const at = Math.max(half, Math.min(width - half, x));
    context.globalAlpha = 0.75;
    context.fillStyle = colours.paper;
    context.fillRect(at - half, y - 8, 2 * half, 16);
    context.globalAlpha = 1;
    context.fillStyle = colours.ink;
    context.fillText(text, at, y);
  }

  /** The part of the plane inside of the cube around the points. */
  #drawPlane(context, place, size, colours) {
    const [a, b, c, d] = this.plane;
    const normal = [a, b, c];
    const length = Math.hypot(a, b, c);
    if (!(length > 0)) return;
    const foot = normal.map((v) => (-d * v) / length ** 2);
    if (Math.hypot(...foot) > 1.6 * size) return;
    const axis = Math.abs(a) < 0.8 * length ? [1, 0, 0] : [0, 1, 0];
    const cross = ([p, q, r], [s, t, u]) => [q * u - r * t, r * s - p * u, p * t - q * s];
    const unit = (v) => v.map((x) => x / Math.hypot(...v));
    const u = unit(cross(normal, axis));
    const v = unit(cross(normal, u));
    const corners = [
      [1, 1],
      [1, -1],
      [-1, -1],
      [-1, 1],
    ].map(([s, t]) => place(foot.map((x, i) => x + 0.8 * size * (s * u[i] + t * v[i]))));
    context.beginPath();
    corners.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.closePath();
    context.globalAlpha = 0.09;
    context.fillStyle = colours.ink;
    context.fill();
    context.globalAlpha = 0.35;
    context.strokeStyle = colours.ink;
    context.lineWidth = 1;
    context.stroke();
    context.globalAlpha = 1;
  }
}
