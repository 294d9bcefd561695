"""The two runs of the page Decoding, over a given text and the model's own, with an attention."""

from dataclasses import dataclass

from models.decoding.run_checks import first_disagreement
from models.decoding.runs import Method, Run, first_divergence
from models.tokenizers.base import Encoding
from models.trace import AttentionSite, Trace
from viz_app import words


@dataclass(frozen=True)
class DecodingRuns:
    """Both runs for one source or prompt, and the run without forced tokens if some were forced.

    `n_opening` is the number of tokens the decoder is given before its first step: 1 for <s>, or
    the prompt's length. `unchanged` is the run of the unchanged model, whose output a changed model
    was given; None if the model is unchanged or continues a prompt by itself. `sees_ahead` is True
    if a position may attend to a later one of the text that is generated.
    """

    trace: Trace
    teacher_forced: Run
    autoregressive: Run
    method: Method
    unforced: Run | None = None
    n_opening: int = 1
    unchanged: Trace | None = None
    sees_ahead: bool = False

    @property
    def written_stream(self) -> Encoding:
        """The row of the written stream: the given text, the model's output, or a prompt alone."""
        return self.trace.streams[self.trace.next_token.stream]

    @property
    def writer(self) -> str:
        """The model that wrote the given text, in the possessive; "" if the text was typed."""
        is_typed = (self.unchanged or self.trace).teacher_forced
        if is_typed and len(self.written_stream.ids) > self.n_opening:
            return ""
        return "the unchanged model's" if self.unchanged else "the model's own"

    @property
    def n_text(self) -> int:
        """The number of text tokens before the first generated one."""
        return sum(place is not None for place in self.written_stream.offsets[: self.n_opening])

    @property
    def n_steps(self) -> int:
        return max(len(self.teacher_forced), len(self.autoregressive))

    @property
    def divergence(self) -> int | None:
        return first_divergence(self.teacher_forced, self.autoregressive)

    @property
    def disagreement(self) -> int | None:
        """The first position whose probabilities differ although both runs have read the same."""
        return first_disagreement(self.teacher_forced, self.autoregressive)


@dataclass(frozen=True)
class ShownAttention:
    """The shown attention: the names of a cross- and a self-attention site, "" where there is none.

    `head` counts from 0, None is the mean over heads. `name` describes the selection, `cross_name`
    the kind of the first.
    """

    cross: str = ""
    self_attention: str = ""
    head: int | None = None
    name: str = ""
    cross_name: str = ""


def writing_sites(trace: Trace) -> list[AttentionSite]:
    """Return the attention sites of the decoder."""
    return [site for site in trace.attention.values() if site.stack == "decoder"]


def decoder_attention(
    trace: Trace, layer: int = 0, head: int | None = None, *, name: str = ""
) -> ShownAttention:
    """Return the attention of a decoder layer (from 0), in its last head if `head` is beyond it.

    Of several attentions of a kind in that layer it is the one called `name`, else the first. A
    cross-attention without a layer number is shown with every layer.
    """
    sites = sorted(writing_sites(trace), key=lambda site: site.name != name)
    crossing = [site for site in sites if site.role != "self"]
    cross = next((site for site in crossing if site.layer == layer), next(iter(crossing), None))
    self_attention = next(
        (site for site in sites if site.role == "self" and site.layer == layer), None
    )
    if cross is not None and words.is_alignment(cross):
        return ShownAttention(cross.name, "", 0, "weights α of the context", "Alignment")
    if not (shown := cross or self_attention):
        return ShownAttention()
    head = None if head is None else min(head, shown.n_heads - 1)
    heads = f"mean over its {shown.n_heads} heads" if head is None else f"head {head + 1}"
    cross_names = (cross.name, "Cross-attention") if cross else ("", "")
    return ShownAttention(
        cross_names[0],
        self_attention.name if self_attention else "",
        head,
        f"decoder layer {layer + 1}{words.call_number(shown)}, {heads}",
        cross_names[1],
    )
