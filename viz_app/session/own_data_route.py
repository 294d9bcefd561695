"""The route that receives a user's own data for the page Train, one file at a time.

It accepts up to 5 MB from a session of this server, and only if the app has trainers.
"""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from viz_app.session import routes, run_owners, uploads
from viz_app.session.live import LiveSession
from viz_app.trainers import own_data


async def _take(request: Request) -> Response:
    """Read a file, and answer with its size or with an error."""
    return await uploads.receive_file(
        request, own_data.MAX_OWN_DATA_BYTES, lambda session: run_owners.pool().n > 0, _keep
    )


def _keep(session: LiveSession, content: bytes, request: Request) -> dict[str, str]:
    kind, name = request.path_params["kind"], request.query_params.get("name", "")
    session.own_data = own_data.keep_own_data(content, kind, name)
    return {"kept": session.own_data.in_words}


def own_data_path(kind: str = "{kind}") -> str:
    """Return the route's URL path for a kind of data."""
    return routes.under_base(f"own-data/{kind}")


def own_data_routes() -> list[BaseRoute]:
    return [Route(own_data_path(), _take, methods=["POST"])]
