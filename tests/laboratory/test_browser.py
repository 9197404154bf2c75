"""The page of the laboratory, used as its users use it: in Chromium.

A few run with every test where Playwright and a Chromium are installed; all of them
only by `make test-browser`, which insists on both and sets MERCER_BROWSER.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from browsing import WAIT, found_browser, moons, packed, pixel, plane, served, unpacked

INSISTED = bool(os.environ.get("MERCER_BROWSER"))
try:
    from playwright.sync_api import expect, sync_playwright
except ImportError:
    if INSISTED:
        raise
    pytest.skip("Playwright is not installed", allow_module_level=True)
if found_browser() is None and not INSISTED:
    pytest.skip("no Chromium is installed", allow_module_level=True)

TABS = ("plane", "duality", "step", "structures")
ALGORITHMS = ("smo", "coordinate", "perceptron", "sgd", "kmeans", "pca")
SIZES = {"desktop": (1440, 900), "tablet": (820, 1180), "phone": (390, 844)}
OUT = Path("build/laboratory")
SQUARE = [[-1.0, -1.0, 0], [1.0, 1.0, 0], [-1.0, 1.0, 1], [1.0, -1.0, 1]]
slow = pytest.mark.skipif(not INSISTED, reason="takes long; make test-browser runs it")
pytestmark = pytest.mark.xdist_group("browser")  # one browser at a time


@pytest.fixture(scope="module")
def address():
    with served() as found:
        yield found


@pytest.fixture(scope="module")
def chromium():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found_browser())
        yield browser
        browser.close()


@pytest.fixture
def lab(chromium, address):
    """lab(state) opens the page; at the end it must have reported no error.

    `lab.refusals` are what the server refused; a test that provokes some clears it.
    """
    contexts, errors = [], []

    def noted(said):
        if said.type == "error" and "Failed to load resource" not in said.text:
            errors.append(said.text)

    def refused(response):
        if response.status >= 400 and response.status != 409:
            opened.refusals.append(
                (response.status, response.url, response.request.post_data)
            )

    def opened(state=None, size="desktop", theme="light", **options):
        width, height = SIZES[size]
        viewport = {"width": width, "height": height}
        context = chromium.new_context(viewport=viewport, color_scheme=theme, **options)
        contexts.append(context)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.set_default_timeout(WAIT)
        expect.set_options(timeout=WAIT)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", noted)
        page.on("response", refused)
        page.goto(address if state is None else f"{address}&state={packed(state)}")
        return page

    opened.refusals = []
    yield opened
    for context in contexts:
        context.close()
    assert errors == []
    assert opened.refusals == []


def fitted(page):
    """Waits until a fit is on screen."""
    expect(page.locator("#score")).not_to_have_text("–")
    expect(page.locator("#plane-busy")).to_be_hidden()


def fact(page, name):
    """A line of the result."""
    return page.locator(f"#result-facts dt:text-is('{name}') + dd").inner_text()


def copied(page, button):
    """What a button puts into the clipboard."""
    page.evaluate("navigator.clipboard.writeText('')")
    page.click(button)
    for _ in range(WAIT // 20):
        found = page.evaluate("navigator.clipboard.readText()")
        if found:
            return found
        page.wait_for_timeout(20)
    raise AssertionError(f"{button} copied nothing")


def state_of(page):
    """What the link of the page holds."""
    link = copied(page, "#link")
    assert "token" not in link
    return unpacked(link.split("#state=")[1])


def drag(page, state, start, end):
    page.mouse.move(*pixel(page, *start, state))
    page.mouse.down()
    page.mouse.move(*pixel(page, *end, state), steps=5)
    page.mouse.up()


def test_the_page_opens_with_a_fit_and_keeps_its_key_out_of_the_address(lab):
    page = lab()
    fitted(page)
    assert "token" not in page.url
    assert page.locator("#score").inner_text().endswith("%")
    assert fact(page, "Status") == "optimal"


def test_without_a_key_the_page_says_how_to_get_one(chromium, address):
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(address.split("#")[0])
        expect(page.locator("#gate")).to_be_visible()
        expect(page.locator("#gate")).to_contain_text("mercer lab")


@slow
def test_nothing_comes_from_another_origin(lab, address):
    page = lab()
    seen = []
    page.on("request", lambda request: seen.append(request.url))
    page.reload()
    fitted(page)
    for tab in TABS:
        page.click(f"#tab-{tab}")
    origin = address.split("#")[0]
    assert seen and all(url.startswith((origin, "data:", "blob:")) for url in seen)


@slow
def test_every_tab_shows_what_the_server_computed(lab):
    page = lab(plane(moons(20)))
    fitted(page)
    page.click("#tab-duality")
    expect(page.locator("#card-dual .card-note")).to_contain_text("at zero")
    expect(page.locator("#card-gap .card-note")).to_contain_text("gap")
    expect(page.locator("#card-gram .card-note")).to_contain_text("From")
    expect(page.locator("#card-spectrum .card-note")).to_contain_text("95 %")
    expect(page.locator("#card-features .card-note")).to_contain_text("plane")
    expect(page.locator("#card-bounds td").first).to_be_visible()
    expect(page.locator("#card-path .card-note")).to_contain_text("C =")
    page.click("#tab-step")
    expect(page.locator("#step-count")).to_contain_text("1 /")
    page.click("#tab-structures")
    expect(page.locator("#structures-gram")).to_contain_text("k(")


def test_a_point_is_placed_dragged_relabelled_erased_and_brought_back(lab):
    state = plane(SQUARE)
    page = lab(state)
    fitted(page)
    before = fact(page, "Margin")
    drag(page, state, (1, 1), (0.2, 0.2))
    expect(page.locator("#result-facts")).not_to_contain_text(before)
    moved = state_of(page)["points"]
    assert np.allclose(moved[1], [0.2, 0.2, 0], atol=0.02)
    assert [*moved[:1], *moved[2:]] == [SQUARE[0], *SQUARE[2:]]
    page.mouse.click(*pixel(page, 0, -2, state))
    page.keyboard.press("3")
    expect(page.locator("#points-count")).to_have_text("5 points")
    assert np.allclose(state_of(page)["points"][4], [0, -2, 2], atol=0.02)
    page.click("#class-chips [data-value='1']")
    page.click("#plane-tools [data-value=label]")
    page.mouse.click(*pixel(page, 0, -2, state))
    page.wait_for_timeout(50)
    assert state_of(page)["points"][4][2] == 1
    page.click("#undo")
    page.click("#plane-tools [data-value=erase]")
    page.mouse.click(*pixel(page, 0, -2, state))
    expect(page.locator("#points-count")).to_have_text("4 points")
    for _ in range(4):  # the erased point, its label, the point, the drag
        page.click("#undo")
    assert state_of(page)["points"] == SQUARE
    page.click("#redo")
    assert state_of(page)["points"] == moved


def test_the_plane_is_worked_by_keys_alone(lab):
    page = lab(plane(SQUARE))
    fitted(page)
    page.focus("#plane-canvas")
    for key in ("n", "n", "ArrowRight", "2", "n", "Delete", "Escape", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#points-count")).to_have_text("4 points")
    points = state_of(page)["points"]
    assert points[1][0] > 1 and points[1][1:] == [1.0, 1]  # moved, relabelled
    assert points[2] == SQUARE[3]  # the third is gone
    assert page.locator("#announcer").inner_text().strip() != ""


def test_a_typed_kernel_has_sliders_and_a_proof(lab):
    page = lab(plane(moons(40)))
    fitted(page)
    page.fill("#kernel", "2*RBF(0.5) + Linear()**2")
    expect(page.locator("#kernel-sliders .slider")).to_have_count(3)
    page.click("#proof-box > summary")
    assert page.locator("#proof li").count() >= 4
    expect(page.locator("#proof-verdict")).to_contain_text("A kernel")
    before = page.locator("#kernel").input_value()
    slider = page.get_by_role("slider", name="RBF γ")
    slider.focus()
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#kernel")).not_to_have_value(before)
    assert state_of(page)["set"]


@slow
def test_an_invalid_kernel_shows_what_refutes_it(lab):
    page = lab(plane(moons(40)))
    fitted(page)
    page.fill("#kernel", "Sigmoid(1, -1)")
    expect(page.locator("#proof-verdict")).to_contain_text("Not a kernel")
    rows = page.locator(".refutation tbody tr")
    expect(rows.first).to_be_visible()
    assert rows.count() >= 2
    expect(page.locator(".refutation")).to_contain_text("< 0")


@slow
def test_a_misspelt_kernel_is_refused_in_words_and_the_picture_stays(lab):
    page = lab(plane(moons(40)))
    fitted(page)
    page.fill("#kernel", "RBG(1)")
    expect(page.locator("#kernel-message")).to_contain_text("RBG")
    expect(page.locator("#kernel")).to_have_attribute("aria-invalid", "true")
    assert {status for status, *_ in lab.refusals} == {400}
    lab.refusals.clear()
    page.fill("#kernel", "RBF(3)")
    expect(page.locator("#kernel")).to_have_attribute("aria-invalid", "false")
    fitted(page)


@slow
def test_smo_is_stepped_back_and_forth(lab):
    page = lab(plane(moons(30), tab="step", step={"algorithm": "smo"}))
    count, text = page.locator("#step-count"), page.locator("#step-text")
    expect(count).to_contain_text("1 /")
    first = text.inner_text()
    page.click("#step-forward")
    expect(count).to_contain_text("2 /")
    expect(text).not_to_have_text(first)
    expect(page.locator("#step-facts")).to_contain_text("[L, H]")
    page.click("#step-back")
    expect(text).to_have_text(first)
    page.select_option("#step-speed", "15")
    page.click("#step-play")
    expect(page.locator("#step-forward")).to_be_disabled()
    last = int(count.inner_text().split("/")[1])
    assert int(count.inner_text().split("/")[0]) == last > 2


@slow
def test_an_example_of_the_course_sets_up_the_page(lab):
    page = lab()
    fitted(page)
    page.click("#course-toggle")
    page.click("[data-example=E12]")
    expect(page.locator("#panel-structures")).to_be_visible()
    expect(page.locator("#course-example li")).to_have_count(3)
    expect(page.locator(".item input").first).to_have_value("fast food")


@slow
def test_a_figure_of_the_course_follows_the_kernel_and_leaves_with_it(lab):
    page = lab()
    fitted(page)
    page.click("#course-toggle")
    page.click("[data-example=E18]")
    value = page.locator("#figure-facts dt:text-is('eigenvalue of Kernel PCA') + dd")
    expect(value).not_to_be_empty()
    before = value.inner_text()
    page.fill("#kernel", "RBF(3)")
    expect(value).not_to_have_text(before)
    page.click("#python")
    expect(page.locator("#code-text")).to_contain_text("KernelPCA(1, kernel=one)")
    page.click("#code-close")
    page.click("[data-example=E10]")
    expect(page.locator("#figure-facts")).to_contain_text("misread, Gaussian")
    expect(page.locator("#controls")).to_be_hidden()
    page.click("#undo")
    page.click("#undo")
    page.click("#undo")  # the kernel and both examples
    expect(page.locator("#panel-plane")).to_be_visible()
    page.click("[data-example=E17]")
    expect(page.locator("#tab-figure")).to_be_hidden()
    expect(page.locator("#plane-slack")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#result-facts")).to_contain_text("Slack")
    assert state_of(page)["slack"]


@slow
def test_copied_code_gives_the_numbers_on_screen(lab):
    page = lab(plane(moons(40), machine="SVC"))
    fitted(page)
    page.click("#python")
    expect(page.locator("#code-dialog")).to_be_visible()
    code = copied(page, "#code-copy")
    asked = code + "\nimport json\nprint(json.dumps(numbers))\n"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    numbers = json.loads(done.stdout.splitlines()[-1])
    page.click("#code-close")
    assert numbers["support vectors"] == int(fact(page, "Support vectors").split()[0])
    shown = float(page.locator("#score").inner_text().rstrip(" %"))
    assert shown == pytest.approx(100 * numbers["accuracy"], rel=2e-3)
    assert fact(page, "Dual") == f"{numbers['dual']:.5g}"


@slow
def test_a_link_holds_the_whole_state(lab):
    state = plane(
        moons(30), kernel="Laplacian(0.7)", tab="step", step={"algorithm": "smo"}
    )
    page = lab(state)
    expect(page.locator("#step-count")).to_contain_text("1 /")
    held = state_of(page)
    assert {name: held[name] for name in state} == state
    again = lab(held)
    expect(again.locator("#tab-step")).to_have_attribute("aria-selected", "true")
    expect(again.locator("#step-count")).to_contain_text("1 /")


def test_pictures_are_exported(lab, tmp_path):
    page = lab(plane(moons(30)))
    fitted(page)
    for ending in ("png", "svg"):
        page.click("#export")
        with page.expect_download() as download:
            page.click(f"#export-{ending}")
        download.value.save_as(tmp_path / f"picture.{ending}")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    svg = ElementTree.parse(tmp_path / "picture.svg").getroot()
    assert len(svg.findall(".//{*}path")) > 30  # at least the points
    assert svg.findall(".//{*}image")


def test_a_finger_places_a_point_and_nothing_runs_off_a_phone(lab):
    state = plane(SQUARE)
    page = lab(state, size="phone", has_touch=True)
    fitted(page)
    page.touchscreen.tap(*pixel(page, 0, -2, state))
    expect(page.locator("#points-count")).to_have_text("5 points")
    for tab in TABS:
        page.click(f"#tab-{tab}")
        width = "document.documentElement.scrollWidth - innerWidth"
        assert page.evaluate(width) <= 0


@slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_steps(lab, algorithm):
    page = lab(plane(moons(40), tab="step"))
    expect(page.locator("#step-count")).to_contain_text("1 /")
    page.click(f"#algorithms [data-value={algorithm}]")
    expect(page.locator(f"#algorithms [data-value={algorithm}]")).to_have_attribute(
        "aria-checked", "true"
    )
    page.wait_for_load_state("networkidle")
    expect(page.locator("#step-count")).not_to_contain_text("/ 0")
    page.click("#step-last")
    expect(page.locator("#step-forward")).to_be_disabled()


@slow
def test_every_example_of_the_course_opens_without_an_error(lab):
    page = lab()
    fitted(page)
    page.click("#course-toggle")
    expect(page.locator(".example")).to_have_count(20)
    for number in range(1, 21):
        page.click(f"[data-example=E{number}]")
        expect(page.locator("#course-example")).to_contain_text(f"E{number}")
        page.wait_for_timeout(300)
        page.wait_for_load_state("networkidle")
        failed = page.locator("#result-warnings p, .error:visible").all_inner_texts()
        assert [text for text in failed if "warn" not in text.lower()] == [], number


@slow
def test_every_machine_fits_on_the_page(lab):
    page = lab(plane(moons(40)))
    fitted(page)
    for task in page.locator("#task option").evaluate_all("o => o.map(x => x.value)"):
        page.select_option("#task", task)
        page.wait_for_timeout(200)
        names = "o => o.map(x => x.value)"
        for machine in page.locator("#machine option").evaluate_all(names):
            page.select_option("#machine", machine)
            page.wait_for_timeout(200)
            page.wait_for_load_state("networkidle")
            expect(page.locator("#score-name"), machine).not_to_have_text("no fit")


@slow
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_screens_have_no_serious_finding_of_axe(lab, size, theme):
    """Looks for faults of accessibility, and keeps a picture of every screen."""
    axe = Path(os.environ["MERCER_AXE"]).read_text()
    page = lab(plane(moons(60), tab="plane"), size=size, theme=theme, bypass_csp=True)
    fitted(page)
    page.add_script_tag(content=axe)
    OUT.mkdir(parents=True, exist_ok=True)
    others = {"course": "#course-toggle", "figure": "[data-example=E16]"}
    for tab in (*TABS, *others):
        page.click(others.get(tab, f"#tab-{tab}"))
        page.wait_for_timeout(400)
        page.wait_for_load_state("networkidle")
        page.screenshot(path=OUT / f"{tab}-{size}-{theme}.png")
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        bad = [
            (one["id"], [node["html"] for node in one["nodes"]][:3])
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert bad == [], tab


@slow
def test_first_paint_after_the_start_of_the_command_is_printed(chromium):
    paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    begin = time.time()
    with served() as address, chromium.new_context() as context:
        listens = time.time() - begin
        page = context.new_page()
        page.goto(address, wait_until="commit")
        while (found := page.evaluate(paint)) is None:
            page.wait_for_timeout(5)
        painted = page.evaluate("performance.timeOrigin") / 1000 + found / 1000 - begin
        print(f"\nafter the command: listens {listens:.2f} s, paints {painted:.2f} s")
        assert listens < painted  # both clocks are that of this computer


@slow
def test_the_page_does_not_jump_while_it_loads(lab):
    page = lab()
    fitted(page)
    jumps = page.evaluate(
        """() => new Promise(done => {
          const sum = list =>
            list.getEntries().reduce((all, one) => all + one.value, 0);
          new PerformanceObserver(list => done(sum(list))).observe(
            {type: 'layout-shift', buffered: true});
          setTimeout(done, 500, 0);
        })"""
    )
    paint = page.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    )
    print(f"\nfirst contentful paint {paint:.0f} ms, layout shift {jumps:.4f}")
    assert jumps < 0.1  # what the web calls good


CASES = [
    ("SVC", "classify", "RBF(1)"),
    ("SVC", "classify", "2*RBF(0.5) + Linear()**2"),
    ("NuSVC", "classify", "RBF(1)"),
    ("OneClassSVM", "one-class", "RBF(1)"),
    ("SVR", "regress", "RBF(0.5)"),
    ("KernelRidge", "regress", "RBF(0.5)"),
]


@slow
@pytest.mark.parametrize("machine, task, kernel", CASES)
def test_latency_is_printed(lab, machine, task, kernel):
    """Pointer release to painted frame, 500 points; frames while dragging 200."""
    rested = "performance.getEntriesByName('mercer:rest').length"
    for n, drags in ((500, 25), (200, 10)):
        state = plane(moons(n), kernel, machine, task)
        page = lab(state)
        fitted(page)
        page.wait_for_load_state("networkidle")
        page.evaluate("performance.clearMeasures()")
        seconds = 0.0
        for turned, (x, y, _) in enumerate(state["points"][:drags]):
            at = pixel(page, x, y, state)
            page.mouse.move(*at)
            page.mouse.down()
            start = page.evaluate("performance.now()")
            for turn in range(40):
                angle = turn / 4
                page.mouse.move(at[0] + 30 * np.sin(angle), at[1] + 30 * np.cos(angle))
            seconds += (page.evaluate("performance.now()") - start) / 1000
            page.mouse.up()
            for _ in range(WAIT // 10):
                if page.evaluate(rested) > turned:
                    break
                page.wait_for_timeout(10)
            page.wait_for_timeout(100)
        took = page.evaluate(
            """["mercer:rest", "mercer:drag"].map(
            name => performance.getEntriesByName(name).map(entry => entry.duration))"""
        )
        assert len(took[0]) >= drags <= len(took[1])
        middle, high = np.percentile(took[0], [50, 95])
        print(
            f"\n{machine} {kernel}, {n} points: release to painted frame "
            f"median {middle:.0f} ms, p95 {high:.0f} ms ({len(took[0])} drags); "
            f"while dragging {len(took[1]) / seconds:.1f} frames a second"
        )
