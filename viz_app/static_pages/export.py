"""The command `attnscope export-site`: makes all pages, and then writes them into a folder."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from viz_app.controls.lesson_panel import offered_lessons
from viz_app.lessons.lesson import Lesson
from viz_app.notebook.picture import part_script, style_sheet
from viz_app.static_pages.charts import has_vega, library_script
from viz_app.static_pages.contents import STATIC_MODELS, TABS, ModelTexts
from viz_app.static_pages.crawl import crawl
from viz_app.static_pages.folder import MAX_SITE_BYTES, check_folder, write_site
from viz_app.static_pages.index import index
from viz_app.static_pages.lessons import lesson_file, lesson_page
from viz_app.static_pages.links import Site, tabs_of_first
from viz_app.static_pages.model_cards import link_cards
from viz_app.static_pages.page import components, page
from viz_app.static_pages.places import places
from viz_app.static_pages.shared import shared_payloads

_HERE = Path(__file__).parent
WITHOUT_VEGA = "Pages with line charts are left out; they need `pip install vl-convert-python`."


def export_site(options: Namespace) -> int:
    """Write the static edition into the folder of `attnscope export-site`.

    Nothing is written until everything is made, so a stopped export leaves the folder unchanged.

    Raises:
        ValueError: the folder contains something else, or the site is too large.
    """
    files = site_files()
    check_folder(options.folder)
    write_site(options.folder, files)
    size = sum(map(len, files.values())) / 1e6
    print(f"{options.folder / 'index.html'}: {len(files)} files, {size:.1f} MB")
    if not has_vega():
        print(WITHOUT_VEGA)
    return 0


def site_files(
    checkpoints: Sequence[str] = STATIC_MODELS,
    tabs: Sequence[str] = TABS,
    lessons: Sequence[Lesson] | None = None,
) -> dict[str, bytes]:
    """Return a static edition with these models, pages and lessons: the content of each file.

    If `lessons` is None, it has all lessons of the app.

    Raises:
        ValueError: it is too large.
    """
    site: Site = {}
    for example in map(ModelTexts, checkpoints):
        with tqdm(desc=example.checkpoint, unit=" views") as progress:
            site[example] = crawl(example, places(example, tabs), progress.update)
    link_cards(site)
    lessons = offered_lessons().lessons if lessons is None else lessons
    shared = shared_payloads(site)
    files = {"index.html": index(site, lessons)} | {
        place.file: page(site, example, place, shared.get(place))
        for example, pages in site.items()
        for place, stills in pages.stills.items()
        if stills
    }
    names = {name for pages in site.values() for name in pages.components}
    files |= {
        f"assets/{name}.js": library_script(name)
        for name in sorted({name for pages in site.values() for name in pages.libraries})
    }
    files |= {f"assets/{one.name}.js": one.script for one in shared.values()}
    for lesson in lessons:
        files[lesson_file(lesson)], used = lesson_page(lesson, tabs_of_first(site, "../"))
        names |= used
    files |= _assets(names)
    if (size := sum(map(len, files.values()))) > MAX_SITE_BYTES:
        raise ValueError(f"the site would have {size:,} bytes, more than {MAX_SITE_BYTES:,}")
    return files


def _assets(names: set[str]) -> dict[str, bytes]:
    """Return the scripts and the style sheet that all pages load."""
    notice, static, lesson = (
        (_HERE / f"{name}.js").read_text("utf-8") for name in ("notice", "static", "lesson")
    )
    style = style_sheet() + (_HERE / "static.css").read_text("utf-8")
    return {
        "assets/components.js": components(sorted(names)),
        "assets/static.js": _script(notice, static),
        "assets/lesson.js": _script(notice, lesson),
        "assets/theme.js": (_HERE / "theme.js").read_bytes(),
        "assets/static.css": style.encode(),
    }


def _script(*sources: str) -> bytes:
    """Return a script with its own scope, in which `await` is allowed."""
    return "\n".join(["(async () => {", part_script(), *sources, "})();\n"]).encode()
