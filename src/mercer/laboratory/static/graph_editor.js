// A graph that is drawn: nodes by clicks, edges by dragging from node to node.

import { Figure } from "./figure.js";
import { drawNodes, graphPlaces } from "./nodes.js";

const REACH = 22; // pixels
const MOST = 60;

export class GraphEditor {
  /** `label()` is that of a new node; `changed(graph)` after every change. */
  constructor(canvas, label, changed) {
    this.canvas = canvas;
    this.label = label;
    this.changed = changed;
    this.graph = { labels: [], edges: [] };
    this.selected = -1;
    this.drag = null;
    this.at = [];
    this.figure = new Figure(canvas, (context, width, height, colours) => {
      const { labels, edges } = this.graph;
      this.at = drawNodes(context, width, height, colours, {
        labels,
        edges,
        places: this.#places(),
        selected: this.selected,
      });
      if (!this.drag?.to) return;
      context.setLineDash([5, 4]);
      context.strokeStyle = colours.accent;
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(...this.at[this.drag.node]);
      context.lineTo(...this.drag.to);
      context.stroke();
      context.setLineDash([]);
    });
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", (event) => this.#up(event));
    canvas.addEventListener("pointercancel", () => this.#end());
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  show(graph) {
    this.graph = graph;
    if (this.selected >= graph.labels.length) this.selected = -1;
    this.figure.redraw();
  }

  #places() {
    return graphPlaces(this.graph);
  }

  #under(x, y) {
    return this.at.findIndex(([a, b]) => Math.hypot(a - x, b - y) <= REACH);
  }

  #share(x, y) {
    const clip = (v) => Math.max(0, Math.min(1, Math.round(v * 1000) / 1000));
    return [clip((x - 24) / (this.figure.width - 48)), clip((y - 20) / (this.figure.height - 40))];
  }

  #down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    const node = this.#under(event.offsetX, event.offsetY);
    this.selected = node;
    this.drag = { node, x: event.offsetX, y: event.offsetY, to: null };
    this.figure.redraw();
  }

  #move(event) {
    const { drag } = this;
    if (!drag || drag.node < 0 || Math.hypot(event.offsetX - drag.x, event.offsetY - drag.y) < 5)
      return;
    drag.to = [event.offsetX, event.offsetY];
    this.figure.redraw();
  }

  #up(event) {
    const { drag } = this;
    if (!drag) return;
    const node = this.#under(event.offsetX, event.offsetY);
    if (drag.node < 0 && node < 0) this.#add(event.offsetX, event.offsetY);
    else if (drag.to && node >= 0 && node !== drag.node) this.#join(drag.node, node);
    else if (drag.to && node < 0) {
      const places = this.#places().with(drag.node, this.#share(event.offsetX, event.offsetY));
      this.#change({ ...this.graph, places });
    }
    this.#end();
  }

  #end() {
    this.drag = null;
    this.figure.redraw();
  }

  #change(graph) {
    this.graph = graph;
    this.changed(graph);
    this.figure.redraw();
  }

  #add(x, y) {
    const { labels, edges } = this.graph;
    if (labels.length >= MOST) return;
    const places = [...this.#places(), this.#share(x, y)];
    this.selected = labels.length;
    this.#change({ labels: [...labels, this.label()], edges, places });
  }

  #join(a, b) {
    const { edges } = this.graph;
    const left = edges.filter(([p, q]) => !((p === a && q === b) || (p === b && q === a)));
    this.#change({
      ...this.graph,
      places: this.#places(),
      edges: left.length < edges.length ? left : [...edges, [a, b]],
    });
  }

  #remove(node) {
    const { labels, edges } = this.graph;
    if (labels.length < 2) return;
    const shift = (i) => (i > node ? i - 1 : i);
    const left = edges
      .filter(([p, q]) => p !== node && q !== node)
      .map(([p, q]) => [shift(p), shift(q)]);
    this.selected = -1;
    this.#change({
      labels: labels.toSpliced(node, 1),
      edges: left,
      places: this.#places().toSpliced(node, 1),
    });
  }

  #key(event) {
    const n = this.graph.labels.length;
    const { key } = event;
    if (key === "n" || key === "p")
      this.selected = (this.selected + (key === "n" ? 1 : n - 1 + (this.selected < 0 ? 1 : 0))) % n;
    else if (key === "Enter")
      this.#add(
        this.figure.width * (0.2 + 0.6 * ((n * 0.37) % 1)),
        this.figure.height * (0.2 + 0.6 * ((n * 0.61) % 1)),
      );
    else if ((key === "Delete" || key === "Backspace") && this.selected >= 0)
      this.#remove(this.selected);
    else return;
    event.preventDefault();
    this.figure.redraw();
  }
}
