"""The command `attnscope export-site`: makes all pages, then writes them into a folder."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from viz_app.notebook.picture import colour_sheet, part_script
from viz_app.static_pages.contents import MODELS, TABS, Example, places
from viz_app.static_pages.crawl import crawl
from viz_app.static_pages.folder import check_folder, write_site
from viz_app.static_pages.index import index
from viz_app.static_pages.links import Site
from viz_app.static_pages.page import components, page

LARGEST = 20_000_000  # bytes of a whole site
_HERE = Path(__file__).parent


def export_site(options: Namespace) -> int:
    """Write the static edition into the folder of `attnscope export-site`.

    Nothing is written before everything is made, so a stopped export leaves the folder as it was.

    Raises:
        ValueError: the folder holds something else, or the site is too large.
    """
    check_folder(options.folder)
    files = site_files()
    check_folder(options.folder)
    write_site(options.folder, files)
    size = sum(map(len, files.values())) / 1e6
    print(f"{options.folder / 'index.html'}: {len(files)} files, {size:.1f} MB")
    return 0


def site_files(checkpoints: Sequence[str] = MODELS, tabs: Sequence[str] = TABS) -> dict[str, bytes]:
    """Return a static edition with these models and pages: the content of each file by its path.

    Raises:
        ValueError: it is too large.
    """
    site: Site = {}
    for example in map(Example, checkpoints):
        with tqdm(desc=example.checkpoint, unit=" views") as progress:
            site[example] = crawl(example, places(example, tabs), progress.update)
    files = {"index.html": index(site)} | {
        place.file: page(site, example, place)
        for example, pages in site.items()
        for place, stills in pages.stills.items()
        if stills
    }
    files |= _assets(site)
    if (size := sum(map(len, files.values()))) > LARGEST:
        raise ValueError(f"the site would have {size:,} bytes, more than {LARGEST:,}")
    return files


def _assets(site: Site) -> dict[str, bytes]:
    """Return the scripts and the style sheet that all pages load."""
    own = (_HERE / "static.js").read_text("utf-8")
    style = colour_sheet() + (_HERE / "static.css").read_text("utf-8")
    names = {name for pages in site.values() for name in pages.components}
    return {
        "assets/components.js": components(sorted(names)),
        "assets/static.js": f"(async () => {{\n{part_script()}\n{own}}})();\n".encode(),
        "assets/theme.js": (_HERE / "theme.js").read_bytes(),
        "assets/static.css": style.encode(),
    }
