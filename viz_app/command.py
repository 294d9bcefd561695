"""The console script `attnscope`: the command line of `models`, plus the app."""

import os
import sys
from argparse import Namespace
from pathlib import Path

from models import cli


def main() -> int:
    return cli.main(open_app=open_app)


def open_app(options: Namespace) -> int:
    """Serve the app until Ctrl-C, in this process, so that the folder one stands in cannot hide our packages."""
    from streamlit.web.cli import main as streamlit

    if options.device:
        os.environ["ATTNSCOPE_DEVICE"] = options.device
    app = Path(__file__).with_name("server.py")
    flags = [f"--server.port={options.port}", f"--server.headless={str(options.no_browser).lower()}"]
    return streamlit(["run", str(app), *flags], prog_name="attnscope", standalone_mode=False) or 0


if __name__ == "__main__":
    sys.exit(main())
