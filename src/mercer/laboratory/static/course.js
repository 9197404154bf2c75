// The side bar of the course: chapters, examples of one click, three questions for each.

import { get } from "./api.js";
import { $, announce, make, put } from "./dom.js";

export class Course {
  /** `open(example)` sets up the page. */
  constructor(store, open) {
    this.store = store;
    this.open = open;
    this.course = null;
    $("#course-toggle").addEventListener("click", () => this.toggle($("#course").hidden));
    $("#course-close").addEventListener("click", () => {
      this.toggle(false);
      $("#course-toggle").focus();
    });
    $("#course").addEventListener("keydown", (event) => {
      if (event.key === "Escape") $("#course-close").click();
    });
  }

  async toggle(shown) {
    $("#course").hidden = !shown;
    document.body.dataset.course = shown ? "open" : "";
    $("#course-toggle").setAttribute("aria-expanded", String(shown));
    if (shown && !this.course) await this.load();
  }

  async load() {
    try {
      this.course = await get("/api/course");
    } catch (error) {
      put($("#course-list"), make("p", { class: "error" }, error.message));
      return;
    }
    const byId = new Map(this.course.examples.map((e) => [e.id, e]));
    put(
      $("#course-list"),
      ...this.course.chapters.map((chapter) =>
        make(
          "section",
          { class: "chapter" },
          make("h3", {}, `${chapter.number}. ${chapter.title}`),
          make("p", {}, chapter.about ?? ""),
          make(
            "ul",
            {},
            ...chapter.examples.map((id) => make("li", {}, this.#button(byId.get(id)))),
          ),
        ),
      ),
    );
    this.mark(this.store.state.example);
  }

  #button(example) {
    return make(
      "button",
      {
        type: "button",
        class: "example",
        "data-example": example.id,
        onclick: () => this.choose(example),
      },
      make("b", {}, example.id),
      make("span", {}, example.title),
    );
  }

  choose(example) {
    this.open(example);
    this.mark(example.id);
    announce(`${example.id}: ${example.title}`);
    $("#course").scrollTop = 0;
    // Where the side bar covers the picture, the picture is what was asked for.
    if (matchMedia("(max-width: 720px)").matches) this.toggle(false);
  }

  /** Shows which example is open, with its questions. */
  mark(id) {
    const example = this.course?.examples.find((e) => e.id === id);
    for (const button of document.querySelectorAll(".example")) {
      if (button.dataset.example === id) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
    const box = $("#course-example");
    box.hidden = !example;
    if (!example) return;
    put(
      box,
      make("h3", {}, `${example.id}  ${example.title}`),
      make("p", {}, example.about ?? ""),
      make("h4", {}, "Three questions to try"),
      make("ol", {}, ...example.questions.map((question) => make("li", {}, question))),
    );
  }
}
