"""How the site is built: `make docs`; `make docs-quick` does not run the gallery."""

import os
import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))

project = "mercer"
copyright = "the mercer developers"
author = "the mercer developers"
version = release = "0.1.0"

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "charts",
    "figures",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "README.md", "auto_examples/**/*.ipynb"]
root_doc = "index"
nitpicky = True
# Names of our own must be found; types in numpydoc's sections are words.
nitpick_ignore_regex = [("py:.*", r"(?!mercer\.).*")]
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "amsmath"]
myst_heading_anchors = 4
suppress_warnings = ["config.cache"]

numpydoc_show_class_members = False
numpydoc_xref_param_type = False
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"

# Examples with data of their own make some up, and say so, where there are none.
os.environ.setdefault("MERCER_DATA", str(HERE.parent.parent / "shared" / "data"))
RUNS = os.environ.get("MERCER_DOCS", "all") == "all"
sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_" if RUNS else r"^$",
    "ignore_pattern": r"demo\.py",
    "plot_gallery": "True" if RUNS else "False",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,  # its page loads scripts from elsewhere
    "within_subsection_order": "ExampleTitleSortKey",
    "doc_module": ("mercer",),
    "backreferences_dir": "gallery/backreferences",
    "abort_on_example_error": True,
    "capture_repr": (),  # what a cell prints, not what its last line is
    "matplotlib_animations": False,
    "image_scrapers": ("figures",),
    "reset_modules": ("matplotlib",),
}

html_theme = "pydata_sphinx_theme"
html_title = "mercer"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"index": [], "start": []}  # nothing is below them
html_search_scorer = str(HERE / "_static" / "scorer.js")
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "show_nav_level": 2,
    "navigation_depth": 3,
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "default",
    "pygments_dark_style": "github-dark",
    "search_bar_text": "Search the guide, the course, the reference",
}
html_context = {"default_mode": "auto"}

default_role = "literal"  # `name` in docstrings
highlight_language = "text"  # blocks that name no language are formulas


def plain(app, what, name, obj, options, lines):
    """Docstrings have formulas in plain text: no bar or star in them is markup."""
    if getattr(obj, "__module__", "").startswith("mercer"):
        lines[:] = described(lines)
    code = False
    for i, line in enumerate(lines):
        code = line.lstrip().startswith(">>>") or (code and line.strip() != "")
        if code or line.lstrip().startswith(".. "):
            continue
        line = REFERENCE.sub(r"\1", line).replace(" ... ", " … ")  # ends no sentence
        pieces = line.split("`")
        pieces[::2] = [MARKUP.sub(r"\\\1", piece) for piece in pieces[::2]]
        lines[i] = PLURAL.sub(r"\g<0>\\ ", "`".join(pieces))


def described(lines):
    """The lines with what stands behind "name : " under it: it is no type here."""
    found, section = [], ""
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if after and not after.strip("-"):
            section = line
        named = PARAMETER.match(line)
        if named and section in ("Parameters", "Attributes"):
            found += [named[1], f"    {named[2]}"]
        else:
            found.append(line)
    return found


PARAMETER = re.compile(r"([\w*, ]+?) : (.+)$")
# scikit-learn's docstrings refer to its own pages.
REFERENCE = re.compile(r":(?:ref|term):`([^`<]+?)(?: <[^`]*>)?`")
MARKUP = re.compile(r"([|*]|(?<=\w)_(?!\w))")
PLURAL = re.compile(r"(?<=\w)`(?=s\b)")


def plain_example(app, docname, source):
    """The same for the texts of the gallery, where they are no code."""
    if docname.startswith("gallery/plot_"):
        lines = source[0].split("\n")
        lines = [".. code-block:: text" if line == "::" else line for line in lines]
        source[0] = "\n".join(
            line if line.startswith((" ", "..")) else line.replace("|", "\\|")
            for line in lines
        )


def setup(app):
    app.connect("autodoc-process-docstring", plain, priority=100)
    app.connect("source-read", plain_example)
