"""Browser fixtures of the long tests."""

from served_app import browser, context, page, shared_page

__all__ = ["browser", "context", "page", "shared_page"]
