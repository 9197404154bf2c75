// The tab "Step": a run that the server recorded, played back and forth.

import { Channel, unlessSuperseded } from "./api.js";
import { $, make, put } from "./dom.js";

import { widened } from "./axes.js";
import { drawBars, drawCurves, note } from "./charts.js";
import { Figure } from "./figure.js";
import { gridFor, requestOf } from "./fit.js";
import { ALGORITHMS } from "./algorithms.js";
import { viewOf } from "./plane.js";
import { icon } from "./plane_view.js";
import { segmented } from "./slider.js";

const PAUSE = 1000; // ms of a frame at speed 1

export class StepView {
  constructor(store, catalog) {
    this.store = store;
    this.catalog = catalog;
    this.channel = new Channel("/api/steps");
    this.run = null;
    this.at = 0;
    this.timer = 0;
    this.stale = true;
    this.message = "";
    this.main = new Figure($("#step-main"), (...given) => this.#draw("main", ...given));
    this.second = new Figure($("#step-second"), (...given) => this.#draw("second", ...given));
    this.curve = new Figure($("#step-curve"), (...given) =>
      this.#chart("curve", drawCurves, ...given),
    );
    this.bars = new Figure($("#step-bars"), (...given) => this.#chart("bars", drawBars, ...given));
    const choices = Object.entries(ALGORITHMS).map(([value, { title }]) => ({
      value,
      label: title,
    }));
    this.mark = segmented($("#algorithms"), choices, "smo", (name) => this.#choose(name));
    this.#transport();
  }

  get visible() {
    return this.store.state.tab === "step";
  }

  get kind() {
    return ALGORITHMS[this.run?.algorithm ?? this.#algorithm()];
  }

  #algorithm() {
    const { state } = this.store;
    const able = this.catalog.machines[state.machine.name]?.steps ?? [];
    const wanted = state.step?.algorithm;
    return wanted && (able.includes(wanted) || state.step.quadratic)
      ? wanted
      : (able[0] ?? wanted ?? "smo");
  }

  /** An algorithm; where the machine at hand has it not, one that has it. */
  #choose(name) {
    const { state } = this.store;
    const { machines } = this.catalog;
    const patch = { step: { algorithm: name } };
    if (!machines[state.machine.name]?.steps.includes(name)) {
      const able = Object.keys(machines).filter((m) => machines[m].steps.includes(name));
      const found = able.find((m) => machines[m].tasks.includes(state.task)) ?? able[0];
      if (found) {
        patch.machine = { name: found, params: {} };
        if (!machines[found].tasks.includes(state.task)) patch.task = machines[found].tasks[0];
      }
    }
    this.store.commit(patch);
  }

  #transport() {
    const go = (change) => () => {
      this.pause();
      this.show(change(this.at, (this.run?.frames ?? 1) - 1));
    };
    $("#step-first").addEventListener(
      "click",
      go(() => 0),
    );
    $("#step-back").addEventListener(
      "click",
      go((at) => at - 1),
    );
    $("#step-forward").addEventListener(
      "click",
      go((at) => at + 1),
    );
    $("#step-last").addEventListener(
      "click",
      go((_, last) => last),
    );
    $("#step-play").addEventListener("click", () => (this.timer ? this.pause() : this.play()));
    $("#step-scrub").addEventListener("input", () => {
      this.pause();
      this.show(Number($("#step-scrub").value));
    });
    $("#step-speed").addEventListener("change", () => {
      if (this.timer) this.play();
    });
    $("#panel-step").addEventListener("keydown", (event) => {
      if (event.target.matches("input, select, button")) return;
      const steps = { ArrowRight: 1, ArrowLeft: -1 };
      if (event.key in steps) go((at) => at + steps[event.key])();
      else if (event.key === " ") $("#step-play").click();
      else return;
      event.preventDefault();
    });
  }

  play() {
    clearInterval(this.timer);
    const last = (this.run?.frames ?? 1) - 1;
    if (last < 1) return;
    if (this.at >= last) this.show(0);
    this.#button("pause", "Pause");
    // A screen reader would read every frame of a film.
    $("#step-title").parentElement.setAttribute("aria-live", "off");
    this.timer = setInterval(
      () => {
        if (this.at >= last || !this.visible) this.pause();
        else this.show(this.at + 1);
      },
      PAUSE / Number($("#step-speed").value),
    );
  }

  pause() {
    clearInterval(this.timer);
    this.timer = 0;
    this.#button("play", "Play");
    $("#step-title").parentElement.setAttribute("aria-live", "polite");
  }

  #button(name, label) {
    put($("#step-play"), icon(name));
    $("#step-play").setAttribute("aria-label", label);
  }

  /** The state rests: the run is recorded anew when it is looked at. */
  rest() {
    this.stale = true;
    if (this.visible) this.refresh();
  }

  /** What the server is asked for, without a grid. */
  #wanted(view) {
    const { state } = this.store;
    const algorithm = this.#algorithm();
    const body = { ...requestOf(state, view), algorithm };
    for (const name of ["most", "seed", "quadratic"])
      if (state.step?.[name] !== undefined && (name !== "quadratic" || algorithm === "coordinate"))
        body[name] = state.step[name];
    return body;
  }

  get wanted() {
    const { state } = this.store;
    return this.#wanted(state.view ?? viewOf(state.points));
  }

  async refresh() {
    const algorithm = this.#algorithm();
    this.mark(algorithm);
    if (!this.stale) return;
    this.stale = false;
    this.pause();
    const { state } = this.store;
    const view = state.view ?? viewOf(state.points);
    const { shown, grid } = this.#grid(view, state.task !== "regress");
    const body = { ...this.#wanted(shown), grid };
    this.message = "recording the run …";
    if (this.run?.algorithm !== algorithm) {
      this.run = null;
      this.show(0);
    }
    try {
      const run = await this.channel.ask(body, { now: true });
      run.view = shown;
      run.tight = view;
      run.points = body.points;
      run.task = state.task;
      run.labels = [...new Set(body.points.map((p) => p[2]))].sort((a, b) => a - b);
      this.run = run;
      this.message = "";
      $("#step-note").textContent = run.note ?? "";
      this.show(Math.min(1, run.frames - 1));
    } catch (error) {
      unlessSuperseded((refused) => {
        this.run = null;
        this.message = refused.message;
        this.show(0);
      })(error);
    }
  }

  /** A view that fills both shapes of the pictures, side by side and alone. */
  #grid(view, equal) {
    const box = $("#step-pictures");
    const [width, height] = [box.clientWidth || 700, $("#step-main").clientHeight || 500];
    const [broad, narrow] = [
      widened(view, width, height, equal),
      widened(view, (width - 16) / 2, height, equal),
    ];
    const shown = { x: broad.x, y: narrow.y };
    const ratio = equal ? (shown.x[1] - shown.x[0]) / (shown.y[1] - shown.y[0]) : width / height;
    return { shown, grid: gridFor(ratio, 1, 3000).map((n) => Math.min(64, n)) };
  }

  show(at) {
    const last = (this.run?.frames ?? 1) - 1;
    this.at = Math.max(0, Math.min(last, at));
    const scrub = $("#step-scrub");
    scrub.max = last;
    scrub.value = this.at;
    scrub.setAttribute("aria-valuetext", `step ${this.at} of ${last}`);
    $("#step-count").textContent = `${this.at} / ${last}`;
    $("#step-back").disabled = $("#step-first").disabled = this.at === 0;
    $("#step-forward").disabled = $("#step-last").disabled = this.at >= last;
    $("#step-play").disabled = last < 1;
    const { kind, run } = this;
    const told = run ? kind.tell(run, this.at) : { text: this.message, facts: [] };
    $("#step-text").textContent = told.text;
    put(
      $("#step-facts"),
      ...told.facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]),
    );
    $("#step-bars-card").hidden = Boolean(run) && !kind.bars;
    $("#step-bars-title").textContent = kind.barsTitle ?? "Variables";
    const single = Boolean(run) && !kind.second?.(run, this.at);
    $("#step-second-box").hidden = single;
    $("#step-pictures").classList.toggle("single", single);
    $("#step-main").setAttribute(
      "aria-label",
      `${kind.title}, step ${this.at} of ${last}: ${told.text}`,
    );
    for (const figure of [this.main, this.second, this.curve, this.bars]) figure.redraw();
  }

  #draw(which, context, width, height, colours) {
    context.fillStyle = colours.paper;
    context.fillRect(0, 0, width, height);
    if (!this.run) {
      if (which === "main")
        note(context, width, height, colours, this.message.length < 60 ? this.message : "");
      return;
    }
    const draw =
      which === "main" ? this.kind.main(this.run, this.at) : this.kind.second?.(this.run, this.at);
    draw?.(context, width, height, colours);
  }

  #chart(name, draw, context, width, height, colours) {
    const options = this.run && this.kind[name]?.(this.run, this.at, colours);
    if (options) draw(context, width, height, colours, { room: { left: 40 }, ...options });
  }
}
