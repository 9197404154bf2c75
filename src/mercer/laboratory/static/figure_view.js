// Curves and surfaces of the course that are not about points in the plane.

import { Channel, unlessSuperseded } from "./api.js";
import { $ } from "./dom.js";
import { Axes, inner, say } from "./axes.js";
import { drawCurves, note } from "./charts.js";
import { Figure } from "./figure.js";
import { drawComponent, layer, strokeAt } from "./field.js";
import { Scatter } from "./scatter.js";

const TITLES = {
  losses: "Losses",
  bumps: "What a point becomes",
  saddle: "The saddle of a Lagrangian",
  lift: "A circle becomes a plane",
};

export class FigureView {
  constructor(store) {
    this.store = store;
    this.channel = new Channel("/api/figure");
    this.answer = null;
    this.message = "";
    const canvas = $("#figure-canvas");
    this.scatter = new Scatter(canvas);
    const turning = this.scatter.figure.draw;
    this.scatter.figure.draw = (...given) =>
      this.answer?.name === "lift" ? turning(...given) : this.#draw(...given);
  }

  get figure() {
    return this.scatter.figure;
  }

  async refresh() {
    const wanted = this.store.state.figure;
    if (!wanted) return;
    $("#figure-title").textContent = TITLES[wanted.name] ?? "Figure";
    try {
      this.answer = {
        ...(await this.channel.ask(wanted, { now: true })),
        name: wanted.name,
        state: wanted.state,
      };
      this.message = "";
      if (wanted.name === "lift") this.#lift();
    } catch (error) {
      unlessSuperseded((refused) => {
        this.answer = null;
        this.message = refused.message;
      })(error);
    }
    $("#figure-help").textContent = this.answer ? this.#help() : this.message;
    $("#figure-canvas").setAttribute("aria-label", `${TITLES[wanted.name]}. ${this.#help()}`);
    this.figure.redraw();
  }

  #help() {
    const a = this.answer;
    if (a?.name === "losses")
      return "Losses of the margin m = y f(x): what counts mistakes, and what can be minimised instead.";
    if (a?.name === "bumps")
      return "Each point contributes coefᵢ k(xᵢ, x), thin; their sum is f, thick.";
    if (a?.name === "saddle")
      return `xy + λ(4 − x − y) along y = x: a maximum one way, a minimum the other; the saddle is at x = ${say(a.saddle[0])}, λ = ${say(a.saddle[1])}, where xy = ${say(a.value)}.`;
    if (a?.name === "lift")
      return "Drag, or use the arrow keys, to turn: in the coordinates (x₁², √2 x₁x₂, x₂²) the circle lies in a plane.";
    return this.message;
  }

  #lift() {
    const { scores, plane } = this.answer.array;
    const labels = this.answer.state?.points ?? [];
    const points = Array.from({ length: scores.shape[0] }, (_, i) => ({
      at: Array.from(scores.values.subarray(3 * i, 3 * i + 3)),
      group: labels[i]?.[2] ?? 0,
    }));
    this.scatter.plane = plane ? Array.from(plane.values) : null;
    this.scatter.show(points, ["x₁²", "√2 x₁x₂", "x₂²"]);
  }

  #draw(context, width, height, colours) {
    const a = this.answer;
    if (!a) return note(context, width, height, colours, "");
    if (a.name === "losses") this.#losses(context, width, height, colours);
    else if (a.name === "bumps") this.#bumps(context, width, height, colours);
    else if (a.name === "saddle") this.#saddle(context, width, height, colours);
  }

  #losses(context, width, height, colours) {
    const { array, curves } = this.answer;
    const names = Array.isArray(curves) ? curves : Object.keys(curves);
    const series = names.map((name, i) => ({
      x: array.x.values,
      y: array[name].values,
      name,
      colour: i < 6 ? colours.classes[i] : colours.ink,
      width: 2.5,
    }));
    drawCurves(context, width, height, colours, {
      series,
      labels: ["margin", "loss"],
      range: { y: [-0.2, 5] },
    });
  }

  #bumps(context, width, height, colours) {
    const { x, terms, sum } = this.answer.array;
    const columns = terms.shape[1];
    const series = Array.from({ length: terms.shape[0] }, (_, i) => ({
      x: x.values,
      y: terms.values.subarray(i * columns, (i + 1) * columns),
      colour: colours.classes[0],
      width: 1,
    }));
    series.push({ x: x.values, y: sum.values, colour: colours.classes[1], width: 3, name: "f" });
    drawCurves(context, width, height, colours, { series, labels: ["x", ""] });
  }

  #saddle(context, width, height, colours) {
    const { array, frame, saddle } = this.answer;
    const [xs, ys] = frame;
    const axes = new Axes(
      [...xs, ...ys],
      inner(width, height, { left: 52, right: 20, top: 32, bottom: 44 }),
    );
    const grid = (this.answer.grid ??= layer(array.surface));
    const view = { x: xs, y: ys };
    drawComponent(context, axes, view, grid);
    strokeAt(context, axes, view, grid, this.answer.value, { colour: colours.strong, width: 2.5 });
    axes.frame(context, colours, { labels: ["x = y", "λ"], grid: false });
    context.beginPath();
    context.arc(axes.x(saddle[0]), axes.y(saddle[1]), 7, 0, 2 * Math.PI);
    context.fillStyle = colours.strong;
    context.fill();
  }
}
