"""A short film of the laboratory for the site: docs/_static/laboratory.gif.

Needs what `make test-browser` installs, and Pillow, which matplotlib brings.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browsing import found_browser, moons, packed, pixel, plane, served

OUT = Path(__file__).parents[1] / "docs/_static/laboratory.gif"
SIZE = (1280, 800)  # of the page
SHOWN = (640, 400)  # of the film
COLOURS = 26  # of the film, besides those that few pixels have:
RARE = "0072b2 d55e00 009e73 cc79a7 e69f00 56b4e9 882255 332288 00704f 161b22 ffffff"
QUICK, HELD = 90, 1300  # ms of a frame that moves, and of one to look at


class Film:
    """Frames of a page with how long each is shown."""

    def __init__(self, page: Page):
        self.page = page
        self.frames: list[Image.Image] = []
        self.times: list[int] = []

    def take(self, milliseconds: int = QUICK) -> None:
        shot = Image.open(io.BytesIO(self.page.screenshot()))
        self.frames.append(shot.convert("RGB").resize(SHOWN, Image.Resampling.LANCZOS))
        self.times.append(milliseconds)

    def save(self, path: Path) -> None:
        # One palette for all, so that what stands still is stored once.
        few = self.frames[:: max(1, len(self.frames) // 8)]
        strip = Image.new("RGB", (SHOWN[0], SHOWN[1] * len(few)))
        for i, one in enumerate(few):
            strip.paste(one, (0, SHOWN[1] * i))
        found = strip.quantize(COLOURS, method=Image.Quantize.MEDIANCUT)
        palette = Image.new("P", (1, 1))
        rare = bytes.fromhex(RARE.replace(" ", ""))
        palette.putpalette([*(found.getpalette() or [])[: 3 * COLOURS], *rare])
        plain = Image.Dither.NONE
        frames = [one.quantize(palette=palette, dither=plain) for one in self.frames]
        frames[0].save(
            path,
            save_all=True,
            append_images=frames[1:],
            duration=self.times,
            loop=0,
            optimize=True,
        )


def ready(page: Page) -> None:
    page.wait_for_timeout(150)
    page.wait_for_load_state("networkidle")


def drag_points(film: Film, state: dict) -> None:
    page, here = film.page, state["points"][3][:2]
    start = np.array(pixel(page, *here, state))
    end = np.array(pixel(page, 0.3, -1.3, state))
    page.mouse.move(*start)
    page.mouse.down()
    for share in np.linspace(0, 1, 12):
        page.mouse.move(*(start + share * (end - start)))
        page.wait_for_timeout(180)
        film.take()
    page.mouse.up()
    ready(page)
    film.take(700)


def slide(film: Film, name: str, steps: int, key: str) -> None:
    page = film.page
    page.get_by_role("slider", name=name).focus()
    for _ in range(steps):
        for _ in range(10):
            page.keyboard.press(key)
        page.wait_for_timeout(250)
        film.take()
    ready(page)
    film.take(900)


def show_duality(film: Film) -> None:
    page = film.page
    page.click("#tab-duality")
    expect(page.locator("#card-path .card-note")).to_contain_text("C =")
    ready(page)
    film.take(HELD)
    page.focus("#card-features canvas")
    page.locator("#card-features").scroll_into_view_if_needed()
    for _ in range(8):
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(60)
        film.take()


def step_smo(film: Film) -> None:
    page = film.page
    page.click("#tab-step")
    expect(page.locator("#step-count")).to_contain_text("1 /")
    ready(page)
    film.take(900)
    for _ in range(8):
        page.click("#step-forward")
        page.wait_for_timeout(80)
        film.take(350)


def show_structures(film: Film) -> None:
    page = film.page
    page.click("#tab-structures")
    ready(page)
    film.take(HELD)
    page.click("#structures-main .part >> nth=0")
    page.wait_for_timeout(100)
    film.take(HELD)


def show_course(film: Film) -> None:
    page = film.page
    page.click("#course-toggle")
    for name in ("E16", "E9"):
        page.click(f"[data-example={name}]")
        expect(page.locator("#figure-facts")).not_to_be_empty()
        ready(page)
        page.mouse.move(700, 500)
        page.wait_for_timeout(200)
        film.take(HELD)


def main() -> None:
    state = plane(moons(60), kernel="RBF(1)")
    state["view"] = {"x": [-1.8, 2.6], "y": [-1.6, 1.8]}
    state["machine"]["params"] = {"C": 5}
    with served() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found_browser())
        width, height = SIZE
        page = browser.new_page(viewport={"width": width, "height": height})
        page.goto(f"{address}&state={packed(state)}")
        expect(page.locator("#score")).not_to_have_text("–", timeout=30_000)
        ready(page)
        film = Film(page)
        film.take(HELD)
        drag_points(film, state)
        slide(film, "RBF γ", 6, "ArrowRight")
        show_duality(film)
        step_smo(film)
        show_structures(film)
        show_course(film)
        browser.close()
    film.save(OUT)
    seconds = sum(film.times) / 1000
    print(f"{OUT.name}: {len(film.frames)} frames, {seconds:.0f} s, ", end="")
    print(f"{OUT.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
