"""The directive `plot`: code on a page, and the figures it draws.

Sphinx's own directive for this cannot be used in Markdown. Options:

    :alt: what the picture shows, in a sentence
    :include-source: false    only the figures
    :context:                 go on with the names of the last block that had this;
                              `reset` begins anew, `close-figs` with new figures
"""

import hashlib
from pathlib import Path
from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

FOLDER = "_figures"  # beside the pages; not kept in the repository


class Plot(SphinxDirective):
    """Runs its code, shows it, and puts the figures under it."""

    has_content = True
    option_spec: ClassVar = {
        "alt": directives.unchanged,
        "include-source": directives.unchanged,
        "context": directives.unchanged,
    }

    def run(self):
        code = "\n".join(self.content)
        shown = []
        if self.options.get("include-source", "").strip().lower() != "false":
            source = nodes.literal_block(code, code, language="python")
            self.set_source_info(source)
            shown.append(source)
        try:
            figures = self._drawn(code)
        except Exception as error:
            raise self.error(f"The code of this plot fails: {error!r}") from error
        return shown + [self._image(figure) for figure in figures]

    def _drawn(self, code):
        context = self.options.get("context")
        if context is None:
            names = {"np": np, "plt": plt}
        else:
            fresh = {"np": np, "plt": plt}
            names = self.env.temp_data.setdefault("names of plots", fresh)
            if context.strip() == "reset":
                names.clear()
                names.update(fresh)
        if context is None or context.strip() in ("reset", "close-figs"):
            plt.close("all")
        with plt.style.context("mercer.plots.light"):
            where = f"{self.env.docname}, line {self.lineno}"
            exec(compile(code, where, "exec"), names)
            return self._saved(code)

    def _saved(self, code):
        folder = Path(self.env.srcdir) / FOLDER
        folder.mkdir(exist_ok=True)
        given = f"{self.env.docname} {self.lineno} {code}"
        stem = hashlib.sha256(given.encode()).hexdigest()[:16]
        names = []
        for number in plt.get_fignums():
            names.append(f"{stem}-{number}.png")
            plt.figure(number).savefig(folder / names[-1], dpi=120)
        return names

    def _image(self, name):
        alt = self.options.get("alt", "")
        image = nodes.image(uri=f"/{FOLDER}/{name}", alt=alt)
        return nodes.figure("", image, align="center")


def setup(app):
    app.add_directive("plot", Plot)
    return {"parallel_read_safe": True}
