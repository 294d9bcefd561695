"""A static page as HTML: its frame, its words as templates, and its stills."""

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

from models import __version__
from viz_app.components import EXPORT
from viz_app.components.catalogue import COMPONENTS
from viz_app.static_pages.contents import ModelTexts, StaticPage
from viz_app.static_pages.links import Site, models, section_links, tabs
from viz_app.static_pages.markdown import labelled_html
from viz_app.static_pages.packed import pack_stills, zipped
from viz_app.static_pages.shared import SharedPayloads

_HERE = Path(__file__).parent
# scripts and styles come from the folder; the components also set styles themselves
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
NOTICE = '<div class="notice" role="status" hidden><span></span><button type="button">Close</button></div>'
INSTALL_COMMAND = (
    "python3 -m venv .venv && .venv/bin/pip install torch==2.13.0 . && .venv/bin/attnscope"
)
EDITION = "Static edition. Type your own text in the app, from Attnscope's folder:"


def frame(*, title: str, description: str, pages: str, body: str, root: str) -> bytes:
    """Return a whole page; `pages` and `body` are HTML, and `root` leads to the site's folder."""
    template = Template((_HERE / "page.html").read_text("utf-8"))
    return template.substitute(
        policy=escape(POLICY),
        title=escape(title),
        description=escape(description),
        root=root,
        pages=pages,
        body=body,
        footer=f"Attnscope {escape(__version__)}.",
    ).encode()


def page(
    site: Site, example: ModelTexts, place: StaticPage, shared: SharedPayloads | None
) -> bytes:
    """Return the static page of a place of a model, which shares these payloads with others."""
    pages = site[example]
    stills = list(pages.stills[place].values())
    words = list(dict.fromkeys(text for still in stills for text in still.texts.values()))
    templates = "".join(
        f'<template id="text-{i}">{text}</template>' for i, text in enumerate(words)
    )
    data = zipped(pack_stills(pages, place, words, shared.payloads if shared else ()))
    scripts = "".join(
        f'<script src="../assets/{name}.js"></script>'
        for name in (
            *pages.libraries_of(place),
            "components",
            *([shared.name] if shared else []),
            "static",
        )
    )
    body = (
        f'<div class="inputs"><nav aria-label="Models">{models(site, place)}</nav>'
        f"{labelled_html(example.inputs)}"
        f'<p class="edition">{escape(EDITION)} <code>{escape(INSTALL_COMMAND)}</code></p></div>'
        f'<div class="headline" data-text="headline">{stills[0].texts["headline"]}</div>'
        f"{section_links(pages, place)}"
        '<div class="pictures"><p>The pictures need JavaScript.</p></div>'
        f'{NOTICE}{templates}<script type="application/json" id="drawn">"{data}"</script>'
        f"{scripts}"
    )
    return frame(
        title=f"{place.title} · {place.checkpoint} · Attnscope",
        description=f"{place.title}: {place.checkpoint} reads “{example.texts[0]}”",
        pages=tabs(pages, place, "../"),
        body=body,
        root="../",
    )


def components(names: Sequence[str]) -> bytes:
    """Return the script that holds these components."""
    parts = {name: COMPONENTS[name].files for name in names}
    files = {name: {"html": part["html"], "css": part["css"]} for name, part in parts.items()}
    mounts = "".join(
        f"attnscope.{name} = (() => {{\n{part['js'].removesuffix(EXPORT)}\nreturn show;\n}})();\n"
        for name, part in parts.items()
    )
    head = json.dumps(files, ensure_ascii=False)
    return f"window.attnscope = {{ files: {head} }};\n{mounts}".encode()
