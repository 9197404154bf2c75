// The tab "Plane": points, tools, the fit's picture and what it says.

import { post } from "./api.js";
import { $, announce, later, make, put } from "./dom.js";
import { say } from "./axes.js";
import { CLASSES } from "./colours.js";
import { Figure } from "./figure.js";
import { drawFit, drawPoints, drawSlack } from "./field.js";
import { markPainted } from "./fit.js";
import { drawPoint } from "./marks.js";
import { Plane, viewOf } from "./plane.js";
import { segmented } from "./slider.js";

const SHOWN_AS_TEXT = 1000; // points; a longer table would slow every drag
const icon = (name) => {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
};

export { icon };

export class PlaneView {
  constructor(store, refit) {
    this.store = store;
    this.refit = refit;
    this.fit = null;
    this.component = 0;
    this.dragFrom = null;
    this.settle = later(() => this.#rest(), 250);
    this.plane = new Plane($("#plane-canvas"), {
      ground: (context, axes, colours) =>
        drawFit(context, axes, colours, this.fit, { component: this.component }),
      marks: (context, axes, colours) => this.#marks(context, axes, colours),
      changed: (points, kind, since) => this.#changed(points, kind, since),
      viewed: (view, done) => this.#viewed(view, done),
      labelled: (label) => this.#pickClass(label),
      frame: () => this.frame(),
      say: announce,
    });
    const settled = later(() => this.refit({}), 120);
    let seen = false;
    this.plane.figure.resized = () => {
      // The grid of the first fit waits for the first size.
      if (seen) settled();
      else this.refit({});
      seen = true;
    };
    this.#tools();
    this.#table();
  }

  get labelled() {
    return this.store.state.task === "classify";
  }

  #marks(context, axes, colours) {
    const { points, task, slack } = this.store.state;
    const assigned = task === "cluster" && this.fit?.head.array.assigned;
    const groups = assigned && assigned.values.length === points.length ? assigned.values : null;
    drawPoints(context, axes, colours, { points, fit: this.fit, labelled: this.labelled, groups });
    if (slack) drawSlack(context, axes, colours, { points, fit: this.fit });
    if (this.refutation && task !== "regress") {
      drawRefutation(context, axes, colours, this.refutation);
    }
  }

  /** The points, with their weights, that show a kernel to be none. */
  refute(refutation) {
    if (this.refutation === refutation) return;
    this.refutation = refutation;
    this.plane.figure.redraw();
  }

  #tools() {
    const chips = Array.from({ length: CLASSES }, (_, i) => {
      const canvas = make("canvas", {
        class: "chip",
        width: 36,
        height: 36,
        "aria-hidden": "true",
      });
      const figure = new Figure(canvas, (context) => drawPoint(context, 9, 9, { group: i, r: 6 }));
      figure.chip = true;
      return {
        value: i,
        label: `class ${i + 1}`,
        title: `Class ${i + 1} (key ${i + 1})`,
        content: canvas,
      };
    });
    $("#class-chips").classList.add("chips");
    this.markClass = segmented($("#class-chips"), chips, 0, (label) => this.#pickClass(label));
    const tools = [
      { value: "place", label: "Place and move", content: icon("place") },
      { value: "label", label: "Relabel with the class", content: icon("label") },
      { value: "erase", label: "Erase", content: icon("erase") },
      { value: "pan", label: "Pan", content: icon("pan") },
    ];
    segmented($("#plane-tools"), tools, "place", (tool) => {
      this.plane.tool = tool;
      $("#plane-canvas").dataset.tool = tool;
    });
    $("#plane-slack").addEventListener("click", () =>
      this.store.patch({ slack: !this.store.state.slack }, "view"),
    );
    $("#plane-frame").addEventListener("click", () => this.frame());
    $("#plane-clear").addEventListener("click", () =>
      this.store.commit({ points: [], example: null }),
    );
  }

  #pickClass(label) {
    this.plane.label = label;
    this.markClass(label);
  }

  frame() {
    this.store.patch({ view: viewOf(this.store.state.points) }, "view");
    this.refit({});
  }

  #changed(points, kind, since) {
    this.dragFrom ??= this.store.state;
    if (kind === "drag" || kind === "key") {
      this.store.patch({ points }, "drag");
      this.refit({ dragging: true });
      if (kind === "key") this.settle();
    } else this.#rest(points, since);
  }

  #rest(points = this.store.state.points, since = performance.now()) {
    if (!this.dragFrom) return;
    const from = this.dragFrom;
    this.dragFrom = null;
    this.since = since;
    this.store.commit({ points, example: this.store.state.example }, from);
    this.since = null;
  }

  #viewed(view, done) {
    this.store.patch({ view }, "view");
    this.refit({ dragging: !done });
    if (!done) this.viewSettles ??= later(() => this.refit({}), 200);
    this.viewSettles?.();
  }

  /** Brings the picture to the state. */
  show(state) {
    this.plane.equal = state.task !== "regress";
    this.plane.labelled = this.labelled;
    $("#class-chips").hidden = !this.labelled;
    $("#plane-tools [data-value=label]").hidden = !this.labelled;
    $("#plane-slack").setAttribute("aria-pressed", String(Boolean(state.slack)));
    this.plane.show(state.points, state.view ?? viewOf(state.points));
    $("#points-count").textContent = `${state.points.length} points`;
    this.#summary();
    if ($("#points-card").open && document.activeElement !== $("#points-text")) this.#fillTable();
  }

  #summary() {
    const { points, task } = this.store.state;
    const counts = new Map();
    for (const [, , label] of points) counts.set(label, (counts.get(label) ?? 0) + 1);
    const classes = [...counts]
      .sort((a, b) => a[0] - b[0])
      .map(([label, n]) => `${n} of class ${label + 1}`);
    $("#plane-summary").textContent =
      `${points.length} points${task === "classify" && classes.length ? `: ${classes.join(", ")}` : ""}. ${this.told ?? ""}`;
  }

  /** Shows a fit; `since` is when the user let go. */
  fitted(fit, { dragging, since }) {
    this.fit = fit;
    this.plane.figure.redraw();
    markPainted(dragging ? "mercer:drag" : "mercer:rest", since);
    this.#facts(fit.head);
    this.#components(fit.head);
    put($("#result-warnings"), ...(fit.head.warnings ?? []).map((text) => make("p", {}, text)));
    this.told = `${fit.head.score?.name ?? ""} ${say(fit.head.score?.value)}`;
    if (!dragging) this.#summary();
  }

  failed(error) {
    this.fit = null;
    this.plane.figure.redraw();
    $(".headline").hidden = false;
    $("#score").textContent = "–";
    $("#score-name").textContent = "no fit";
    put($("#result-facts"));
    put($("#result-warnings"), make("p", {}, error.message));
  }

  busy(head) {
    $("#plane-busy").hidden = head === null;
    if (head)
      $("#plane-busy-text").textContent =
        head.text ?? (head.iterations ? `fitting, ${head.iterations} steps` : "fitting");
  }

  #facts(head) {
    const { score, certificate } = head;
    const share = score && /accuracy|error|share|outside/i.test(score.name);
    $("#score").textContent =
      !score || score.value === null
        ? "–"
        : share
          ? `${say(100 * score.value)} %`
          : say(score.value);
    $("#score-name").textContent = score?.name ?? "";
    $(".headline").hidden = !score;
    const facts = [];
    if (head.n_support != null)
      facts.push(["Support vectors", `${head.n_support} of ${this.store.state.points.length}`]);
    $("#plane-slack").disabled = !head.array.slack;
    if (certificate) {
      facts.push(["Status", certificate.status]);
      if (certificate.n_free != null)
        facts.push(["Free, at bound", `${certificate.n_free}, ${certificate.n_bound}`]);
      if (certificate.margin != null) facts.push(["Margin", say(certificate.margin)]);
      if (certificate.primal != null)
        facts.push(
          ["Primal", say(certificate.primal, 5)],
          ["Dual", say(certificate.dual, 5)],
          ["Gap", say(certificate.gap)],
        );
      else if (certificate.violation != null) facts.push(["Violation", say(certificate.violation)]);
    }
    if (head.slack != null) facts.push(["Slack Σξ", say(head.slack)]);
    if (head.eigenvalues)
      facts.push([
        "Eigenvalues",
        head.eigenvalues
          .slice(0, 4)
          .map((v) => say(v))
          .join(", "),
      ]);
    facts.push(["Time", `${say(1000 * head.seconds)} ms`]);
    put(
      $("#result-facts"),
      ...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]),
    );
  }

  #components(head) {
    const count = head.array.components?.shape[0] ?? 0;
    const box = $("#components");
    box.hidden = !count;
    if (!count || box.dataset.count === String(count)) return;
    box.dataset.count = count;
    this.component = Math.min(this.component, count - 1);
    const choices = Array.from({ length: count }, (_, i) => ({ value: i, label: String(i + 1) }));
    segmented(box, choices, this.component, (component) => {
      this.component = component;
      this.plane.figure.redraw();
    });
  }

  #fillTable() {
    const { points } = this.store.state;
    const rows = points.slice(0, SHOWN_AS_TEXT).map(([x, y, label]) => `${x}, ${y}, ${label}`);
    if (points.length > SHOWN_AS_TEXT) rows.push(`# and ${points.length - SHOWN_AS_TEXT} more`);
    $("#points-text").value = rows.join("\n");
  }

  #table() {
    $("#points-card").addEventListener("toggle", () => this.#fillTable());
    $("#points-apply").addEventListener("click", async () => {
      const text = $("#points-text").value;
      try {
        const { points } = await post("/api/paste", { text });
        $("#points-error").textContent = "";
        this.store.commit({ points, view: null, example: null });
        announce(`${points.length} points`);
      } catch (error) {
        $("#points-error").textContent = error.message;
      }
    });
  }
}

function drawRefutation(context, axes, colours, { points, vector }) {
  context.save();
  context.font = `600 12px ${colours.font}`;
  context.textAlign = "left";
  context.textBaseline = "middle";
  points.forEach(([x, y], i) => {
    const [px, py] = [axes.x(x), axes.y(y)];
    context.strokeStyle = colours.bad;
    context.lineWidth = 2;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.arc(px, py, 15, 0, 2 * Math.PI);
    context.stroke();
    const text = `v = ${say(vector[i], 2)}`;
    const width = context.measureText(text).width;
    context.globalAlpha = 0.85;
    context.fillStyle = colours.paper;
    context.fillRect(px + 17, py - 9, width + 8, 18);
    context.globalAlpha = 1;
    context.fillStyle = colours.bad;
    context.fillText(text, px + 21, py);
  });
  context.restore();
}
