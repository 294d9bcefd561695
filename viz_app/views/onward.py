"""The questions that more than one page leads to."""

from models.printable import printable
from viz_app.session.current_run import CurrentRun
from viz_app.views.page import NextQuestion


def what_it_reads(run: CurrentRun, name: str = "this model") -> NextQuestion:
    """Lead to Attention, which shows the states of a model without attention."""
    name = printable(name)
    if run.trace.attention:
        return NextQuestion(f"Which tokens does {name} attend to?", "attention")
    return NextQuestion(f"What does {name} keep of each token?", "attention")


def how_it_orders() -> NextQuestion:
    """Lead to Positions."""
    return NextQuestion("How does the model know word order?", "positions")


def what_if(run: CurrentRun) -> NextQuestion:
    """Lead to Interventions if heads of this run can be switched off, else on."""
    sites = run.trace.attention.values()
    if run.scope.model.can_edit_masks and any(site.has_causes for site in sites):
        return NextQuestion("What happens if a head is switched off?", "interventions")
    return how_it_writes(run)


def how_it_writes(run: CurrentRun) -> NextQuestion:
    """Lead to Decoding if the model writes, else on."""
    if run.scope.model.can_write:
        return NextQuestion("How is text generated, token by token?", "decoding")
    return what_attention_changed(run)


def what_attention_changed(run: CurrentRun) -> NextQuestion:
    """Lead to From RNN to attention if the model translates a source, else to Models."""
    if run.scope.model.translates and "source" in run.trace.streams:
        return NextQuestion("What did attention change?", "from-rnn")
    return NextQuestion("Which other models can I open?", "models")
