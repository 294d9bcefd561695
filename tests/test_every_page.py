"""Every page opens with every shipped checkpoint, one of each architecture among them, and says something."""

import pytest
from streamlit.testing.v1 import AppTest

import models
from viz_app.navigation import VIEWS


def page(name: str) -> None:
    from viz_app.navigation import VIEWS, _page

    _page(VIEWS[name][1])


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("checkpoint", models.shipped())
def test_it_opens_without_an_exception(checkpoint, view):
    app = AppTest.from_function(page, args=(view,), default_timeout=120)
    app.query_params["checkpoint"] = checkpoint
    app.run()
    assert not app.exception
    assert app.selectbox(key="checkpoint").value == checkpoint
    assert len(app.main.children[0].children) > 2      # a headline alone is no page
