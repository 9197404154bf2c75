// The tab "Structures": a few strings, trees or graphs, and what a kernel finds in them.

import { Channel, unlessSuperseded } from "./api.js";
import { $, announce, later, make, put } from "./dom.js";
import { say } from "./axes.js";
import { drawMatrix, note } from "./charts.js";
import { Figure } from "./figure.js";
import { GraphEditor } from "./graph_editor.js";
import {
  drawNodes,
  graphPlaces,
  letters,
  parseGraph,
  treeEdges,
  treePlaces,
  weightColour,
  writeGraph,
} from "./nodes.js";
import { icon } from "./plane_view.js";
import { segmented } from "./slider.js";

const KINDS = [
  { value: "strings", label: "Strings" },
  { value: "trees", label: "Trees" },
  { value: "graphs", label: "Graphs" },
];
const NEW = {
  strings: "abc",
  trees: "(S (NP a) (VP b))",
  graphs: { labels: ["a", "b"], edges: [[0, 1]] },
};
const MOST = 60;

/** What an item is called in a matrix or a menu. */
function nameOf(kind, value, index) {
  if (kind === "strings") return value;
  return `${kind === "trees" ? "T" : "G"}${index + 1}`;
}

/** What a part is called: of strings the letters alone, with blanks that can be seen. */
function partName(kind, text) {
  if (kind !== "strings") return text;
  const quoted = /^[^']*'(.*)'[^']*$/.exec(text);
  return (quoted ? quoted[1] : text).replaceAll(" ", "␣");
}

export class StructuresView {
  constructor(store, catalog) {
    this.store = store;
    this.catalog = catalog;
    this.channel = new Channel("/api/structures");
    this.matches = new Channel("/api/match");
    this.answer = null;
    this.picked = 0;
    this.pair = [0, 1];
    this.part = null;
    this.matchPart = null;
    this.error = "";
    this.soon = later(() => this.#ask(), 120);
    this.#build();
  }

  get state() {
    return this.store.state.structures;
  }

  get visible() {
    return this.store.state.tab === "structures" && this.state;
  }

  commit(patch) {
    this.store.commit({ structures: { ...this.state, ...patch }, example: null });
  }

  #build() {
    const kinds = make("div", {
      class: "segments",
      role: "radiogroup",
      "aria-label": "Kind of data",
    });
    this.markKind = segmented(kinds, KINDS, "strings", (kind) => this.#kind(kind));
    this.examples = make("select", { "aria-label": "Example", onchange: () => this.#example() });
    const bar = make(
      "div",
      { class: "toolbar full" },
      kinds,
      make("label", { class: "speed" }, this.examples),
    );
    this.list = make("div", { class: "items" });
    this.message = make("p", { class: "error", role: "alert" });
    const add = make(
      "button",
      { type: "button", class: "text-button", onclick: () => this.#add() },
      "Add",
    );
    this.syntax = make("p", { class: "muted" });
    const items = make(
      "section",
      { class: "card", "aria-label": "Items" },
      make("h2", {}, "Items and their classes"),
      this.list,
      make("div", { class: "row items-foot" }, add, this.syntax),
      this.message,
    );
    const gramCanvas = make("canvas", {
      role: "img",
      tabindex: "0",
      "aria-label": "Gram matrix; arrow keys choose a pair",
    });
    this.gramText = make("p", { class: "card-note", id: "structures-gram", "aria-live": "polite" });
    const gram = make(
      "section",
      { class: "card", "aria-label": "Gram matrix" },
      make("h2", {}, "Gram matrix"),
      make("div", { class: "canvas-box" }, gramCanvas),
      this.gramText,
    );
    this.editorCard = make("section", {
      class: "card editor",
      "aria-label": "Drawing",
      hidden: true,
    });
    this.#editor();
    this.explainTitle = make("h2", {}, "Where the prediction comes from");
    this.explainBox = make("div", {});
    const explain = make(
      "section",
      { class: "card", "aria-label": "Explanation" },
      this.explainTitle,
      this.explainBox,
    );
    this.matchBox = make("div", {});
    const match = make(
      "section",
      { class: "card", "aria-label": "Pair" },
      make("h2", {}, "What two have in common"),
      this.matchBox,
    );
    const left = make("div", { class: "side" }, items, this.editorCard, match);
    put($("#structures-main"), bar, left, make("div", { class: "side" }, gram, explain));
    this.#gram(gramCanvas);
    this.#explainParts();
    this.#matchParts();
  }

  #editor() {
    const canvas = make("canvas", { role: "application", tabindex: "0", "aria-label": "Graph" });
    const label = make("input", {
      type: "text",
      value: "a",
      maxlength: 12,
      "aria-label": "Label of new nodes",
    });
    const help = make(
      "p",
      { class: "card-note" },
      "Click to place a node, drag from node to node to join or part them, drag a node to an empty place to move it, Delete removes it. The same graph is text in the list: labels, a bar, edges.",
    );
    this.editorCard.append(
      make(
        "div",
        { class: "card-head" },
        make("h2", {}, "Draw"),
        make("label", { class: "speed" }, make("span", {}, "Label"), label),
      ),
      make("div", { class: "canvas-box" }, canvas),
      help,
    );
    this.editor = new GraphEditor(
      canvas,
      () => label.value.trim() || "a",
      (graph) => this.#setItem(this.picked, { value: graph }),
    );
  }

  #gram(canvas) {
    let under = () => null;
    this.gram = new Figure(canvas, (context, width, height, colours) => {
      const matrix = this.answer?.array.gram;
      const { kind, items } = this.state ?? { items: [] };
      if (!matrix || matrix.shape[0] !== items.length)
        return note(context, width, height, colours, "");
      under = drawMatrix(context, width, height, colours, {
        values: matrix.values,
        size: matrix.shape[0],
        names: items.map((item, i) => nameOf(kind, item.value, i)),
        selected: this.pair,
      });
    });
    canvas.addEventListener("pointerdown", (event) => {
      const cell = under(event.offsetX, event.offsetY);
      if (cell) this.#choosePair(cell);
    });
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[
        event.key
      ];
      const n = this.state.items.length;
      if (!step || !n) return;
      event.preventDefault();
      this.#choosePair(this.pair.map((v, i) => (v + step[i] + n) % n));
    });
  }

  #choosePair(pair) {
    this.pair = pair;
    this.matchPart = null;
    this.#showGramText();
    this.gram.redraw();
    this.#askMatch();
  }

  #showGramText() {
    const matrix = this.answer?.array.gram;
    const { kind, items } = this.state;
    const [a, b] = this.pair;
    if (!matrix || !items[a] || !items[b]) return;
    const name = (i) => nameOf(kind, items[i].value, i);
    this.gramText.textContent = `k(${name(a)}, ${name(b)}) = ${say(matrix.values[a * matrix.shape[0] + b], 4)}. Choose a cell to see what the two have in common.`;
  }

  #kind(kind) {
    const example = this.catalog.structures[kind].examples[0];
    if (example) this.commit({ ...example.state, kind, set: example.state.set ?? {} });
  }

  #example() {
    const chosen = this.catalog.structures[this.state.kind].examples[Number(this.examples.value)];
    this.examples.value = "";
    if (chosen) this.commit({ set: {}, ...chosen.state });
  }

  #add() {
    if (this.state.items.length >= MOST) return;
    this.picked = this.state.items.length;
    this.commit({ items: [...this.state.items, { value: NEW[this.state.kind], label: null }] });
    this.list.lastElementChild?.querySelector("input")?.focus();
  }

  #setItem(index, patch) {
    this.commit({ items: this.state.items.with(index, { ...this.state.items[index], ...patch }) });
  }

  #remove(index) {
    if (this.state.items.length < 2) return;
    this.picked = 0;
    this.pair = [0, 1];
    this.commit({ items: this.state.items.toSpliced(index, 1) });
    announce("removed");
  }

  changed(kind) {
    if (!this.state) return;
    if (this.shownItems !== this.state.items || this.shownKind !== this.state.kind)
      this.#showItems();
    if (!this.visible) {
      this.stale = true;
      return;
    }
    if (kind === "slide") this.#ask(false);
    else this.soon();
  }

  refresh() {
    if (!this.state) return;
    this.#showItems();
    this.#ask();
  }

  #showItems() {
    const { kind, items } = this.state;
    const fresh = this.shownKind !== kind;
    this.shownItems = items;
    this.shownKind = kind;
    if (fresh) {
      this.picked = 0;
      this.pair = [0, Math.min(1, items.length - 1)];
      this.answer = null;
      const list = this.catalog.structures[kind].examples;
      put(
        this.examples,
        make("option", { value: "" }, "Load an example …"),
        ...list.map((e, i) => make("option", { value: i }, e.title)),
      );
    }
    this.picked = Math.min(this.picked, items.length - 1);
    this.pair = this.pair.map((i) => Math.min(i, items.length - 1));
    this.markKind(kind);
    this.syntax.textContent = {
      strings: "",
      trees: "A tree in brackets: (S (NP a) (VP b)).",
      graphs: "Labels, a bar, edges: C C O | 1-2 2-3.",
    }[kind];
    while (this.list.children.length > items.length) this.list.lastElementChild.remove();
    while (this.list.children.length < items.length)
      this.list.append(this.#row(this.list.children.length));
    items.forEach((item, i) => this.#showRow(i, item));
    this.editorCard.hidden = kind !== "graphs";
    if (kind === "graphs") this.editor.show(items[this.picked].value);
  }

  #row(index) {
    const classes = [
      make("option", { value: "" }, "predict"),
      ...Array.from({ length: 6 }, (_, i) => make("option", { value: i }, `class ${i + 1}`)),
    ];
    const pick = () => this.#pick(index);
    const label = make(
      "select",
      {
        "aria-label": `Class of item ${index + 1}`,
        onchange: () =>
          this.#setItem(index, { label: label.value === "" ? null : Number(label.value) }),
      },
      ...classes,
    );
    const text = make("input", {
      type: "text",
      "aria-label": `Item ${index + 1}`,
      spellcheck: "false",
      autocomplete: "off",
      onfocus: pick,
      oninput: () => this.#typed(index, text),
    });
    const verdict = make("button", {
      type: "button",
      class: "verdict",
      "aria-label": `Explain item ${index + 1}`,
      onclick: pick,
    });
    const remove = make(
      "button",
      {
        type: "button",
        class: "icon-button",
        "aria-label": `Remove item ${index + 1}`,
        onclick: () => this.#remove(index),
      },
      icon("close"),
    );
    return make("div", { class: "item" }, label, text, verdict, remove);
  }

  #typed(index, text) {
    this.typedLater ??= later((i, value) => {
      const graph = this.state.kind === "graphs" ? parseGraph(value) : null;
      if (graph && !graph.labels.length) return;
      this.#setItem(i, { value: graph ?? value });
    }, 250);
    this.typedLater(index, text.value);
  }

  #showRow(index, item) {
    const row = this.list.children[index];
    const [label, text, verdict] = row.children;
    label.value = item.label ?? "";
    const shown = this.state.kind === "graphs" ? writeGraph(item.value) : item.value;
    if (document.activeElement !== text && text.value !== shown) text.value = shown;
    row.classList.toggle("picked", index === this.picked);
    const told = this.answer?.items?.[index];
    const value = Array.isArray(told?.value) ? null : told?.value;
    verdict.textContent =
      told?.predicted == null
        ? ""
        : `→ ${told.predicted + 1}${value == null ? "" : `  (${say(value, 2)})`}`;
    verdict.setAttribute(
      "aria-label",
      `Item ${index + 1}: ${told?.predicted == null ? "no prediction" : `predicted class ${told.predicted + 1}`}; explain it`,
    );
  }

  #pick(index) {
    if (this.picked === index) return;
    this.picked = index;
    this.part = null;
    this.state.items.forEach((item, i) => this.#showRow(i, item));
    if (this.state.kind === "graphs") this.editor.show(this.state.items[index].value);
    this.#explain();
  }

  async #ask(all = true) {
    try {
      this.answer = await this.channel.ask(this.state);
      this.message.textContent = "";
    } catch (error) {
      unlessSuperseded((refused) => (this.message.textContent = refused.message))(error);
      return;
    }
    this.state.items.forEach((item, i) => this.#showRow(i, item));
    this.gram.redraw();
    this.#showGramText();
    this.#explain();
    if (all || this.visible) this.#askMatch();
  }

  async #askMatch() {
    const { kind, items, kernel, set } = this.state;
    const [a, b] = this.pair;
    if (!items[a] || !items[b]) return;
    const body = { kind, kernel, left: items[a].value, right: items[b].value };
    if (set && Object.keys(set).length) body.set = set;
    try {
      this.match = await this.matches.ask(body);
      this.#showMatch();
    } catch (error) {
      unlessSuperseded((refused) =>
        put(this.matchParts, make("p", { class: "muted" }, refused.message)),
      )(error);
    }
  }

  /** The places where an item can be coloured: letters, or a canvas of nodes. */
  #slot() {
    const text = make("p", { class: "coloured" });
    const canvas = make("canvas", { role: "img" });
    const box = make("div", { class: "canvas-box", hidden: true }, canvas);
    const slot = { text, box, canvas, element: make("div", {}, text, box), what: null };
    slot.figure = new Figure(canvas, (context, width, height, colours) => {
      if (slot.what) drawNodes(context, width, height, colours, slot.what);
    });
    return slot;
  }

  #colour(slot, index, weights, hits) {
    const { kind, items } = this.state;
    const value = items[index].value;
    slot.text.hidden = kind !== "strings";
    slot.box.hidden = kind === "strings";
    if (kind === "strings") {
      const colour = weightColour(weights);
      const hit = new Set(hits);
      put(
        slot.text,
        ...[...value].map((letter, i) => {
          const span = make(
            "span",
            { class: hit.has(i) ? "hit" : null, title: weights ? say(weights[i]) : null },
            letter === " " ? "\u00a0" : letter,
          );
          const ground = colour(weights?.[i] ?? 0);
          span.style.backgroundColor = ground;
          span.style.color = letters(ground);
          return span;
        }),
      );
      return;
    }
    const tree = kind === "trees" ? this.answer?.trees?.[index] : null;
    if (kind === "trees" && !tree) return;
    const shape = tree
      ? { labels: tree.labels, edges: treeEdges(tree), places: treePlaces(tree) }
      : { labels: value.labels, edges: value.edges, places: graphPlaces(value) };
    slot.what = { ...shape, weights, hits };
    slot.canvas.setAttribute(
      "aria-label",
      `${nameOf(kind, value, index)}, ${shape.labels.length} nodes, coloured by their share`,
    );
    slot.figure.redraw();
  }

  #explainParts() {
    this.explainSlot = this.#slot();
    this.explainList = make("div", { class: "parts", role: "group", "aria-label": "Parts" });
    this.explainNote = make("p", { class: "card-note" });
    put(this.explainBox, this.explainSlot.element, this.explainList, this.explainNote);
  }

  #explain() {
    const told = this.answer?.items?.[this.picked];
    if (!told) return;
    const { kind, items } = this.state;
    this.explainTitle.textContent = `Where the prediction of ${nameOf(kind, items[this.picked].value, this.picked).slice(0, 24)} comes from`;
    const flat = Array.isArray(told.places?.[0]) ? told.places[0] : told.places;
    const hits = this.part === null ? [] : (told.parts[this.part]?.places ?? []).flat();
    this.#colour(this.explainSlot, this.picked, flat, hits);
    this.#parts(
      this.explainList,
      told.parts,
      this.part,
      (p) => p.contribution,
      (i) => {
        this.part = i;
        this.#explain();
      },
    );
    const bias = this.answer.bias;
    const sum =
      told.value != null && !Array.isArray(told.value) && bias != null
        ? ` The colours${this.answer.exact ? "" : " nearly"} add up to f = ${say(told.value)} with the bias ${say(bias)}.`
        : "";
    this.explainNote.textContent =
      (told.parts?.length
        ? "Choose a part to see where it stands."
        : "This kernel has no parts that can be listed.") + sum;
  }

  #parts(box, parts, chosen, number, choose) {
    put(
      box,
      ...(parts ?? []).slice(0, 18).map((part, i) =>
        make(
          "button",
          {
            type: "button",
            class: "part",
            "aria-pressed": String(i === chosen),
            onclick: () => choose(i === chosen ? null : i),
          },
          make("code", {}, partName(this.state.kind, part.text)),
          make("small", {}, say(number(part), 2)),
        ),
      ),
    );
  }

  #matchParts() {
    this.leftSlot = this.#slot();
    this.rightSlot = this.#slot();
    this.matchParts = make("div", { class: "parts", role: "group", "aria-label": "Common parts" });
    this.matchNote = make("p", { class: "card-note" });
    put(
      this.matchBox,
      make("div", { class: "pair" }, this.leftSlot.element, this.rightSlot.element),
      this.matchParts,
      this.matchNote,
    );
  }

  #showMatch() {
    const { match } = this;
    const [a, b] = this.pair;
    if (!match || !this.state.items[a] || !this.state.items[b]) return;
    const part = this.matchPart === null ? null : match.parts[this.matchPart];
    this.#colour(this.leftSlot, a, match.left_places, (part?.left ?? []).flat());
    this.#colour(this.rightSlot, b, match.right_places, (part?.right ?? []).flat());
    this.#parts(
      this.matchParts,
      match.parts,
      this.matchPart,
      (p) => p.contribution,
      (i) => {
        this.matchPart = i;
        this.#showMatch();
      },
    );
    this.matchNote.textContent = `k = ${say(match.value, 4)}${match.normalized != null ? `, normalised ${say(match.normalized, 4)}` : ""}. ${match.parts?.length ? "Choose a part to see where it stands in both." : "They have nothing in common."}`;
  }
}
