"""Lines of several heads at once, and all heads of their kind in the order of what they measurably do."""

from collections.abc import Callable

from viz_app.components import news, register

component = register(
    "several", "../walk/signed.js", "../walk/table.js", "ranking.js", "strands.js", "several.js"
)


def several(
    payload: bytes,
    on_head: Callable[[int], None],
    on_measure: Callable[[str], None],
    on_query: Callable[[int], None],
    key: str = "several",
) -> None:
    """Show views.inside.several's payload. `on_head(number)` is called when a head is ticked or unticked, `on_measure(name)` when
    the heads are to stand in another order, `on_query(query)` when a token is clicked, −1 to let go."""

    def handle_news() -> None:
        sent = news(key, "news") or {}
        if "head" in sent:
            on_head(int(sent["head"]))
        elif "measure" in sent:
            on_measure(str(sent["measure"]))
        elif "query" in sent:
            on_query(int(sent["query"]))

    component(key=key, data=payload, on_news_change=handle_news)
