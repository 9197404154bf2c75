"""parse: text to kernel and back, and what it refuses, with the place."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped

from mercer.kernels.algebra import Centered, Exp, Normalized, On, PolynomialOf
from mercer.kernels.base import Kernel
from mercer.kernels.coordinate import Anova
from mercer.kernels.operators import Constant, Power, Product, Scaled, Sum
from mercer.kernels.parse import known_kernels, parse
from mercer.kernels.radial import RBF, Laplacian, Matern
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import PairKernel, Precomputed


@looped(
    "text, kernel",
    [
        ("Linear()", Linear()),
        ("RBF()", RBF()),
        ("RBF(0.5)", RBF(0.5)),
        ("RBF(gamma=5e-1)", RBF(0.5)),
        ("RBF(gamma=None)", RBF(None)),
        ("RBF(+1)", RBF(1)),
        ("RBF.from_sigma(3)", RBF.from_sigma(3)),
        ("RBF.from_width(2.0)", RBF.from_width(2.0)),
        ("  RBF(1)\n", RBF(1)),
        ("(\n RBF(1)\r\n + Linear()\n)", RBF(1) + Linear()),
        ("2*RBF(0.5) + Linear()**2", 2 * RBF(0.5) + Linear() ** 2),
        ("RBF(1) * 2", Scaled(2, RBF(1))),
        ("RBF(1) + 2", Sum(RBF(1), Constant(2))),
        ("2 + RBF(1)", Sum(Constant(2), RBF(1))),
        ("Sum(left=RBF(1), right=Linear())", Sum(RBF(1), Linear())),
        ("2 * (3 * Linear())", Scaled(2, Scaled(3, Linear()))),
        ("2 * Linear() * RBF(1)", Product(Scaled(2, Linear()), RBF(1))),
        ("Linear() + (Linear() + RBF(1))", Sum(Linear(), Sum(Linear(), RBF(1)))),
        ("(Linear() ** 2) ** 3", Power(Power(Linear(), 2), 3)),
        ("On('a  b', RBF(1))", On("a  b", RBF(1))),
        ("On(-1, RBF(1))", On(-1, RBF(1))),
        ('On(["a", "b"], RBF(1))', On(["a", "b"], RBF(1))),
        ("On(slice(0, 2), RBF(1))", On(slice(0, 2), RBF(1))),
        ("On(slice(None, None, -1), RBF(1))", On(slice(None, None, -1), RBF(1))),
        ("Exp(Normalized(Linear()))", Exp(Normalized(Linear()))),
        ("PolynomialOf(Linear(), (1, 0.5))", PolynomialOf(Linear(), (1, 0.5))),
        ("Anova(2, [Linear(), RBF(1)])", Anova(2, [Linear(), RBF(1)])),
        ("Matern(nu=inf, length=1.0)", Matern(math.inf, 1.0)),
        (
            "Precomputed([[2, 1], [1, 2]], psd=True)",
            Precomputed([[2, 1], [1, 2]], True),
        ),
        (
            "Centered(Linear(), reference=[[1.0], [2.0]])",
            Centered(Linear(), [[1.0], [2.0]]),
        ),
    ],
)
def test_text_is_read_as_python_would(text, kernel):
    assert parse(text) == kernel
    assert type(parse(text)) is type(kernel)


def test_whole_numbers_stay_whole():
    assert repr(parse("2 * RBF(1)")) == "2 * RBF(gamma=1)"
    assert repr(parse("2.0 * RBF(1.0)")) == "2.0 * RBF(gamma=1.0)"


LEAVES = st.one_of(
    st.builds(RBF, st.floats(1e-300, 1e300) | st.integers(1, 10**20) | st.none()),
    st.builds(Laplacian, st.floats(0.1, 2)),
    st.just(Linear()),
    st.builds(Polynomial, st.integers(1, 5), offset=st.floats(0, 3)),
    st.builds(Constant, st.integers(0, 3) | st.floats(0, 3)),
)
WORDS = st.text(max_size=8)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Sum, inner, inner),
        st.builds(Product, inner, inner),
        st.builds(Scaled, st.floats(0.01, 9) | st.integers(1, 9), inner),
        st.builds(Power, inner, st.integers(1, 4)),
        st.builds(Exp, inner),
        st.builds(Normalized, inner),
        st.builds(On, WORDS | st.integers(-3, 3) | st.lists(WORDS, min_size=1), inner),
        st.builds(On, st.slices(4), inner),
    ),
    max_leaves=6,
)


@given(TREES)
@settings(max_examples=25, deadline=None)
def test_parse_is_the_inverse_of_repr(kernel):
    assert parse(repr(kernel)) == kernel
    assert repr(parse(repr(kernel))) == repr(kernel)


def test_known_kernels_are_the_final_public_ones():
    known = known_kernels()
    assert {"RBF", "Linear", "Sum", "On", "Precomputed", "Anova"} <= known.keys()
    assert not {"Kernel", "PairKernel", "FeatureKernel", "VectorKernel"} & known.keys()
    assert all(issubclass(kind, Kernel) for kind in known.values())
    assert list(known) == sorted(known)
    assert PairKernel not in known.values()


REFUSED = [
    # text, position, message
    ("2 * Foo(1)", 4, "Unknown kernel 'Foo' at position 4; the kernels are Anova, "),
    ("2 * rbf(1)", 4, "Unknown kernel 'rbf' at position 4; did you mean 'RBF'? The k"),
    ("Lineer()", 0, "did you mean 'Linear'?"),
    ("On('ä', Foo())", 8, "Unknown kernel 'Foo'"),
    ("  Foo()", 2, "Unknown kernel 'Foo'"),
    ("(RBF()\r\n + Foo())", 11, "Unknown kernel 'Foo'"),
    ("On('\u2028', Foo())", 8, "Unknown kernel 'Foo'"),
    ("RBF", 0, "write RBF()"),
    ("Exp(RBF)", 4, "write RBF()"),
    ("RBF(sigma=1)", 4, "did you mean 'gamma'? RBF has gamma."),
    ("RBF(1, 2)", 0, "Cannot make RBF at position 0: RBF takes from 1 to 2"),
    ("RBF(1, gamma=2)", 0, "multiple values for argument 'gamma'"),
    ("RBF(gamma=1, gamma=2)", 13, "A second value of 'gamma'"),
    ("1 + Scaled(2)", 4, "missing 1 required positional argument: 'kernel'"),
    ("Linear() + RBF(-1)", 11, "RBF needs gamma > 0; got gamma=-1."),
    ("RBF(True)", 0, "got gamma=True"),
    ("RBF('1')", 0, "got gamma='1'"),
    ("RBF(inf)", 0, "got gamma=inf"),
    ("RBF(nan)", 0, "got gamma=nan"),
    ("RBF(1e999)", 0, "got gamma=inf"),
    ("RBF(1" + "0" * 400 + ")", 4, "Too large a number"),
    ("RBF.from_sigm(1)", 0, "did you mean 'from_sigma'? RBF has from_sigma,"),
    ("RBF.from_sigma(-1)", 0, "Cannot make RBF.from_sigma at position 0: "),
    ("RBF.resolve(1)", 0, "Unknown constructor RBF.resolve"),
    ("RBF.__subclasses__()", 0, "Unknown constructor RBF.__subclasses__"),
    ("Linear.from_sigma(1)", 0, "Linear has none"),
    ("Power(Linear(), 1.5)", 0, "whole number exponent ≥ 1; got exponent=1.5"),
    ("Linear() ** 0", 0, "whole number exponent ≥ 1; got exponent=0"),
    ("Linear() ** -1", 0, "got exponent=-1"),
    ("Linear() ** True", 12, "a bool (True) at position 12; an operator joins"),
    ("2 ** Linear()", 5, "an exponent is a whole number"),
    ("Linear() ** Linear()", 12, "an exponent is a whole number"),
    ("Linear() ** 2 ** 3", 12, "Arithmetic"),
    ("-2 * Linear()", 0, "positive number only; got factor=-2"),
    ("0 * Linear()", 0, "positive number only; got factor=0"),
    ("inf * Linear()", 0, "got factor=inf"),
    ("True * Linear()", 0, "Found a bool (True)"),
    ("'2' * Linear()", 0, "Found a str ('2')"),
    ("Linear() + [Linear()]", 11, "Found a list"),
    ("Linear() - Linear()", 0, "need not be a kernel"),
    ("-Linear()", 0, "-k is not a kernel"),
    ("+Linear()", 0, "A sign"),
    ("-'a'", 0, "A sign"),
    ("2 * 3 * Linear()", 0, "Arithmetic at position 0 is not done here"),
    ("Linear() / 2", 0, "Unknown operator"),
    ("Linear() @ Linear()", 0, "Unknown operator"),
    ("not Linear()", 0, "Not part of the notation"),
    ("Linear() and Linear()", 0, "Not part of the notation"),
    ("Linear() < Linear()", 0, "Not part of the notation"),
    ("Linear().value", 0, "Not part of the notation"),
    ("Linear()(1)", 0, "Not part of the notation"),
    ("[Linear()][0]", 0, "Not part of the notation"),
    ("[Linear() for i in x]", 0, "Not part of the notation"),
    ("(lambda: Linear())()", 1, "Not part of the notation"),
    ("Linear() if True else RBF()", 0, "Not part of the notation"),
    ("f'{1}'", 0, "Not part of the notation"),
    ("{}", 0, "Not part of the notation"),
    ("RBF(*[1])", 4, "Not part of the notation"),
    ("RBF(**{})", 4, "Not part of the notation"),
    ("RBF(1j)", 4, "Not part of the notation"),
    ("RBF(b'1')", 4, "Not part of the notation"),
    ("RBF(...)", 4, "Not part of the notation"),
    ("RBF(x := 1)", 4, "Not part of the notation"),
    ("__import__('os').system('true')", 0, "Not part of the notation"),
    ("__import__('os')", 0, "Unknown kernel '__import__'"),
    ("On(slice('a'), RBF())", 3, "slice takes whole numbers and None"),
    ("On(slice(), RBF())", 3, "Cannot make slice"),
    ("Precomputed(array([[1.0]]))", 12, "An array at position 12 cannot be written"),
    ("2", 0, "Found an int (2) at position 0; a kernel is needed"),
    ("[Linear()]", 0, "Found a list"),
    ("inf", 0, "Found a float (inf)"),
    ("RBF(", 3, "'(' was never closed"),
    ("RBF() RBF()", 6, "Cannot read the text"),
    ("RBF(1)) + (RBF(1)", 6, "unmatched ')'"),
    ("RBF()\n+ Linear()", 6, "Cannot read the text"),
    ("RBF(); RBF()", 5, "Cannot read the text"),
    ("x = RBF()", 2, "Cannot read the text"),
    ("Centered(Linear(), <3 × 2 float64>)", 22, "<...> stands for data too long"),
    ("RBF('\ud800')", 5, "surrogates not allowed"),
]  # fmt: skip


@looped("text, position, message", REFUSED, ids=lambda v: str(v)[:30])
def test_anything_else_is_refused_with_its_place(text, position, message):
    with pytest.raises(ValueError) as refusal:
        parse(text)
    told, shown, caret = str(refusal.value).split("\n")
    assert message in told
    assert f"at position {position}" in told
    assert told.endswith(".")
    pointed, meant = shown[caret.index("^") :][:1], text[position : position + 1]
    assert pointed == (meant if meant.isprintable() else " ")
    assert set(caret) <= {" ", "^"}


@looped(
    "name",
    ["BlockFunction", "PairFunction", "FeatureFunction", "RankOne", "Conformal",
     "Pullback", "Radial", "DotProduct"],
)  # fmt: skip
@looped("arguments", ["", "f", "Linear(), f"])
def test_kernels_of_a_function_are_refused_with_the_reason(name, arguments):
    with pytest.raises(
        ValueError, match=f"^{name} at position 4 needs a Python function"
    ):
        parse(f"2 * {name}({arguments})")


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_text_is_refused(text):
    with pytest.raises(ValueError, match="empty"):
        parse(text)


@looped("thing", [None, 3, b"Linear()", Linear(), ["Linear()"]])
def test_only_text_is_read(thing):
    with pytest.raises(TypeError, match="parse reads a text"):
        parse(thing)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000,
        "(" * 10_000 + "Linear()" + ")" * 10_000,
        "[" * 50_000,
        "Exp(" * 5_000 + "Linear()" + ")" * 5_000,
        "Exp(" * 150 + "Linear()" + ")" * 150,
        "-" * 90_000 + "1",
        "not " * 20_000 + "1",
        "lambda: " * 10_000 + "1",
        "1 if 1 else " * 8_000 + "1",
        "Linear()" + " + Linear()" * 9_000,
        "Linear()" + " + Linear()" * 101,
        "Linear()" + " ** 2" * 10_000,
        "Linear()" + ".a" * 40_000,
        "Linear()" + "()" * 40_000,
        "Linear()" + "[0]" * 30_000,
        "RBF(" + "1" * 90_000 + ")",
        "a" * 1_000_000,
        "Linear() + " * 100_000,
        "\n" * 90_000 + "Foo()",
        "RBF()\x00",
    ],
    ids=lambda text: f"{text[:12]!r} × {len(text)}",
)
def test_huge_and_deep_texts_are_refused_cleanly(text):
    with pytest.raises(ValueError) as refusal:
        parse(text)
    assert len(str(refusal.value)) < 2_000


def test_a_long_sum_within_the_limit_is_read():
    text = " + ".join(["Linear()"] * 100)
    assert repr(parse(text)) == text


def test_long_lists_are_read():
    coefficients = [0.1 * n for n in range(3000)]
    kernel = PolynomialOf(Linear(), coefficients)
    assert parse(repr(kernel)) == kernel


@given(st.text(max_size=30) | st.text("RBF()+*-., 12=[]'\n", max_size=30))
@settings(max_examples=25, deadline=None)
@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
def test_any_text_is_a_kernel_or_a_value_error(text):
    try:
        assert isinstance(parse(text), Kernel)
    except ValueError:
        pass
