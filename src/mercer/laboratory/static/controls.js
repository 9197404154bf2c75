// The controls: task, data set, machine with its sliders, the kernel's formula with its own.

import { Channel, Superseded, get } from "./api.js";
import { $, later, make, put, toast } from "./dom.js";
import { say } from "./axes.js";
import { parameterControl } from "./slider.js";

export class Controls {
  constructor(store, catalog) {
    this.store = store;
    this.catalog = catalog;
    this.kernels = new Channel("/api/kernel", { frames: false });
    this.answer = null;
    this.machineShown = "";
    this.kernelShown = "";
    this.dragFrom = null;
    this.refuted = () => {}; // told the refutation of the kernel, or null
    this.#menus();
    this.#formula();
  }

  get structured() {
    return this.store.state.tab === "structures";
  }

  /** The part of the state the controls are about: the plane, or the structures. */
  get about() {
    const { state } = this.store;
    return this.structured ? { machine: { name: "SVC", params: {} }, ...state.structures } : state;
  }

  change(patch, done = true) {
    const { store } = this;
    const whole = this.structured ? { structures: { ...store.state.structures, ...patch } } : patch;
    this.dragFrom ??= store.state;
    if (done) {
      store.commit(whole, this.dragFrom);
      this.dragFrom = null;
    } else store.patch(whole, "slide");
  }

  #menus() {
    const { catalog, store } = this;
    put($("#task"), ...catalog.tasks.map((t) => make("option", { value: t.name }, t.title)));
    $("#task").addEventListener("change", () => {
      const task = catalog.tasks.find((t) => t.name === $("#task").value);
      const given = task.default ?? {};
      store.commit({
        ...given,
        task: task.name,
        machine: given.machine ?? { name: task.machines[0], params: {} },
        kernel: given.kernel ?? store.state.kernel,
        set: {},
        points: given.points ?? store.state.points,
        view: given.view ?? (given.points ? null : store.state.view),
        example: null,
      });
    });
    $("#dataset").addEventListener("change", async () => {
      const name = $("#dataset").value;
      $("#dataset").value = "";
      if (!name) return;
      try {
        const state = await get(`/api/datasets/${encodeURIComponent(name)}`);
        store.commit({ set: {}, view: null, ...state, example: null });
      } catch (error) {
        toast(error.message, "bad");
      }
    });
    $("#machine").addEventListener("change", () => {
      const name = $("#machine").value;
      const formula = this.structured ? null : catalog.machines[name].formula;
      this.change({
        machine: { name, params: {} },
        ...(formula ? { kernel: formula, set: {} } : {}),
      });
    });
    put($("#kernel-piece"));
    for (const [id, join] of [
      ["piece-set", ""],
      ["piece-add", " + "],
      ["piece-times", " * "],
    ]) {
      $(`#${id}`).addEventListener("click", () => this.#build(join));
    }
  }

  #build(join) {
    const piece = $("#kernel-piece").value;
    if (!piece) return;
    const old = this.answer?.kernel ?? this.about.kernel;
    const factor = (text) => (/[+]/.test(text) ? `(${text})` : text);
    const text =
      join === " * " ? `${factor(old)} * ${factor(piece)}` : join ? `${old}${join}${piece}` : piece;
    this.change({ kernel: text, set: {} });
  }

  #formula() {
    const box = $("#kernel");
    const use = () => {
      const text = box.value.replaceAll("\n", " ").trim();
      if (text && text !== this.answer?.kernel) this.change({ kernel: text, set: {} });
    };
    const soon = later(use, 350);
    box.addEventListener("input", () => {
      this.typing = true;
      soon();
    });
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      use();
    });
    box.addEventListener("blur", () => {
      this.typing = false;
      this.#showFormula();
    });
  }

  #showFormula() {
    const text = this.failed ? this.about.kernel : (this.answer?.kernel ?? this.about.kernel);
    if (!this.typing && $("#kernel").value !== text) $("#kernel").value = text;
  }

  /** Brings menus and sliders to the state. */
  show() {
    const { catalog, about, structured } = this;
    const subject = structured ? about.kind : "plane";
    if (this.subject !== subject) this.#turnTo(subject);
    const machine = catalog.machines[about.machine?.name];
    if (!structured) {
      $("#task").value = about.task;
      this.#options(
        $("#dataset"),
        catalog.datasets,
        `data ${about.task}`,
        [make("option", { value: "" }, "Load a classic …")],
        (d) => [d.name, d.title],
      );
    }
    const names = structured
      ? this.#structuredMachines()
      : catalog.tasks.find((t) => t.name === about.task).machines;
    this.#options($("#machine"), names, `machines ${names}`, [], (name) => [
      name,
      catalog.machines[name]?.title ?? name,
    ]);
    $("#machine").value = about.machine?.name ?? names[0];
    $("#machine-about").textContent = machine?.about ?? "";
    $("#group-kernel").hidden = machine?.kernel === false;
    this.#machineSliders(machine, about.machine?.params ?? {});
    const pieces = structured
      ? catalog.structures[about.kind].kernels
      : catalog.kernels.filter((k) => k.data === "vectors");
    this.#options($("#kernel-piece"), pieces, `pieces ${structured ? about.kind : ""}`, [], (k) => [
      k.formula,
      k.title,
    ]);
    if (!this.answer || this.kernelShown !== this.#kernelKey()) this.#showFormula();
  }

  /** Another kind of data: what was known of the last kernel is of no use. */
  #turnTo(subject) {
    this.subject = subject;
    this.answer = null;
    this.failed = false;
    this.sliderKey = null;
    this.typing = false;
    put($("#kernel-sliders"));
    put($("#proof"));
    $("#proof-verdict").textContent = "Proof";
    $("#proof-verdict").className = "";
    this.#message("", false);
  }

  #structuredMachines() {
    const wanted = this.catalog.structures[this.about.kind].machines ?? ["SVC"];
    return wanted.filter((name) => name in this.catalog.machines);
  }

  #options(select, list, key, first, name) {
    if (select.dataset.key === key) return;
    select.dataset.key = key;
    put(
      select,
      ...first,
      ...list.map((entry) => make("option", { value: name(entry)[0] }, name(entry)[1])),
    );
  }

  #machineSliders(machine, params) {
    const key = `${this.structured} ${this.about.machine?.name}`;
    const parameters = machine?.parameters ?? [];
    if (this.machineShown !== key) {
      this.machineShown = key;
      this.machineControls = parameters.map((p) => {
        const wide = { ...p, label: p.title ?? p.name };
        const control = parameterControl(wide, params[p.name] ?? p.default, (value, done) => {
          const now = this.about.machine;
          this.change(
            { machine: { name: now.name, params: { ...now.params, [p.name]: value } } },
            done,
          );
        });
        return { ...control, name: p.name, start: p.default };
      });
      put($("#machine-sliders"), ...this.machineControls.map((c) => c.element));
    }
    for (const control of this.machineControls) control.show(params[control.name] ?? control.start);
  }

  #kernelKey() {
    const { kernel, set, points, kind } = this.about;
    return JSON.stringify([kernel, set ?? {}, kind ?? points?.length]);
  }

  /** Asks what is known of the kernel, and shows it. */
  async ask() {
    const { about, structured } = this;
    const key = this.#kernelKey();
    const body = { kernel: about.kernel, kind: structured ? about.kind : "vectors" };
    if (about.set && Object.keys(about.set).length) body.set = about.set;
    if (!structured && about.points.length) body.points = about.points;
    try {
      this.answer = await this.kernels.ask(body);
      this.failed = false;
      this.kernelShown = key;
      this.#showAnswer();
    } catch (error) {
      if (error instanceof Superseded) return;
      this.failed = true;
      this.#message(error.message, true);
    }
  }

  #message(text, bad) {
    $("#kernel").setAttribute("aria-invalid", String(bad));
    $("#kernel-message").textContent = text;
    $("#kernel-message").className = bad ? "message bad" : "message";
  }

  #showAnswer() {
    const { answer } = this;
    this.#message("", false);
    this.#showFormula();
    const key = `${this.structured} ${answer.parameters.map((p) => [p.name, p.kind, p.low, p.high].join()).join(";")}`;
    if (this.sliderKey !== key) {
      this.sliderKey = key;
      this.kernelControls = answer.parameters.map((p) => {
        const control = parameterControl(p, p.value ?? p.resolved, (value, done) => {
          this.change({ set: { ...this.about.set, [p.name]: value } }, done);
        });
        return { ...control, name: p.name };
      });
      put($("#kernel-sliders"), ...this.kernelControls.map((c) => c.element));
    }
    answer.parameters.forEach((p, i) => this.kernelControls[i].show(p.value ?? p.resolved));
    this.#showProof();
  }

  #showProof() {
    const { proof, psd, refutation } = this.answer;
    this.refuted(this.structured ? null : refutation);
    const [text, kind] =
      psd === true
        ? ["✓ A kernel: see the proof", "good"]
        : psd === false || refutation
          ? ["✗ Not a kernel: see what refutes it", "bad"]
          : ["? Nothing is known of it", ""];
    $("#proof-verdict").textContent = text;
    $("#proof-verdict").className = kind;
    const tree = proof ? make("ul", {}, proofNode(proof)) : null;
    put($("#proof"), refutation ? refutationBox(refutation) : null, tree);
    if (refutation) $("#proof-box").open = true;
  }
}

function proofNode(node) {
  const formula = make("code", {}, node.formula);
  const rule = make("span", { class: "rule" }, node.rule);
  const kind = node.psd === false ? "no" : "";
  if (!node.children?.length) return make("li", { class: kind }, formula, rule);
  const inner = make("ul", {}, ...node.children.map(proofNode));
  return make(
    "li",
    { class: kind },
    make("details", { open: true, class: kind }, make("summary", {}, formula, rule), inner),
  );
}

function refutationBox({ points, vector, value, message }) {
  const rows = points.map((point, i) => {
    const place = Array.isArray(point) ? `(${point.map((v) => say(v)).join(", ")})` : String(point);
    return make("tr", {}, make("td", {}, place), make("td", {}, say(vector[i])));
  });
  const head = make(
    "tr",
    {},
    make("th", { scope: "col" }, "point x"),
    make("th", { scope: "col" }, "weight v"),
  );
  return make(
    "div",
    { class: "refutation" },
    message ?? "",
    make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)),
    make("div", {}, `vᵀK v = ${say(value, 4)} < 0`),
  );
}
