// Figures of the course: curves, surfaces, and pictures side by side.

import { Channel, unlessSuperseded } from "./api.js";
import { $, make, put } from "./dom.js";
import { Axes, inner, say } from "./axes.js";
import { drawCurves, note } from "./charts.js";
import { requestOf } from "./fit.js";
import { drawComponent, layer, strokeAt } from "./field.js";
import { drawDigits, drawPanels } from "./panels.js";
import { viewOf } from "./plane.js";
import { Scatter } from "./scatter.js";

/** Title, what is seen, and whether it is about the points of the plane. */
const FIGURES = {
  losses: {
    title: "Losses",
    help: "Losses of the margin y f(x), and of the residual y − f(x): what counts mistakes, and what can be minimised instead.",
  },
  saddle: {
    title: "The saddle of a Lagrangian",
    help: "xy + λ(4 − x − y) along y = x: a minimum one way, a maximum the other; the saddle is the dot, and the thick lines are at its height.",
  },
  digits: {
    title: "Handwritten digits",
    help: "Digits of 8 × 8 pixels, learnt from the first 900 and read from the other 897. The band is what papers report of such kernels on other digits, USPS with its 16 × 16 pixels.",
  },
  bumps: {
    title: "What a point becomes",
    help: "Each point contributes coefᵢ k(xᵢ, x), thin; their sum with the bias is f, thick.",
    points: true,
  },
  lift: {
    title: "An ellipse becomes a plane",
    help: "Drag, or use the arrow keys, to turn: in the coordinates (x₁², √2 x₁x₂, x₂²) the ellipse lies in a plane.",
    points: true,
  },
  exclusive: {
    title: "Exclusive or in six coordinates",
    help: "At the left f in the plane; at the right two of the six coordinates of (1 + ⟨x, y⟩)², in which a line separates.",
    points: true,
  },
  signs: {
    title: "The disc and the ellipse",
    help: "y₁ and y₂ are +1 inside the disc and inside the ellipse, else −1. A point is inside both where y₁ + y₂ ≥ 2.",
    points: true,
  },
  lines: {
    title: "Three lines between two classes",
    help: "Thin lines from the points that hold H₃ are their distances 1/‖w‖. The dotted line is the distance of H₃ from 0.",
    points: true,
  },
  components: {
    title: "Components of kernel PCA",
    help: "Lines of equal projection on each component, in the order of their eigenvalues.",
    points: true,
  },
  projections: {
    title: "PCA beside kernel PCA",
    help: "Lines of equal projection on the first component; hollow points are what it gives back of each point (for PCA x̄ + U y).",
    points: true,
  },
};

/** Whether the controls of data, machine and kernel change a figure. */
export const isOfPoints = (figure) => Boolean(FIGURES[figure?.name]?.points);

export class FigureView {
  constructor(store) {
    this.store = store;
    this.channel = new Channel("/api/figure");
    this.answer = null;
    this.message = "";
    this.stale = true;
    this.scatter = new Scatter($("#figure-canvas"));
    const turning = this.scatter.figure.draw;
    this.scatter.figure.draw = (...given) =>
      this.answer?.name === "lift" ? turning(...given) : this.#draw(...given);
  }

  get figure() {
    return this.scatter.figure;
  }

  get visible() {
    return this.store.state.tab === "figure";
  }

  /** What the server is asked for: a name, and the points where it is about them. */
  get wanted() {
    const { state } = this.store;
    const { name } = state.figure;
    if (!isOfPoints(state.figure)) return { name };
    return { name, state: requestOf(state, state.view ?? viewOf(state.points)) };
  }

  /** The state rests: the figure is asked for anew when it is looked at. */
  rest() {
    this.stale = true;
    if (this.visible) this.refresh();
  }

  async refresh() {
    const { figure, points } = this.store.state;
    if (!FIGURES[figure?.name] || !this.stale) return;
    this.stale = false;
    const { title } = FIGURES[figure.name];
    $("#figure-title").textContent = title;
    if (this.answer?.name !== figure.name) {
      this.answer = null;
      this.message = "computing …";
      this.#tell(figure.name);
    }
    try {
      const answer = await this.channel.ask(this.wanted, { now: true });
      const labels = [...new Set(points.map((p) => p[2]))].sort((a, b) => a - b);
      this.answer = { ...answer, name: figure.name, points, labels };
      this.message = "";
      if (figure.name === "lift") this.#lift();
    } catch (error) {
      unlessSuperseded((refused) => {
        this.answer = null;
        this.message = refused.message;
      })(error);
    }
    this.#tell(figure.name);
  }

  #tell(name) {
    const { title, help } = FIGURES[name];
    $("#figure-help").textContent = help;
    $("#figure-canvas").setAttribute("aria-label", `${title}. ${help} ${this.message}`);
    const numbers = Object.entries(this.answer?.numbers ?? {});
    put(
      $("#figure-facts"),
      ...numbers.flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, say(value, 4))]),
    );
    $("#figure-card").hidden = !numbers.length;
    this.figure.redraw();
  }

  #lift() {
    const { scores, plane } = this.answer.array;
    const labels = this.answer.points;
    const points = Array.from({ length: scores.shape[0] }, (_, i) => ({
      at: Array.from(scores.values.subarray(3 * i, 3 * i + 3)),
      group: labels[i]?.[2] ?? 0,
    }));
    this.scatter.plane = plane ? Array.from(plane.values) : null;
    this.scatter.show(points, this.answer.axes);
  }

  #draw(context, width, height, colours) {
    const a = this.answer;
    if (!a) note(context, width, height, colours, this.message);
    else if (a.panels) drawPanels(context, width, height, colours, a);
    else if (a.name === "losses") this.#losses(context, width, height, colours);
    else if (a.name === "bumps") this.#bumps(context, width, height, colours);
    else if (a.name === "digits") this.#digits(context, width, height, colours);
    else if (a.name === "saddle") this.#saddle(context, width, height, colours);
  }

  #losses(context, width, height, colours) {
    const { array, curves } = this.answer;
    const series = curves.map((name, i) => ({
      x: array.x.values,
      y: array[name].values,
      name,
      colour: i < 6 ? colours.classes[i] : colours.ink,
      width: 2.5,
    }));
    drawCurves(context, width, height, colours, {
      series,
      labels: ["y f, or y − f", "loss"],
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
      name: i ? "" : "coefᵢ k(xᵢ, x)",
    }));
    series.push({ x: x.values, y: sum.values, colour: colours.classes[1], width: 3, name: "f" });
    drawCurves(context, width, height, colours, { series, labels: ["x", "value"] });
  }

  #digits(context, width, height, colours) {
    const { array, published, numbers } = this.answer;
    const beside = width > 560;
    const chart = beside ? [width / 2, height] : [width, height / 2];
    const [first, last] = [array.degree.values[0], array.degree.values.at(-1)];
    const level = numbers["misread, Gaussian, %"];
    const across = (y) => ({ x: [first - 0.4, last + 0.4], y: [y, y] });
    const quiet = { colour: colours.soft, dash: [4, 4], width: 1.5 };
    const series = [
      {
        x: array.degree.values,
        y: array.error.values,
        colour: colours.classes[0],
        dots: 4,
        name: "(xᵀz)^d",
      },
      { ...across(level), colour: colours.classes[1], name: "Gaussian" },
      { ...across(published[0]), ...quiet, name: "USPS, published" },
      { ...across(published[1]), ...quiet },
    ];
    const most = Math.max(...array.error.values, level, published[1]);
    drawCurves(context, ...chart, colours, {
      series,
      labels: ["degree d", "misread, %"],
      range: { x: [first - 0.4, last + 0.4], y: [0, 1.15 * most] },
    });
    const box = beside
      ? { x: width / 2 + 16, y: 12, w: width / 2 - 28, h: height - 24 }
      : { x: 8, y: height / 2 + 8, w: width - 16, h: height / 2 - 16 };
    drawDigits(context, box, colours, this.answer);
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
