"""Browser fixtures: single components on a stage, and the served app."""

from served_app import browser, context, page, shared_page
from stage import stage, stage_page

__all__ = ["browser", "context", "page", "shared_page", "stage", "stage_page"]
