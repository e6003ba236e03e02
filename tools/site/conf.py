"""Settings of Sphinx. Everything that a page loads is part of the site, so that it works without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streams

project = "streams"
author = ""
project_copyright = ""
release = streams.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
nitpicky = False
default_role = "code"
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
toc_object_entries = False  # else each page holds them all, which takes most of the time of a build
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["copy.js"]
html_search_scorer = str(Path(__file__).with_name("static") / "scorer.js")
html_extra_path = ["extra"]
html_title = f"streams {release}"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options: dict[str, Any] = {"navigation_with_keys": True, "top_of_page_buttons": []}
pygments_style = "default"
pygments_dark_style = "monokai"
suppress_warnings: list[str] = []


def setup(app: Any) -> None:
    """Shows files of commas as they are: Pygments has no lexer for them."""
    from pygments.lexers.special import TextLexer

    app.add_lexer("csv", TextLexer)
