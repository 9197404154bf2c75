"""Tree: its text, its nested tuples, its tag."""

import copy
import pickle

import naive_trees as naive
import numpy as np
import pytest
from hypothesis import given, settings
from looped import looped
from strategies import nested_trees

from mercer.data.trees import Tree, tag, tag_tokens

few = settings(max_examples=25, deadline=None)
N = 30_000
APPLE = "(NP (D the) (N apple))"


def test_a_tree_is_read_from_text_and_from_tuples_alike():
    nested = ("NP", ("D", "the"), ("N", "apple"))
    trees = [Tree(APPLE), Tree(nested), Tree(["NP", ["D", "the"], ("N", ("apple",))])]
    assert len(set(trees)) == 1
    assert trees[0].labels == ("NP", "D", "the", "N", "apple")
    assert trees[0].arity == (2, 1, 0, 1, 0)


def test_a_tree_can_be_taken_apart():
    tree = Tree(APPLE)
    assert (tree.label, tree.size, tree.depth) == ("NP", 5, 3)
    assert tree.leaves == ("the", "apple")
    assert tree.children == (Tree("(D the)"), Tree("(N apple)"))
    assert tree.children[0].children[0].children == ()
    assert Tree(("NP", *tree.children)) == tree


def test_spaces_mean_nothing_and_lines_may_break():
    assert Tree("  (NP(D the)\n\t(N\r\n apple ) ) ") == Tree(APPLE)


def test_a_word_alone_is_a_tree_of_one_node():
    assert Tree("apple") == Tree("(apple)") == Tree(("apple",))
    assert str(Tree("apple")) == "(apple)"


def test_a_bracket_without_label_has_the_empty_label():
    assert Tree("( (S (A b)))").labels == ("", "S", "A", "b")
    assert Tree("(A ())").labels == ("A", "")
    assert str(Tree(("A", "", ("", "b")))) == "(A () ( (b)))"
    assert Tree(str(Tree(("A", "", ("", "b"))))) == Tree(("A", "", ("", "b")))


@looped("word", ["(", ")", "a b", "\\", "\\/", "a\\(", "\n", "𝒳🌲", ""])
def test_any_word_survives_writing_and_reading(word):
    for tree in (Tree((word,)), Tree(("S", word, (word, word)))):
        assert Tree(str(tree)) == tree
        assert eval(repr(tree)) == tree


def test_labels_may_be_any_hashable_objects():
    tree = Tree((1, (2.5, None), frozenset({3})))
    assert tree.labels == (1, 2.5, None, frozenset({3}))
    assert eval(repr(tree)) == tree
    assert repr(Tree((7,))) == "Tree((7,))"


def test_a_tree_of_another_library_is_read():
    class Foreign(list):
        def __init__(self, name, children):
            super().__init__(children)
            self.name = name

        def label(self):
            return self.name

    foreign = Foreign("NP", [Foreign("D", ["the"]), Foreign("N", ["apple"])])
    assert Tree(foreign) == Tree(APPLE)


@given(nested_trees("ABC", 8))
@few
def test_text_and_repr_are_read_back(nested):
    tree = Tree(nested)
    assert Tree(str(tree)) == tree
    assert eval(repr(tree)) == tree
    assert naive.plain(str(tree)) == naive.plain(nested)


def test_trees_are_values():
    tree = Tree(APPLE)
    for same in (Tree(tree), copy.deepcopy(tree), pickle.loads(pickle.dumps(tree))):
        assert same == tree and hash(same) == hash(tree)
    assert tree != Tree("(NP (D the) (N pear))")
    assert Tree("(A (B C))") != Tree("(A B C)") and tree != APPLE
    with pytest.raises(AttributeError, match="does not change"):
        tree.labels = ()
    with pytest.raises(AttributeError, match="does not change"):
        del tree.labels


def test_an_array_of_trees_has_one_dimension():
    assert np.array([Tree(APPLE), Tree("(A b)")], dtype=object).shape == (2,)


@looped(
    "text, place, words",
    [
        ("(A (B c)", 0, "never closed"),
        ("(A (B (c", 6, "never closed"),
        ("(A))", 3, "not opened"),
        (") A", 0, "not opened"),
        ("(A) B", 4, "ended before"),
        ("(A b)(C d)", 5, "ended before"),
        ("one two", 4, "ended before"),
    ],
)
def test_a_mistake_in_the_text_is_shown_where_it_is(text, place, words):
    with pytest.raises(ValueError, match=rf"{words}.* at position {place} ") as caught:
        Tree(text)
    shown, caret = str(caught.value).splitlines()[-2:]
    assert shown[caret.index("^")] == text[place]


def test_a_mistake_far_into_the_text_is_shown_with_what_is_around_it():
    with pytest.raises(ValueError, match="position 60003") as caught:
        Tree("(A" + " word" * 12_000 + "))")
    shown, caret = str(caught.value).splitlines()[-2:]
    assert len(shown) < 90 and shown[caret.index("^")] == ")"


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_text_is_no_tree(text):
    with pytest.raises(ValueError, match=r"empty; write \(A\)"):
        Tree(text)


@looped("thing", [1.5, None, {"A": 1}, b"(A b)"])
def test_other_things_are_no_trees(thing):
    with pytest.raises(TypeError, match="bracket text, nested tuples"):
        Tree(thing)


def test_empty_tuples_and_labels_without_hash_are_refused():
    with pytest.raises(ValueError, match="begins with the label"):
        Tree(("A", ()))
    with pytest.raises(TypeError, match=r"node 1 .* a dict"):
        Tree(("A", {"b": 1}))


# The tag


def test_the_tag_puts_every_node_in_brackets():
    assert tag("(A (B C D) E)") == "(A (B (C) (D)) (E))"
    assert tag("A") == "(A)"
    tokens = tag_tokens(Tree("(A (B C D) E)"))
    assert "".join(tokens) == tag("(A (B C D) E)").replace(" ", "")
    assert tag_tokens(Tree((1, ")"))) == (("(", 1), "()", ")", ")")


@given(nested_trees("ABC", 8))
@few
def test_the_tag_is_the_tree_written_out(nested):
    assert tag(nested) == naive.written(naive.plain(nested))
    assert Tree(tag(nested)) == Tree(nested)


@given(nested_trees("ABC", 8))
@few
def test_the_sorted_tag_is_that_of_the_sorted_tree(nested):
    assert tag(nested, sort=True) == naive.written(
        naive.sorted_tree(naive.plain(nested))
    )


def test_the_sorted_tag_forgets_the_order_of_children():
    one, other = "(A (B (C x y) C) E (B D))", "(A E (B D) (B C (C y x)))"
    assert tag(one) != tag(other)
    assert tag(one, sort=True) == tag(other, sort=True)
    assert tag((1, 2, "x", 10, None), sort=True) == tag(
        (1, None, 10, 2, "x"), sort=True
    )
    assert tag((0, 1, 2.0), sort=True) == tag((0, 2.0, 1), sort=True)


@pytest.mark.slow
def test_trees_may_be_as_deep_or_wide_as_they_like():
    deep = Tree("(A " * N + "B" + ")" * N)
    wide = Tree(("A", *(f"b{i % 7}" for i in range(N))))
    assert deep.depth == wide.size == N + 1
    for tree in (deep, wide):
        assert Tree(str(tree)) == tree
        assert Tree(tag(tree, sort=True)).size == N + 1
        assert len(tag_tokens(tree)) == 2 * (N + 1)
        assert len(repr(tree)) > N and hash(tree) == hash(Tree(tree))
        assert pickle.loads(pickle.dumps(tree)) == tree
    assert deep.children[0].depth == N
    nested = "B"
    for _ in range(N):
        nested = ("A", nested)
    assert Tree(nested) == deep
    while isinstance(nested, tuple):  # freed from outside in: no recursion there either
        nested = nested[1]
