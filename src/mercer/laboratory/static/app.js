// The page: one state, the views of it, and the road to the server.

import { get, recallKey, setKey, post } from "./api.js";
import { forgetPalette } from "./colours.js";
import { Controls } from "./controls.js";
import { Course } from "./course.js";
import { $, $$, announce, later, toast } from "./dom.js";
import { DualityView } from "./duality.js";
import { download, pngBlob, svgText } from "./export.js";
import { redrawAll } from "./figure.js";
import { FigureView, isOfPoints } from "./figure_view.js";
import { Fitter, requestOf } from "./fit.js";
import { viewOf } from "./plane.js";
import { PlaneView } from "./plane_view.js";
import { StepView } from "./step.js";
import { Store, pack, unpack } from "./store.js";
import { StructuresView } from "./structures.js";

const TABS = ["plane", "duality", "step", "structures", "figure"]; // the last one of the course
const OF_THE_FIT = ["task", "points", "machine", "kernel", "set"];
const FIRST = "moons"; // what the page opens with

const changed = (names, state, before) => names.some((name) => state[name] !== before[name]);

/** The key and the state that an address holds. */
function readFragment() {
  const given = new URLSearchParams(location.hash.slice(1));
  return { key: given.get("token"), state: given.get("state") };
}

async function start() {
  const { key, state } = readFragment();
  if (key) {
    setKey(key);
    history.replaceState(null, "", state ? `#state=${state}` : location.pathname);
  }
  document.addEventListener("locked", () => ($("#gate").hidden = false));
  $("#theme").addEventListener("click", changeTheme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themeChanged);
  // The address with the key, opened in a tab that shows the gate, changes the fragment alone.
  addEventListener("hashchange", () => {
    if (!$("#gate").hidden && readFragment().key) location.reload();
  });
  if (!recallKey()) {
    $("#gate").hidden = false;
    return;
  }
  // A tab that is chosen before the server is ready is opened when it is.
  let chosen = null;
  for (const name of TABS) $(`#tab-${name}`).addEventListener("click", () => (chosen = name));
  try {
    const catalog = await get("/api/catalog");
    const opening = (state && (await linked(state))) || (await classic(catalog));
    new Page(catalog, chosen ? { ...opening, tab: chosen } : opening);
  } catch (error) {
    toast(error.message, "bad");
  }
}

async function linked(text) {
  try {
    return await unpack(text);
  } catch {
    toast("This link holds no state that can be read.");
    return null;
  }
}

async function classic(catalog) {
  const name = catalog.datasets.some((d) => d.name === FIRST) ? FIRST : catalog.datasets[0].name;
  return get(`/api/datasets/${name}`);
}

function changeTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("mercer-theme", root.dataset.theme);
  } catch {
    // Kept for this page only.
  }
  themeChanged();
  announce(`${root.dataset.theme} theme`);
}

function themeChanged() {
  forgetPalette();
  redrawAll();
}

class Page {
  constructor(catalog, opening) {
    this.catalog = catalog;
    const task = catalog.tasks.find((t) => t.name === opening.task) ?? catalog.tasks[0];
    const structures = catalog.structures?.strings?.examples?.[0]?.state ?? null;
    this.store = new Store({
      tab: "plane",
      set: {},
      view: null,
      slack: false,
      step: { algorithm: "smo" },
      structures,
      figure: null,
      example: null,
      task: task.name,
      points: [],
      ...task.default,
      ...opening,
    });
    const { store } = this;
    this.controls = new Controls(store, catalog);
    this.planeView = new PlaneView(store, (options) => this.refit(options));
    this.controls.refuted = (refutation) => this.planeView.refute(refutation);
    this.duality = new DualityView(store, catalog);
    this.step = new StepView(store, catalog);
    this.structures = new StructuresView(store, catalog);
    this.figure = new FigureView(store);
    this.course = new Course(store, (example) => this.openExample(example));
    const { plane } = this.planeView;
    this.duality.boundary.resized = later(() => this.refit({}), 60);
    this.fitter = new Fitter({
      view: () =>
        (store.state.tab === "duality"
          ? this.duality.shown
          : plane.figure.width
            ? plane.shown
            : null) ??
        store.state.view ??
        viewOf(store.state.points),
      size: () => {
        const { width, height } =
          store.state.tab === "duality" ? this.duality.boundary : plane.figure;
        return [width || 640, height || 560];
      },
      fitted: (fit, how) => this.#fitted(fit, how),
      failed: (error) => this.#failed(error),
      busy: (head) => this.planeView.busy(head),
    });
    this.remember = later(() => this.#writeFragment(), 500);
    store.subscribe((state, before, kind) => this.#changed(state, before, kind));
    this.#tabs();
    this.#tools();
    this.#show();
    this.#figureChanged();
    this.#enterTab();
    if (store.state.example) this.course.toggle(true);
    addEventListener("hashchange", () => this.#followLink());
  }

  get state() {
    return this.store.state;
  }

  /** A fit for the picture on screen; entering a tab asks for one of its shape. */
  refit(options) {
    if (["plane", "duality"].includes(this.state.tab)) this.fitter.ask(this.state, options);
  }

  #fitted(fit, how) {
    this.planeView.fitted(fit, how);
    this.duality.fitted(fit);
    if (!how.dragging) this.afterFit?.();
    if (!how.dragging) this.afterFit = null;
  }

  #failed(error) {
    this.planeView.failed(error);
    this.duality.failed(error);
    this.afterFit?.();
    this.afterFit = null;
  }

  #changed(state, before, kind) {
    if (kind !== "drag" && kind !== "view") this.controls.show();
    this.planeView.show(state);
    $("#undo").disabled = !this.store.past.length;
    $("#redo").disabled = !this.store.future.length;
    if (kind !== "drag" && kind !== "slide") this.remember();
    if (state.tab !== before.tab) this.#enterTab();
    if (state.example !== before.example) this.course.mark(state.example);
    if (state.structures !== before.structures) this.#structuresChanged(kind);
    if (state.figure !== before.figure) this.#figureChanged();
    if (changed(["step"], state, before)) this.step.rest();
    // Undo brings back the view too, and with it the grid.
    const seen = kind === "undo" && state.view !== before.view;
    // A point that was let go is where its drag left it: the last fit was a coarse one.
    if (kind === "drag" || !(changed(OF_THE_FIT, state, before) || seen || kind === "commit"))
      return;
    this.#fitChanged(state, before, kind);
  }

  #fitChanged(state, before, kind) {
    const sliding = kind === "slide";
    const since = this.planeView.since ?? performance.now();
    // What else is wanted waits for the picture.
    this.afterFit = () => {
      if (changed(["kernel", "set", "points"], state, before) || kind !== "slide")
        this.controls.ask();
      if (!sliding) this.#rest();
    };
    if (state.view === null && before.view !== null) this.planeView.show(state);
    this.refit({ dragging: sliding, since });
    if (sliding && changed(["set", "kernel"], state, before)) this.controls.ask();
    if (!["plane", "duality"].includes(state.tab)) {
      this.afterFit();
      this.afterFit = null;
    }
  }

  #rest() {
    this.duality.rest();
    this.step.rest();
    this.figure.rest();
  }

  #figureChanged() {
    const { tab, figure } = this.state;
    $("#tab-figure").hidden = !figure;
    // Undo keeps the tab; that of a figure goes with it, after this change is all told.
    if (tab === "figure" && !figure)
      setTimeout(() => this.store.patch({ tab: "plane" }, "tab"), 0);
    this.#showControls();
    this.figure.rest();
  }

  /** Figures that are not about the points have nothing to be set. */
  #showControls() {
    const { tab, figure } = this.state;
    $("#controls").hidden = tab === "figure" && !isOfPoints(figure);
  }

  #structuresChanged(kind) {
    this.structures.changed(kind);
    if (this.state.tab === "structures") this.controls.ask();
  }

  #show() {
    this.controls.show();
    this.planeView.show(this.state);
  }

  #enterTab() {
    const { tab } = this.state;
    document.body.dataset.tab = tab;
    for (const name of TABS) {
      const on = name === tab;
      $(`#tab-${name}`).setAttribute("aria-selected", String(on));
      $(`#tab-${name}`).tabIndex = on ? 0 : -1;
      $(`#panel-${name}`).hidden = !on;
    }
    this.#showControls();
    $("#main").scrollTop = 0;
    scrollTo(0, 0);
    this.controls.show();
    this.controls.ask();
    if (tab === "duality") this.duality.refresh();
    if (tab === "step") requestAnimationFrame(() => this.step.refresh());
    if (tab === "structures") this.structures.refresh();
    if (tab === "figure") this.figure.refresh();
  }

  #tabs() {
    const tabs = TABS.map((name) => $(`#tab-${name}`));
    tabs.forEach((tab, i) => {
      tab.addEventListener("click", () => this.store.patch({ tab: TABS[i] }, "tab"));
      tab.addEventListener("keydown", (event) => {
        const count = this.state.figure ? TABS.length : TABS.length - 1;
        const step = { ArrowRight: 1, ArrowLeft: -1, Home: -i, End: count - 1 - i }[event.key];
        if (step === undefined) return;
        event.preventDefault();
        const next = (i + step + count) % count;
        this.store.patch({ tab: TABS[next] }, "tab");
        tabs[next].focus();
      });
    });
  }

  #tools() {
    $("#undo").addEventListener("click", () => this.store.undo() && announce("undone"));
    $("#redo").addEventListener("click", () => this.store.redo() && announce("done again"));
    addEventListener("keydown", (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.target.matches("input[type=text], textarea"))
        return;
      const key = event.key.toLowerCase();
      if (key !== "z" && key !== "y") return;
      event.preventDefault();
      if (key === "y" || event.shiftKey) this.store.redo();
      else this.store.undo();
    });
    $("#link").addEventListener("click", () => this.#copyLink());
    $("#python").addEventListener("click", () => this.#showCode());
    $("#code-close").addEventListener("click", () => $("#code-dialog").close());
    $("#code-copy").addEventListener("click", () =>
      copy($("#code-text").textContent, "Python copied."),
    );
    this.#exportMenu();
  }

  #exportMenu() {
    const [button, menu] = [$("#export"), $("#export-menu")];
    const items = $$("[role=menuitem]", menu);
    const show = (on) => {
      menu.hidden = !on;
      button.setAttribute("aria-expanded", String(on));
      if (on) items[0].focus();
    };
    button.addEventListener("click", () => show(menu.hidden));
    menu.addEventListener("keydown", (event) => {
      const at = items.indexOf(document.activeElement);
      if (event.key === "Escape") {
        show(false);
        button.focus();
      } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        items[(at + (event.key === "ArrowDown" ? 1 : items.length - 1)) % items.length].focus();
      } else return;
      event.preventDefault();
    });
    document.addEventListener("pointerdown", (event) => {
      if (!event.target.closest(".menu")) show(false);
    });
    const name = (ending) => `mercer-${this.state.tab}.${ending}`;
    $("#export-png").addEventListener("click", async () => {
      show(false);
      const blob = await pngBlob();
      if (blob) download(blob, name("png"));
    });
    $("#export-svg").addEventListener("click", () => {
      show(false);
      const text = svgText();
      if (text) download(new Blob([text], { type: "image/svg+xml" }), name("svg"));
    });
  }

  async #writeFragment() {
    const packed = `#state=${await pack(this.state)}`;
    this.written = packed;
    history.replaceState(null, "", packed);
  }

  async #followLink() {
    const { state } = readFragment();
    if (!state || location.hash === this.written) return;
    const given = await linked(state);
    if (given) this.store.commit({ set: {}, view: null, example: null, ...given });
  }

  async #copyLink() {
    const address = `${location.origin}/#state=${await pack(this.state)}`;
    await copy(address, "Link copied. It holds the whole state, not the key.");
  }

  async #showCode() {
    const { tab, structures } = this.state;
    const state = () => requestOf(this.state, this.fitter.hooks.view());
    const bodies = {
      plane: () => ({ state: state() }),
      duality: () => ({ duality: state() }),
      structures: () => ({ structures }),
      figure: () => ({ figure: this.figure.wanted }),
      step: () => ({ steps: this.step.wanted }),
    };
    try {
      const { code, numbers } = await post("/api/code", bodies[tab]());
      $("#code-text").textContent = code;
      $("#code-numbers").textContent =
        `It runs, and gives the ${Object.keys(numbers ?? {}).length} numbers on this page.`;
      $("#code-dialog").showModal();
    } catch (error) {
      toast(error.message, "bad");
    }
  }

  /** Sets up the page for an example of the course. */
  openExample(example) {
    const { tab, panel, state } = example;
    const slack = panel === "slack";
    const patch = { example: example.id, set: {}, view: null, slack, figure: null };
    if (tab === "figure")
      Object.assign(patch, state.state, { tab: "figure", figure: { name: state.name } });
    else if (tab === "structures") Object.assign(patch, { tab: "structures", structures: state });
    else {
      const { algorithm, most, seed, quadratic, grid, ...plane } = state;
      Object.assign(patch, plane, { tab: tab === "step" ? "step" : panel && !slack ? "duality" : "plane" });
      if (tab === "step")
        patch.step = Object.fromEntries(
          Object.entries({ algorithm, most, seed, quadratic }).filter(([, v]) => v !== undefined),
        );
    }
    this.store.commit(patch);
    if (patch.tab === "duality") setTimeout(() => this.duality.open(panel), 200);
  }
}

async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
    toast(said);
  } catch {
    const box = document.createElement("textarea");
    box.value = text;
    ($("dialog[open]") ?? document.body).append(box);
    box.select();
    const done = document.execCommand("copy");
    box.remove();
    toast(done ? said : "The browser did not let the page copy.");
  }
}

start();
