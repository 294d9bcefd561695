"""Play and pause over the steps of a training."""

from stage import Stage

STEPS = [0, 4, 16, 125]


def shown(stage: Stage, step: int, edition: int) -> None:
    stage.show({"steps": STEPS, "step": step}, (1, edition))


def requested_steps(stage: Stage, n: int) -> list[int]:
    """Return the n steps that were requested, once there are so many."""
    stage.page.wait_for_function("(n) => stage.sent.length >= n", arg=n)
    assert {name for name, _ in stage.sent} <= {"step"}
    return [step for _, step in stage.sent]


def test_steps_are_played_in_order_each_after_the_previous_one_has_arrived_until_the_last(
    stage: Stage,
) -> None:
    stage.mount("player")
    shown(stage, 4, 1)
    assert stage.text("span") == "2 of 4"
    stage.click("button")
    assert stage.text("button") == "❚❚ Pause"
    assert requested_steps(stage, 1) == [16]
    shown(stage, 4, 2)  # an answer to another request: the requested one is still on its way
    stage.page.evaluate("stage.frames(3)")
    shown(stage, 16, 3)
    assert requested_steps(stage, 2) == [16, 125]
    shown(stage, 125, 4)
    assert stage.text("button") == "▶ Play"
    stage.click("button")  # from the last it begins again
    assert requested_steps(stage, 3) == [16, 125, 0]


def test_the_next_step_waits_for_all_pictures_of_this_one(stage: Stage) -> None:
    stage.mount("player")
    stage.page.evaluate("attnscopePictures.set('live', { edition: [1, 1] })")
    shown(stage, 0, 1)
    stage.click("button")
    stage.page.evaluate("""() => {
      window.timers = [];
      window.setTimeout = (work) => timers.push(work);
    }""")
    shown(stage, 4, 2)
    stage.page.evaluate("timers.at(-1)()")
    assert requested_steps(stage, 1) == [4]  # the running rerun has not ended
    stage.page.evaluate(
        "() => { attnscopePictures.get('live').edition = [1, 2]; timers.at(-1)(); }"
    )
    assert requested_steps(stage, 2) == [4, 16]


def test_a_pause_and_moving_the_slider_stop_it(stage: Stage) -> None:
    stage.mount("player")
    stage.page.evaluate("""() => {
      window.timers = [];
      window.setTimeout = (work, ms) => timers.push({ work, ms });
      window.clearTimeout = (id) => id && (timers[id - 1].work = () => {});
    }""")
    shown(stage, 0, 1)
    stage.click("button")
    shown(stage, 4, 2)
    assert stage.page.evaluate("timers.map((t) => t.ms).filter((ms) => ms !== 300)") == [
        900
    ]  # 300: of live.js
    stage.click("button")  # between two steps
    stage.page.evaluate("timers.forEach((t) => t.work())")
    assert requested_steps(stage, 1) == [4]
    stage.click("button")
    shown(stage, 16, 3)
    shown(stage, 0, 4)  # the slider has been moved
    stage.page.evaluate("timers.forEach((t) => t.work())")
    assert requested_steps(stage, 2) == [4, 16]
    assert stage.text("button") == "▶ Play"
