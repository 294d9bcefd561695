"""Messages of clicks in browser components, and those that a component handles itself.

A static page answers the clicks whose messages are listed here; each answer was made by the app.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from viz_app.components import Component
from viz_app.components.catalogue import (
    ANSWERS,
    BEAM_TREE,
    BOARD,
    CHOICE,
    DISTANCES,
    GUESSES,
    HEAD,
    LAYER,
    MASK_PAINTER,
    ORDER,
    OUTCOME,
    OVERVIEW,
    PATCH,
    ROW_TESTS,
    STEPPER,
    WALK,
)
from viz_app.drawing.payload import pack, unpack
from viz_app.views.interventions import patch_text

EventHeader = Mapping[str, Any]  # of a component's payload
Message = dict[str, Any]

# (component, trigger, fields of the message) that the component handles itself: Python would only
# write them into the address
KEPT_EVENTS = (
    (HEAD.name, "lock", ("token",)),
    (HEAD.name, "look", ("scale", "hides")),
    (STEPPER.name, "step", ("position",)),
    (WALK.name, "news", ("stage",)),
)
# header fields that turn off what needs a model: a check box, cells to paint, parts to take
WITHOUT_MODEL = {
    OVERVIEW.name: {"switches": False},
    MASK_PAINTER.name: {"fixed": True},
    BOARD.name: {"scales": False},
    PATCH.name: {"fixed": True},
}
# a sentence of a payload that asks for what only the app does → the one that replaces it
STATIC_SENTENCES = {
    patch_text.NOTHING_PATCHED: "Nothing is patched.",
    patch_text.HINT.format(noun="text"): "In the app a click takes the part.",
    patch_text.SCATTER_HINT.format(noun="text"): "On the line the guess is exact.",
}


def _heads(header: EventHeader) -> Iterable[Message]:
    for block in header["blocks"]:
        for site, heads in zip(block["sites"], block["largest"], strict=True):
            yield from ({"site": site, "head": head} for head in range(len(heads)))


def _cells(header: EventHeader) -> Iterable[Message]:
    """Yield each other query at its strongest key, then each key of the chosen query."""
    yield from ({"query": query, "key": -1} for query in range(len(header["queries"])))
    yield from ({"query": header["query"], "key": key} for key in range(len(header["keys"])))


def _keys(header: EventHeader) -> Iterable[Message]:
    return ({"query": header["query"], "key": key} for key in header["indices"])


def _parts(header: EventHeader) -> Iterable[Message]:
    return (
        {"site": site} for site in dict.fromkeys(stop["site"] for stop in header["stops"]) if site
    )


def _tokens(header: EventHeader) -> Iterable[Message]:
    return ({"token": token} for token in range(len(header["tokens"])))


def _places(header: EventHeader) -> Iterable[Message]:
    return ({"position": i} for i, place in enumerate(header["places"]) if place)


def _positions(header: EventHeader) -> Iterable[Message]:
    return ({"position": position} for position in range(len(header["tokens"])))


def _hidden(header: EventHeader) -> Iterable[Message]:
    """Yield the masked positions after a click on each token that may be masked or unmasked."""
    states = header["states"]
    chosen = {i for i, state in enumerate(states) if state == "hidden"}
    for i, state in enumerate(states):
        if state in ("open", "hidden"):
            yield {"hidden": sorted(chosen ^ {i})}


def _nodes(header: EventHeader) -> Iterable[Message]:
    for step, nodes in enumerate(header["steps"]):
        yield from ({"step": step, "rank": rank} for rank in range(len(nodes)))


def _kinds(header: EventHeader) -> Iterable[Message]:
    return ({"kind": kind} for kind in dict.fromkeys(mask["kind"] for mask in header["strip"]))


def _switches(header: EventHeader) -> Iterable[Message]:
    """Yield each head to be switched off or, if any are changed, only those to be switched on."""
    heads = [
        ({"site": site, "head": head}, state["factor"] != 1)
        for kind in header["kinds"]
        for site, states in zip(kind["sites"], kind["states"], strict=True)
        for head, state in enumerate(states)
        if state is not None
    ]
    is_any_changed = any(is_changed for _, is_changed in heads)
    for message, is_changed in heads:
        if is_changed or not is_any_changed:
            yield {**message, "off": not is_changed}


def _decisions(header: EventHeader) -> Iterable[Message]:
    return ({"position": i} for i, one in enumerate(header["decisions"]) if not one["chosen"])


def _weights(header: EventHeader) -> Iterable[Message]:
    """Yield the weights of each other column, or none if the row has others than the model's."""
    first, *others = header["columns"]
    if first.get("edited"):
        yield {"weights": []}
    yield from ({"weights": one["weights"]} for one in others if one["weights"])


def _pairs(header: EventHeader) -> Iterable[Message]:
    for kind in header["kinds"]:
        for site, values in zip(kind["sites"], kind["values"], strict=True):
            yield from (
                {"site": site, "head": head}
                for head, value in enumerate(values)
                if value is not None
            )


# (component, event) → the messages that its buttons send; all others need the installed app
_MESSAGES: Mapping[tuple[str, str], Callable[[EventHeader], Iterable[Message]]] = {
    (OVERVIEW.name, "on_pick"): _heads,
    (CHOICE.name, "on_choose"): _cells,
    (WALK.name, "on_choose"): _keys,
    (LAYER.name, "on_layer"): _parts,
    (LAYER.name, "on_token"): _tokens,
    (ANSWERS.name, "on_choose"): _places,
    (ORDER.name, "on_choose"): _positions,
    (GUESSES.name, "on_hide"): _hidden,
    (MASK_PAINTER.name, "on_kind"): _kinds,
    (BEAM_TREE.name, "on_node"): _nodes,
    (BOARD.name, "on_switch"): _switches,
    (OUTCOME.name, "on_choose"): _decisions,
    (DISTANCES.name, "on_pick"): _pairs,
    (ROW_TESTS.name, "on_choose"): _decisions,
    (ROW_TESTS.name, "on_set"): _weights,
}


def messages(component: Component, event: str, payload: bytes | dict[str, Any]) -> list[Message]:
    """Return the messages of an event that a component with this payload can send."""
    listed = _MESSAGES.get((component.name, event))
    if listed is None:
        return []
    return list(listed(payload if isinstance(payload, dict) else unpack(payload)[0]))


def without_model(component: Component, payload: bytes | dict[str, Any]) -> bytes | dict[str, Any]:
    """Return the payload without the controls and the sentences that would need the model."""
    fields = WITHOUT_MODEL.get(component.name, {})
    if isinstance(payload, dict):
        return {
            name: STATIC_SENTENCES.get(value, value) if isinstance(value, str) else value
            for name, value in {**payload, **fields}.items()
        }
    if not fields:
        return payload
    header, arrays = unpack(payload)
    del header["arrays"]
    return pack({**header, **fields}, **arrays)
