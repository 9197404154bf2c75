// The tab "Duality": the same fit seen from its other side.

import { Channel, unlessSuperseded } from "./api.js";
import { $, make, put } from "./dom.js";
import { planeAxes, say, widened } from "./axes.js";
import { drawBars, drawCurves, drawMatrix, note } from "./charts.js";
import { Figure } from "./figure.js";
import { drawFit, drawPoints, drawSigned, drawSlack, layer, sides, strokeAt, trace } from "./field.js";
import { requestOf } from "./fit.js";
import { drawRulers, viewOf } from "./plane.js";
import { icon } from "./plane_view.js";
import { Scatter } from "./scatter.js";

const KKT = ["α = 0: beyond the margin", "0 < α < C: on the margin", "α = C: inside the margin"];

/** A card with a canvas; `name` is what a course's example may ask for. */
function card(sheet, name, title, about) {
  const canvas = make("canvas", { role: "img", "aria-label": title });
  const head = make("div", { class: "card-head" }, make("h2", { id: `title-${name}` }, title));
  const box = make("div", { class: "canvas-box" }, canvas);
  const foot = make("p", { class: "card-note" }, about);
  const element = make(
    "section",
    { class: "card", id: `card-${name}`, "aria-labelledby": `title-${name}` },
    head,
    box,
    foot,
  );
  sheet.append(element);
  return { element, canvas, head, box, foot };
}

/** Primal and dual as they close; a first primal that is far away is out of sight. */
function closingGap({ array }, colours) {
  const [primal, dual] = [Array.from(array.primal.values), Array.from(array.dual.values)];
  const x = Array.from(array.iterations.values);
  const end = dual.at(-1);
  const seen = [...primal, ...dual].filter(Number.isFinite);
  const high = Math.min(Math.max(...seen), end + 2.5 * Math.abs(end - dual[0]) || Infinity);
  const low = Math.min(...seen);
  const room = 0.06 * (high - low) || 1;
  return {
    series: [
      { x, y: primal, colour: colours.classes[1], name: "primal", dots: 2.5 },
      { x, y: dual, colour: colours.classes[0], name: "dual", dots: 2.5 },
    ],
    logX: true,
    labels: ["steps", "objective"],
    range: { y: [low - room, high + room] },
  };
}

/** What a solver reported on its way: by how much the conditions were missed. */
function violations(history, colours) {
  const series = [
    {
      x: history.map((row) => row[0]),
      y: history.map((row) => row[2]),
      colour: colours.strong,
    },
  ];
  return { series, logY: true, labels: ["steps", "violation"] };
}

const MOST_CLOSING = 1000; // points of which the server shows how the gap closes

export class DualityView {
  constructor(store, catalog) {
    this.store = store;
    this.catalog = catalog;
    this.fit = null;
    this.stale = true;
    this.picked = -1;
    this.answers = {};
    const channels = ["bounds", "gram", "features", "path", "gap"];
    this.channels = Object.fromEntries(channels.map((name) => [name, new Channel(`/api/${name}`)]));
    const sheet = $("#duality-sheet");
    this.#boundary(sheet);
    this.#dual(sheet);
    this.#gap(sheet);
    this.#features(sheet);
    this.#gram(sheet);
    this.#spectrum(sheet);
    this.#film(sheet);
    this.#bounds(sheet);
  }

  get visible() {
    return this.store.state.tab === "duality";
  }

  #view() {
    return this.store.state.view ?? viewOf(this.store.state.points);
  }

  #axes(width, height, view) {
    return planeAxes(view, width, height, this.store.state.task !== "regress");
  }

  /** What the first card shows of the plane; null while it is hidden. */
  get shown() {
    const { clientWidth: width, clientHeight: height } = this.boundary.canvas;
    const { state } = this.store;
    return width
      ? widened(state.view ?? viewOf(state.points), width, height, state.task !== "regress")
      : null;
  }

  /** Why a picture of the fit is empty. */
  #absent(reason) {
    if (this.fit) return reason;
    return this.refused ? "no fit" : "computing …";
  }

  #boundary(sheet) {
    const { canvas, foot } = card(
      sheet,
      "boundary",
      "Boundary, margins, support vectors",
      "The size of a point is its α. A plain ring: on the margin; a red or pink one: α at its bound.",
    );
    this.boundaryNote = foot;
    this.boundary = new Figure(canvas, (context, width, height, colours) => {
      const axes = this.#axes(width, height, this.#view());
      drawFit(context, axes, colours, this.fit);
      drawRulers(context, axes, colours);
      const { points, task } = this.store.state;
      drawPoints(context, axes, colours, {
        points,
        fit: this.fit,
        labelled: task === "classify",
        highlight: [this.picked],
      });
      if (this.store.state.slack)
        drawSlack(context, axes, colours, { points, fit: this.fit, named: false });
    });
  }

  #dual(sheet) {
    const { canvas, foot, head } = card(sheet, "dual", "Dual variables", "");
    this.dualNote = foot;
    canvas.tabIndex = 0;
    head.append(
      make(
        "div",
        { class: "legend" },
        make("span", { class: "zero" }, "zero"),
        make("span", { class: "free" }, "free"),
        make("span", { class: "full" }, "at C"),
      ),
    );
    let under = () => -1;
    this.dual = new Figure(canvas, (context, width, height, colours) => {
      const { alpha, kkt } = this.fit?.head.array ?? {};
      const tint = [colours.grid, colours.classes[2], colours.strong];
      under = drawBars(context, width, height, colours, {
        values: alpha ? Array.from(alpha.values) : [],
        tints: alpha ? Array.from(alpha.values, (_, i) => tint[kkt?.values[i] ?? 1]) : [],
        limit: this.fit?.head.upper ?? null,
        selected: this.picked,
        labels: ["point", "α"],
        empty: this.#absent("this machine has no dual variables"),
      });
    });
    canvas.addEventListener("pointermove", (event) => this.#pick(under(event.offsetX)));
    canvas.addEventListener("pointerdown", (event) => this.#pick(under(event.offsetX)));
    canvas.addEventListener("pointerleave", () => this.#pick(-1));
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const n = this.fit?.head.array.alpha?.values.length ?? 0;
      if (!step || !n) return;
      event.preventDefault();
      this.#pick((this.picked + step + n) % n);
    });
  }

  #pick(index) {
    if (index === this.picked) return;
    this.picked = index;
    this.#dualText();
    this.dual.redraw();
    this.boundary.redraw();
  }

  #dualText() {
    const { alpha, kkt, slack, value } = this.fit?.head.array ?? {};
    if (!alpha) {
      this.dualNote.textContent = "Support vector machines have one for each point.";
      return;
    }
    const i = this.picked;
    if (i >= 0 && i < alpha.values.length) {
      const f = value && value.shape.length === 1 ? `, f = ${say(value.values[i])}` : "";
      const xi = slack ? `, slack ξ = ${say(slack.values[i])}` : "";
      this.dualNote.textContent = `Point ${i + 1}: α = ${say(alpha.values[i])}${f}${xi}. ${KKT[kkt?.values[i] ?? 1]}.`;
      return;
    }
    const counts = [0, 0, 0];
    for (const status of kkt?.values ?? []) counts[status] += 1;
    this.dualNote.textContent = `${counts[0]} at zero, ${counts[1]} free, ${counts[2]} at the bound. Point at a bar, or use the arrow keys, to see its point.`;
  }

  #gap(sheet) {
    const { canvas, foot } = card(sheet, "gap", "Primal, dual and gap", "");
    this.gapNote = foot;
    this.gap = new Figure(canvas, (context, width, height, colours) => {
      const closing = this.answers.gap;
      const certificate = this.fit?.head.certificate;
      drawCurves(context, width, height, colours, {
        ...(closing
          ? closingGap(closing, colours)
          : violations(this.fit?.head.history ?? [], colours)),
        empty: this.#absent(
          certificate ? "solved at once: no steps to show" : "this machine has no certificate",
        ),
      });
    });
  }

  #features(sheet) {
    const { canvas, foot } = card(
      sheet,
      "features",
      "Feature space",
      "The first three kernel principal components. Drag, or use the arrow keys, to turn.",
    );
    canvas.tabIndex = 0;
    this.featuresNote = foot;
    this.scatter = new Scatter(canvas);
  }

  #gram(sheet) {
    const { canvas, foot } = card(sheet, "gram", "Gram matrix", "");
    this.gramNote = foot;
    this.gram = new Figure(canvas, (context, width, height, colours) => {
      const matrix = this.answers.gram?.array.gram;
      drawMatrix(
        context,
        width,
        height,
        colours,
        matrix
          ? { values: matrix.values, size: matrix.shape[0] }
          : { values: [], size: 0, empty: "" },
      );
    });
  }

  #spectrum(sheet) {
    const { canvas, foot } = card(sheet, "spectrum", "Spectrum of the Gram matrix", "");
    this.spectrumNote = foot;
    this.spectrum = new Figure(canvas, (context, width, height, colours) => {
      const values = Array.from(this.answers.gram?.array.eigenvalues.values ?? []).slice(0, 60);
      const log = values.some((v) => v > 0) && Math.min(...values) > -1e-6 * values[0];
      drawBars(context, width, height, colours, {
        values,
        log,
        tints: values.map((v) => (v < 0 ? colours.bad : colours.classes[0])),
        labels: ["number", "eigenvalue"],
        empty: "",
      });
    });
  }

  #bounds(sheet) {
    const { element, box } = card(sheet, "bounds", "Bounds beside measured errors", "");
    this.boundsBox = make("div", {});
    box.replaceWith(this.boundsBox);
    this.boundsNote = element.querySelector(".card-note");
  }

  #film(sheet) {
    const { element, canvas, foot } = card(sheet, "path", "The path in C", "");
    this.filmNote = foot;
    this.frame = 0;
    const play = make(
      "button",
      {
        type: "button",
        class: "icon-button",
        "aria-label": "Play the path",
        onclick: () => this.#playFilm(),
      },
      icon("play"),
    );
    const scrub = make("input", {
      type: "range",
      min: 0,
      max: 0,
      value: 0,
      "aria-label": "C along the path",
      oninput: () => this.#showFrame(Number(scrub.value)),
    });
    element.insertBefore(make("div", { class: "film" }, play, scrub), foot);
    this.film = { play, scrub, timer: 0 };
    this.filmFigure = new Figure(canvas, (context, width, height, colours) =>
      this.#drawFilm(context, width, height, colours),
    );
  }

  #drawFilm(context, width, height, colours) {
    const path = this.answers.path;
    if (!path) return note(context, width, height, colours, this.filmEmpty ?? "");
    const axes = this.#axes(width, height, path.tight);
    const { alpha, decision, mean, x, C } = path.array;
    const i = Math.min(this.frame, C.values.length - 1);
    const n = alpha.shape[1];
    if (decision) {
      path.layers ??= [];
      const grid = (path.layers[i] ??= layer(decision, i));
      drawSigned(context, axes, path.view, grid, 1, sides(colours, path.labels));
      for (const level of [-1, 1])
        strokeAt(context, axes, path.view, grid, level, {
          colour: colours.ink,
          width: 1.25,
          dash: [6, 5],
        });
      strokeAt(context, axes, path.view, grid, 0, { colour: colours.ink, width: 2.5 });
    } else if (mean) {
      const columns = mean.shape[1];
      context.strokeStyle = colours.classes[1];
      context.lineWidth = 2.5;
      context.beginPath();
      trace(context, axes, x.values, mean.values.subarray(i * columns, (i + 1) * columns));
      context.stroke();
    }
    drawRulers(context, axes, colours);
    drawPoints(context, axes, colours, {
      points: path.points,
      labelled: Boolean(decision),
      values: alpha.values.subarray(i * n, (i + 1) * n),
      most: C.values[i],
    });
  }

  #showFrame(index) {
    const path = this.answers.path;
    if (!path) return;
    this.frame = index;
    this.film.scrub.value = index;
    const { C, error, support, margin } = path.array;
    const at = (array) => say(array?.values[index]);
    this.film.scrub.setAttribute("aria-valuetext", `C = ${at(C)}`);
    this.filmNote.textContent = `C = ${at(C)}: ${at(support)} support vectors, error ${at(error)}${margin ? `, margin ${at(margin)}` : ""}.${path.breakpoints ? ` The exact path has ${path.breakpoints} breakpoints.` : ""}`;
    this.filmFigure.redraw();
  }

  #stopFilm() {
    clearInterval(this.film.timer);
    this.film.timer = 0;
    put(this.film.play, icon("play"));
    this.film.play.setAttribute("aria-label", "Play the path");
  }

  #playFilm() {
    if (this.film.timer) return this.#stopFilm();
    const count = this.answers.path?.array.C.values.length ?? 0;
    if (!count) return;
    if (this.frame >= count - 1) this.#showFrame(0);
    put(this.film.play, icon("pause"));
    this.film.play.setAttribute("aria-label", "Pause");
    this.film.timer = setInterval(() => {
      if (this.frame + 1 >= count || !this.visible) return this.#stopFilm();
      this.#showFrame(this.frame + 1);
    }, 110);
  }

  fitted(fit) {
    this.fit = fit;
    this.refused = false;
    if (!this.visible) return;
    this.#dualText();
    this.#gapText();
    for (const figure of [this.boundary, this.dual, this.gap]) figure.redraw();
  }

  failed(error) {
    this.fit = null;
    this.refused = true;
    this.boundaryNote.textContent = error.message;
    if (this.visible) for (const figure of [this.boundary, this.dual, this.gap]) figure.redraw();
  }

  #gapText() {
    const c = this.fit?.head.certificate;
    this.gapNote.textContent = c
      ? [
          c.primal != null
            ? `primal ${say(c.primal, 5)}, dual ${say(c.dual, 5)}, gap ${say(c.gap)}`
            : "",
          c.violation != null ? `violation ${say(c.violation)}` : "",
          c.iterations != null ? `${c.iterations} steps` : "",
          c.status,
        ]
          .filter(Boolean)
          .join("; ") + "."
      : "";
  }

  /** The state rests: asks for what the visible cards show. */
  rest() {
    this.stale = true;
    if (this.visible) this.refresh();
  }

  refresh() {
    this.fitted(this.fit);
    if (!this.stale) return;
    this.stale = false;
    this.#stopFilm();
    this.answers = {};
    this.filmFigure.redraw();
    const { state } = this.store;
    const tight = this.#view();
    const view = this.shown ?? tight;
    const body = requestOf(state, view);
    this.scatter.show([], [], "computing …");
    this.filmEmpty = "computing …";
    this.#ask("gram", body, (head) => {
      this.gramNote.textContent = `From ${say(head.low)} to ${say(head.high)}; points in the order of their labels.`;
      this.spectrumNote.textContent = `${head.rank_95} eigenvalues hold 95 % of the trace${head.condition != null ? `; condition ${say(head.condition)}` : ""}.`;
      this.gram.redraw();
      this.spectrum.redraw();
    });
    const offer = this.catalog.machines[state.machine.name];
    const present = [...new Set(state.points.map((p) => p[2]))].sort((a, b) => a - b);
    const binary = state.task !== "classify" || present.length === 2;
    if (offer.dual && state.points.length <= MOST_CLOSING) {
      this.#ask("gap", body, () => this.gap.redraw());
    }
    this.#ask("features", body, (head) => this.#showFeatures(head, state));
    this.#ask("bounds", body, (head) => this.#showBounds(head));
    if (!offer.path || !binary) {
      this.#missing("path", {
        message: "Support vector machines of two classes, or of regression, have a path in C.",
      });
      return;
    }
    this.#ask("path", { ...body, grid: [56, 44], frames: 40 }, (head) => {
      Object.assign(head, { view, tight, points: state.points, labels: present });
      const last = head.array.C.values.length - 1;
      this.film.scrub.max = last;
      this.#showFrame(Math.round(last / 2));
    });
  }

  #ask(name, body, show) {
    this.channels[name]
      .ask(body, { now: true })
      .then((head) => {
        this.answers[name] = head;
        show(head);
      })
      .catch(unlessSuperseded((error) => this.#missing(name, error)));
  }

  #missing(name, error) {
    this.answers[name] = null;
    if (name === "gap") return; // the curve that the solver reported stays
    const notes = {
      gram: this.gramNote,
      features: this.featuresNote,
      bounds: this.boundsNote,
      path: this.filmNote,
    };
    notes[name].textContent = error.message;
    if (name === "gram") {
      this.spectrumNote.textContent = "";
      this.gram.redraw();
      this.spectrum.redraw();
    }
    if (name === "features") this.scatter.show([], [], "no picture");
    if (name === "bounds") put(this.boundsBox);
    if (name === "path") {
      this.filmEmpty = "";
      this.film.scrub.max = 0;
      this.filmFigure.redraw();
    }
  }

  #showFeatures(head, state) {
    const { scores } = head.array;
    const k = scores.shape[1];
    const support = this.fit?.head.array.alpha?.values;
    const points = state.points.map(([, , label], i) => ({
      at: [0, 1, 2].map((j) => (j < k ? scores.values[i * k + j] : 0)),
      group: state.task === "classify" ? label : 0,
      ring: support?.[i] > 0,
    }));
    const explained = head.explained ?? [];
    const names = [0, 1, 2].map((j) =>
      explained[j] != null ? `${j + 1}: ${say(100 * explained[j], 2)} %` : String(j + 1),
    );
    const plane = head.array.plane?.values;
    this.scatter.plane = plane && Number.isFinite(plane[0]) ? Array.from(plane) : null;
    this.scatter.show(points, names);
    const shared =
      head.fit_share != null
        ? ` The plane drawn explains ${say(100 * head.fit_share)} % of f.`
        : "";
    this.featuresNote.textContent = `The first three kernel principal components, with their share of the variance.${shared} Drag, or use the arrow keys, to turn.`;
  }

  #showBounds(head) {
    const row = ({ name, value, about, formula, note: remark }) => {
      const more = [about, formula, remark].filter(Boolean);
      const cell = more.length
        ? make(
            "details",
            {},
            make("summary", {}, name),
            ...more.map((text) => make("small", {}, text)),
          )
        : name;
      return make(
        "tr",
        {},
        make("td", {}, cell),
        make("td", { class: "number" }, value == null ? "–" : say(value)),
      );
    };
    const heading = (title) =>
      make(
        "tr",
        {},
        make("th", { scope: "col" }, title),
        make("th", { class: "number", scope: "col" }, "value"),
      );
    const table = (title, entries) =>
      make(
        "table",
        { class: "table" },
        make("thead", {}, heading(title)),
        make("tbody", {}, ...entries.map(row)),
      );
    put(
      this.boundsBox,
      table("Measured", head.measured),
      head.bounds.length ? table("Bound", head.bounds) : null,
    );
    this.boundsNote.textContent = !head.bounds.length
      ? "No bound holds for this machine."
      : "A bound above 1 says nothing of these few points. Open a line to see what it assumes.";
  }

  /** Scrolls to a card that an example of the course is about. */
  open(name) {
    const element = $(`#card-${name}`);
    if (!element) return;
    element.scrollIntoView({ block: "center", behavior: "smooth" });
    element.classList.add("flash");
    setTimeout(() => element.classList.remove("flash"), 1600);
  }
}
