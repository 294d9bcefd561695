"""Hugging Face's Marian with the same sizes: decoding 100 tokens one by one, with and without all attentions, and training tokens
per second. CTranslate2 decodes with the same weights as Marian. Needs the extra "dev".

Marian runs as it comes, on torch's fused attention; it can return attentions only from its own slower one. Every side decodes
with its own random weights and without an end, and both train on the same batches with the same optimiser, towards the same
smoothed labels: Marian with the loss of its library's Trainer, and once more with ours.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from torch import Tensor, nn

from models.architectures.transformer import Transformer, TransformerConfig
from models.decoding import generate
from models.tokenizers.base import END, PAD, START
from models.training.batches import NO_LABEL, Batch
from models.training.objectives import label_smoothed_loss
from tests.benchmarks.decoding import N_TOKENS, SOURCE
from tests.benchmarks.own_data import marian, their_logits
from tests.benchmarks.recording import ENG_FRA
from tests.benchmarks.side_by_side import Result, in_turns, over, print_table
from tests.benchmarks.training import SMOOTHING, Learner, random_batches

WRITERS = TransformerConfig(
    8500, d_model=256, n_heads=8, d_ff=1024, n_encoder_layers=3, n_decoder_layers=3
)  # 7.7 M parameters


def write(model: Transformer, *, recorded: bool) -> list[int]:
    """Decode the most probable token that is not </s>, 100 times."""

    def likeliest(log_probs: Tensor) -> int:
        best = int(log_probs.argmax())
        return (
            best
            if best != END
            else int(log_probs.index_fill(0, torch.tensor([END]), -torch.inf).argmax())
        )

    return [
        step.token
        for step in generate(model, SOURCE, likeliest, max_new=N_TOKENS, recorded=recorded)
    ]


def generate_theirs(model: nn.Module, *, attentions: bool) -> Tensor:
    """Decode the same with Hugging Face's greedy `generate`."""
    source = torch.tensor([SOURCE])
    settings = {
        "num_beams": 1,
        "do_sample": False,
        "min_new_tokens": N_TOKENS,
        "max_new_tokens": N_TOKENS,
        "use_cache": True,
    }
    more = {"output_attentions": True, "return_dict_in_generate": True} if attentions else {}
    with torch.inference_mode():
        found = model.generate(source, attention_mask=torch.ones_like(source), **settings, **more)
    return found.sequences if attentions else found


def ctranslate2_writer(model: nn.Module) -> Callable[[], list[int]]:
    """Return a function that greedily decodes 100 tokens with CTranslate2 and this Marian's weights, in float32 on one thread."""
    from ctranslate2 import Translator
    from ctranslate2.converters.transformers import BartLoader

    # Marian's own loader starts from a zero embedding and drops the last token, as published checkpoints need it
    model.config.normalize_before = model.config.normalize_embedding = False
    spec = BartLoader().get_model_spec(model)
    vocabulary = [str(token) for token in range(WRITERS.vocab_size)]
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.decoder_start_token, spec.config.eos_token = str(START), str(END)
    spec.config.bos_token, spec.config.unk_token = str(START), str(PAD)
    spec.validate()
    spec.optimize()
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        translator = Translator(folder, compute_type="float32", inter_threads=1, intra_threads=1)
    source = [[str(token) for token in SOURCE]]
    lengths = {"min_decoding_length": N_TOKENS, "max_decoding_length": N_TOKENS}

    def generate_tokens() -> list[int]:
        (result,) = translator.translate_batch(source, beam_size=1, **lengths)
        return [int(token) for token in result.hypotheses[0]]

    return generate_tokens


def beside_ctranslate2(rounds: int) -> Result:
    """Return CTranslate2's time over ours, after checking that it computes the same as Marian."""
    rival = marian(WRITERS, "sdpa").eval()
    ours, theirs = Transformer(WRITERS).eval(), ctranslate2_writer(rival)
    if theirs() != generate_theirs(rival, attentions=False)[0, 1:].tolist():
        raise ValueError("CTranslate2 must write what Marian writes with the same weights")
    other, our = in_turns(theirs, partial(write, ours, recorded=False), rounds)
    detail = f"{1e3 * median(our) / N_TOKENS:.2f} ms a token against {1e3 * median(other) / N_TOKENS:.2f}"
    what = f"decoding {N_TOKENS} tokens: CTranslate2 in float32 over ours"
    return Result(what, over(other, our), "≥ 0.7", detail)


def decoding(rounds: int) -> list[Result]:
    """Return their time over ours, with nothing kept and with every attention of every step kept on both sides."""
    ours, results = Transformer(WRITERS).eval(), []
    for what, attentions in (("", False), (", attentions kept", True)):
        theirs = marian(WRITERS, "eager" if attentions else "sdpa").eval()
        if len(write(ours, recorded=False)) != N_TOKENS or generate_theirs(
            theirs, attentions=False
        ).shape != (1, N_TOKENS + 1):
            raise ValueError(f"both must write {N_TOKENS} tokens")
        slow, quick = in_turns(
            partial(generate_theirs, theirs, attentions=attentions),
            partial(write, ours, recorded=attentions),
            rounds,
        )
        detail = f"{1e3 * median(quick) / N_TOKENS:.2f} ms a token against {1e3 * median(slow) / N_TOKENS:.2f}"
        results.append(
            Result(
                f"decoding {N_TOKENS} tokens: Marian's generate over ours{what}",
                over(slow, quick),
                "≥ 1.8" if attentions else "≥ 2",
                detail,
            )
        )
    return results


class MarianLearner(Learner):
    """Their model, trained step by step as ours is, with our loss."""

    def loss(self, batch: Batch) -> Tensor:
        return (
            label_smoothed_loss(their_logits(self.model, batch).logits, batch.labels, SMOOTHING)
            / batch.labels.numel()
        )


class AsItComes(Learner):
    """Their model with their own Trainer's loss of smoothed labels."""

    def loss(self, batch: Batch) -> Tensor:
        from transformers.trainer_pt_utils import LabelSmoother

        return LabelSmoother(SMOOTHING, NO_LABEL)(their_logits(self.model, batch), batch.labels)


@torch.no_grad()
def gap_between_losses(batch: Batch) -> float:
    """Return the difference between their loss and ours for one model, in nats per token."""
    model = marian(ENG_FRA, "sdpa")
    learners = [learner(model, [batch]) for learner in (AsItComes, MarianLearner)]
    model.eval()
    theirs, ours = (float(learner.loss(batch)) for learner in learners)
    return abs(theirs - ours * batch.labels.numel() / batch.n_labels)


def training(rounds: int, n_batches: int) -> list[Result]:
    """Return our target tokens per second over Marian's with eng-fra's sizes and batches, as it comes and with our loss; a round is one
    pass over the batches by each."""
    batches, results = random_batches(ENG_FRA.vocab_size, 2048, n_batches), []
    tokens = sum(int((b.labels != NO_LABEL).sum()) for b in batches)
    if (gap := gap_between_losses(batches[0])) > 1e-4:
        raise ValueError(
            f"the two losses should be the same, but differ by {gap:.2g} nats per token"
        )
    torch.manual_seed(1)
    for what, aim, learner in (("", "≥ 1.15", AsItComes), (" and our loss", "≥ 1", MarianLearner)):
        rivals = learner(marian(ENG_FRA, "sdpa"), batches), Learner(Transformer(ENG_FRA), batches)
        theirs, our = in_turns(*(partial(rival.steps, len(batches)) for rival in rivals), rounds)
        detail = (
            f"{tokens / median(our):,.0f} against {tokens / median(theirs):,.0f} target tokens/s"
        )
        results.append(
            Result(f"training tokens/s over Marian with sdpa{what}", over(theirs, our), aim, detail)
        )
    return results


def measure(short: bool = False) -> list[Result]:
    """Measure decoding and training, on one thread."""
    torch.set_num_threads(1)
    n_decodings, n_trainings, n_batches = (1, 1, 1) if short else (12, 8, 12)
    return [
        *decoding(n_decodings),
        beside_ctranslate2(n_decodings),
        *training(n_trainings, n_batches),
    ]


if __name__ == "__main__":
    print_table(measure())
