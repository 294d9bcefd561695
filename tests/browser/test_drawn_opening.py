"""The progress of a model that is being opened: the server's answers are shown, and the page reruns once it has ended."""

from stage import Stage

BAR = {"number": 7, "share": 0.25, "progress": "3 of 12", "path": "/opening", "token": "secret"}
# a server that answers when `answers` is given something; undefined is no answer
SERVER = """() => {
  window.questions = [];
  window.waiting = [];
  window.fetch = (path, { headers }) => {
    questions.push([path, headers.Authorization]);
    return new Promise((answer) => waiting.push(answer));
  };
  window.answer = (json) => waiting.shift()({ ok: json !== undefined, json: async () => json });
}"""


def opening(stage: Stage) -> None:
    stage.mount("opening")
    stage.page.evaluate(SERVER)
    stage.show(BAR, (1, 4))


def answer(stage: Stage, n: int, json: str) -> None:
    """Answer the nth request once it is made."""
    stage.page.wait_for_function("(n) => questions.length === n", arg=n)
    stage.page.evaluate(f"answer({json})")


def shown(stage: Stage) -> tuple[str, float]:
    return stage.text("span"), stage.js("(root) => root.querySelector('progress').value")


def last(stage: Stage, edition: str) -> None:
    """Set the edition of the component that a rerun shows last."""
    stage.page.evaluate(f"attnscopePictures.set('live', {{ edition: {edition} }})")


def test_each_answer_is_shown_and_the_next_request_follows(stage: Stage) -> None:
    opening(stage)
    assert shown(stage) == ("3 of 12", 0.25)
    answer(stage, 1, "{ ready: false, share: 0.5, progress: '6 of 12' }")
    stage.page.wait_for_function("questions.length === 2")
    assert shown(stage) == ("6 of 12", 0.5)
    stage.show(BAR | {"number": 8, "share": 0, "progress": "another"}, (1, 5))
    answer(stage, 2, "{ ready: false, share: 0.125, progress: '1 of 8' }")
    stage.page.wait_for_function("questions.length === 3")
    assert shown(stage) == ("1 of 8", 0.125)
    paths = ["/opening/7", "/opening/7", "/opening/8"]
    assert stage.page.evaluate("questions") == [[path, "Bearer secret"] for path in paths]
    assert stage.sent == []


def test_the_page_reruns_only_when_all_of_the_last_rerun_is_shown(stage: Stage) -> None:
    """The bar comes before the component that sets the other boxes."""
    opening(stage)
    last(stage, "[1, 3]")
    stage.page.evaluate("""() => {
      window.timers = [];
      window.setTimeout = (work) => timers.push(work);
    }""")
    answer(stage, 1, "{ ready: true }")

    def look(n: int) -> None:
        stage.page.wait_for_function("(n) => timers.length === n", arg=n)
        stage.page.evaluate("timers.at(-1)()")

    look(1)
    look(2)
    stage.page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<i data-testid=stSkeleton>')"
    )
    last(stage, "[2, 4]")
    look(3)
    look(4)
    assert stage.sent == []
    stage.page.evaluate("document.querySelector('[data-testid=stSkeleton]').remove()")
    look(5)
    look(6)
    stage.page.wait_for_function("stage.sent.length === 1")
    assert stage.sent == [["ready", True]]
    assert stage.page.evaluate("questions.length") == 1


def test_without_an_answer_the_page_reruns_all_the_same(stage: Stage) -> None:
    opening(stage)
    last(stage, "[1, 4]")
    answer(stage, 1, "undefined")
    stage.page.wait_for_function("stage.sent.length === 1")
    stage.show(BAR, (1, 5))  # the rerun still shows the bar
    last(stage, "[1, 5]")
    answer(stage, 2, "{ ready: true }")
    stage.page.wait_for_function("stage.sent.length === 2")
