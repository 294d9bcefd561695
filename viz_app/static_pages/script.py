"""What AppTest runs for each still (viz_app/static_pages/crawl.py)."""

from viz_app.static_pages.recording import record

record()
