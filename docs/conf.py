"""How the site is built: `make docs`, or `make docs-quick` without the gallery runs."""

import os
import re
import sys
from itertools import count
from pathlib import Path

import matplotlib

import mercer

matplotlib.use("Agg")
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

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
    "matplotlib.sphinxext.plot_directive",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "README.md", "auto_examples/**/*.ipynb"]
root_doc = "index"
nitpicky = True
# Types in numpydoc's sections are words, not names.
nitpick_ignore_regex = [("py:.*", r".*")]
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "amsmath"]
myst_heading_anchors = 4
suppress_warnings = ["config.cache"]

numpydoc_show_class_members = False
numpydoc_xref_param_type = False
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"

plot_include_source = True
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 110)]
plot_rcparams = {"figure.constrained_layout.use": True}
plot_pre_code = "import numpy as np\nimport matplotlib.pyplot as plt\n"

# Examples that need data of their own are shown as they are where it is absent.
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
    "within_subsection_order": "ExampleTitleSortKey",
    "doc_module": ("mercer",),
    "backreferences_dir": "gallery/backreferences",
    "abort_on_example_error": True,
    "matplotlib_animations": False,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
}

html_theme = "pydata_sphinx_theme"
html_title = "mercer"
html_static_path = ["_static"]
html_css_files = ["site.css"]
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

assert mercer.__name__ == project


def draw_plots(app, name, source):
    """Hand each {plot} of a Markdown page to reStructuredText, which alone has it."""
    numbers = count(1)

    def as_rst(found):
        fence, body = found.groups()
        prefix = f"{name.replace('/', '-')}-{next(numbers)}"
        lines = [".. plot::", f"   :filename-prefix: {prefix}"]
        lines += [f"   {line}" if line else "" for line in body.split("\n")]
        return "\n".join([fence + "{eval-rst}", *lines, fence])

    page = r"^(`{3,})\{plot\}\n(.*?)\n\1$"
    source[0] = re.sub(page, as_rst, source[0], flags=re.MULTILINE | re.DOTALL)


def setup(app):
    app.connect("source-read", draw_plots)
