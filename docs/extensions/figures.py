"""The directive `plot`: code on a page, and the figures it draws.

Sphinx's own directive for this cannot be used in Markdown. The code is run twice, for
light pages and for dark ones. Options:

    :alt: what the picture shows, in a sentence
    :include-source: false    only the figures
    :context:                 go on with the names of the last block that had this;
                              `reset` begins anew
"""

import hashlib
from pathlib import Path
from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective
from sphinx_gallery.scrapers import matplotlib_scraper

FOLDER = "_figures"  # beside the pages; not kept in the repository
STYLES = {
    "light": ["mercer.plots.light"],
    "dark": ["mercer.plots.light", "mercer.plots.dark"],
}


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
        for page, style in STYLES.items():
            try:
                figures = self._drawn(code, page, style)
            except Exception as error:
                raise self.error(f"The code of this plot fails: {error!r}") from error
            shown += [self._image(figure, page) for figure in figures]
        return shown

    def _drawn(self, code, page, style):
        """The files of the figures in one style; each has names of its own."""
        context = self.options.get("context")
        names = fresh = {"np": np, "plt": plt}
        if context is not None:
            names = self.env.temp_data.setdefault(f"names of {page} plots", fresh)
            if context.strip() == "reset":
                names.clear()
                names.update(fresh)
        plt.close("all")
        with plt.style.context(style):
            where = f"{self.env.docname}, line {self.lineno}"
            exec(compile(code, where, "exec"), names)
            return self._saved(code, page)

    def _saved(self, code, page):
        folder = Path(self.env.srcdir) / FOLDER
        folder.mkdir(exist_ok=True)
        given = f"{self.env.docname} {self.lineno} {code}"
        stem = hashlib.sha256(given.encode()).hexdigest()[:16]
        names = []
        for number in plt.get_fignums():
            names.append(f"{stem}-{number}-{page}.png")
            figure = plt.figure(number)
            figure.canvas.draw()  # as in `settled`
            figure.savefig(folder / names[-1], dpi=120)
        return names

    def _image(self, name, page):
        alt = self.options.get("alt", "")
        classes = [f"only-{page}"]
        image = nodes.image(uri=f"/{FOLDER}/{name}", alt=alt, classes=classes)
        return nodes.figure("", image, align="center", classes=classes)


def settled(block, block_vars, gallery_conf, **options):
    """The figures of a cell of the gallery, drawn once before they are saved.

    Axes of equal aspect have their size, and room for titles, after one drawing.
    """
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
    return matplotlib_scraper(block, block_vars, gallery_conf, **options)


def _get_sg_image_scraper():
    """Where sphinx-gallery looks for `settled`, by the name of this module."""
    return settled


def setup(app):
    app.add_directive("plot", Plot)
    return {"parallel_read_safe": True}
