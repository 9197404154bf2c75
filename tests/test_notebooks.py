"""What notebooks show: formulas, drawings and tables, well formed and escaped."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import catalog
import numpy as np
from looped import looped

from mercer import (
    RBF,
    SVC,
    Bilinear,
    Constant,
    Exp,
    Graph,
    Intersection,
    Linear,
    Normalized,
    On,
    Polynomial,
    PolynomialOf,
    Pullback,
    Spectrum,
    Tree,
    bounds,
    check,
    repair,
)
from mercer.kernels.latex import roman

SVG = "{http://www.w3.org/2000/svg}"
UNSAFE = ["<b>", 'a"b', "x & y", "\x00\ud800", "]]>", "long " * 100]


def formula(kernel):
    text = kernel._repr_latex_()
    start = r"$\displaystyle k(x, y) = "
    assert text.startswith(start) and text.endswith("$")
    return text[len(start) : -1]


@looped(
    "kernel, expected",
    [
        (Linear() + 1, r"\langle x, y\rangle + 1"),
        (2 * Linear(), r"2 \cdot \langle x, y\rangle"),
        (2 * (Linear() + 1), r"2 \cdot \left(\langle x, y\rangle + 1\right)"),
        (Linear() ** 3, r"\langle x, y\rangle^{3}"),
        ((2 * Linear()) ** 3, r"\left(2 \cdot \langle x, y\rangle\right)^{3}"),
        (RBF(0.5), r"\exp\left(-0.5\,\lVert x - y\rVert^2\right)"),
        (RBF(), r"\exp\left(-\gamma\,\lVert x - y\rVert^2\right)"),
        (RBF(1e-5), r"\exp\left(-10^{-5}\,\lVert x - y\rVert^2\right)"),
        (Exp(Linear()), r"\exp\left(\langle x, y\rangle\right)"),
        (Polynomial(2), r"\left(\langle x, y\rangle + 1\right)^{2}"),
        (Bilinear(np.eye(2)) ** 2, r"\left(x^\top A\, y\right)^{2}"),
        (Intersection() + 1, r"\left(\sum_i \min(x_i, y_i)\right) + 1"),
        (PolynomialOf(Linear(), [1, 0, 2]), r"1 + 2\,\langle x, y\rangle^{2}"),
        (Constant(0), "0"),
        (Spectrum(3), r"\mathrm{Spectrum}_{\mathrm{k}=\mathrm{3}}(x, y)"),
        (
            Normalized(Linear()),
            r"\frac{\langle x, y\rangle}"
            r"{\sqrt{\langle x, x\rangle \cdot \langle y, y\rangle}}",
        ),
        (On(2, Linear()), r"\langle x[\mathrm{2}], y[\mathrm{2}]\rangle"),
        (
            On("a_b", Linear()) * On(slice(1, None), Linear()),
            r"\langle x[\mathrm{a\_b}], y[\mathrm{a\_b}]\rangle \cdot "
            r"\langle x[\mathrm{1:}], y[\mathrm{1:}]\rangle",
        ),
        (Pullback(Linear(), lambda X: X), r"\langle \phi(x), \phi(y)\rangle"),
        (Pullback(Linear(), np.abs), r"\langle \mathrm{absolute}(x), "
         r"\mathrm{absolute}(y)\rangle"),
    ],
)  # fmt: skip
def test_kernel_is_shown_as_its_formula(kernel, expected):
    assert formula(kernel) == expected


@looped("kernel, points", catalog.all_kernels)
def test_every_kernel_has_a_balanced_formula(kernel, points):
    text = formula(kernel)
    bare = re.sub(r"\\[{}$]", "", text)
    assert bare.count("{") == bare.count("}")
    assert text.count(r"\left") == text.count(r"\right")
    assert not set("$<>\n") & set(bare)


def test_formula_of_a_large_kernel_is_short():
    total, nested = Linear(), RBF(1.0)
    for _ in range(500):
        total = total + Linear()
    for _ in range(50):
        nested = Normalized(nested)
    assert "1,001" in formula(total)
    assert len(formula(nested)) < 3000


def test_text_in_formulas_is_escaped():
    assert roman("a_$<b>{") == r"\mathrm{a\_\$\lt b\gt \{}"
    assert len(roman("a" * 1000)) < 100


def words(svg):
    return [
        "".join(node.itertext())
        for node in ElementTree.fromstring(svg).iter(f"{SVG}text")
    ]


def test_tree_is_drawn_with_all_its_labels_and_branches():
    svg = ElementTree.fromstring(Tree("(NP (D the) (N apple))")._repr_html_())
    shown = [node.find(f"{SVG}title").tail for node in svg.iter(f"{SVG}text")]
    assert shown == ["NP", "D", "the", "N", "apple"]
    assert len(list(svg.iter(f"{SVG}line"))) == 4


def test_labels_of_a_drawn_tree_do_not_overlap():
    tree = Tree("(A (LONGLABEL a) (LONGLABEL b) c (D (E (LONGLABEL f) g)))")
    svg = ElementTree.fromstring(tree._repr_html_())
    rows = {}
    for node in svg.iter(f"{SVG}text"):
        half = 4 * len(node.find(f"{SVG}title").text)
        x = float(node.get("x"))
        assert half <= x <= float(svg.get("width")) - half
        rows.setdefault(node.get("y"), []).append((x - half, x + half))
    for spans in rows.values():
        spans.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_large_tree_and_graph_are_not_drawn():
    deep = Tree(f"{'(A ' * 5000}x{')' * 5000}")
    assert deep._repr_html_() == "<code>Tree of 5,001 nodes, 5,001 deep</code>"
    assert Graph([(i, i + 1) for i in range(300)])._repr_svg_() is None
    full = [(i, j) for i in range(60) for j in range(i)]
    assert Graph(full)._repr_svg_() is None


def test_graph_is_drawn_with_its_nodes_edges_and_labels():
    graph = Graph([(0, 1), (0, 2), (2, 2)], "OHH", edge_labels=["s", "s", "loop"])
    svg = ElementTree.fromstring(graph._repr_svg_())
    shown = [node.find(f"{SVG}title").tail for node in svg.iter(f"{SVG}text")]
    assert sorted(shown) == ["H", "H", "O", "loop", "s", "s"]
    assert len(list(svg.iter(f"{SVG}line"))) == 2
    assert len(list(svg.iter(f"{SVG}circle"))) == 3 + 1
    ElementTree.fromstring(Graph([])._repr_svg_())


@looped("label", UNSAFE)
def test_labels_are_escaped(label):
    tree = Tree((label, "leaf"))._repr_html_()
    graph = Graph([(label, 1)], edge_labels=[label])._repr_svg_()
    for text in (tree, graph):
        root = ElementTree.fromstring(text)
        tags = {node.tag.removeprefix(SVG) for node in root.iter()}
        assert tags <= {"svg", "line", "circle", "text", "title"}
    if label == "<b>":
        assert words(tree)[0] == "<b><b>"  # the title and the label


def cells(html):
    root = ElementTree.fromstring(html)
    return {
        row.find("th").text: [cell.text for cell in row.findall("td")]
        for row in root.iter("tr")
    }


def test_check_and_repair_are_shown_as_tables():
    K = [[1.0, 2.0], [2.0, 1.0]]
    assert cells(check(K)._repr_html_())["smallest eigenvalue"] == ["-1"]
    assert cells(check(K)._repr_html_())["positive semidefinite"] == ["no"]
    assert cells(repair(K)._repr_html_())["repaired"] == ["by clip"]
    assert cells(repair(np.eye(2))._repr_html_())["repaired"] == ["nothing to repair"]


def test_name_of_a_kernel_in_a_table_is_escaped():
    verdict = check(On("<b>", Linear()), [{"<b>": 1.0}, {"<b>": 2.0}])
    text = verdict._repr_html_()
    assert "<b>" not in text and "&lt;b&gt;" in text
    ElementTree.fromstring(text)


def test_bounds_and_certificates_are_shown_as_tables():
    X, y = [[-2.0], [-1.0], [1.0], [2.0]], [-1, -1, 1, 1]
    machine = SVC(kernel=Linear()).fit(X, y)
    found = bounds(machine, X, y)
    shown = cells(found._repr_html_())
    assert list(shown) == [row.name for row in found]
    assert shown["training error"][0] == "0.0000"
    assert "pass refit=True" in found._repr_html_()
    certificate = cells(machine.certificate_._repr_html_())
    assert certificate["support vectors"] == ["2 free, 0 at bound"]
