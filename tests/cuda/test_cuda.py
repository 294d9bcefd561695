"""Runs on a GPU against runs on the CPU. The README's command leaves this folder out; every test here needs CUDA and fails
without it."""

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hub_models import BY_NAME, NAMES, WRITERS
from small import reversal_trainer
from torch import Tensor, nn

import models
from models import Scope
from models.analysis.checks import check_site
from models.decoding import runs
from models.opening import shipped
from models.trace import Trace
from models.trace.edits import MaskChange, for_kinds
from models.trace.outputs import NextToken
from models.training import compiled_layers
from models.training.run_folder import STATE

IDS = "5 6 7 8 9 10 11 12 14 16 18"
WEIGHTS, LOGITS = 5e-5, 2e-3  # of float32, since the two devices sum in different orders
# without dates-stacked, whose scores reach 17 million: float32 rounds them to whole numbers
CHECKPOINTS = [name for name in shipped() if name != "dates-stacked"]


@pytest.fixture(scope="session", autouse=True)
def _cuda() -> None:
    assert torch.cuda.is_available(), (
        "these tests compare a GPU with the CPU: there is no CUDA here"
    )


@pytest.fixture(scope="module", params=CHECKPOINTS)
def both(request: pytest.FixtureRequest) -> tuple[Scope, Scope]:
    """A shipped checkpoint on the CPU and on the GPU."""
    return models.load(request.param, device="cpu"), models.load(request.param, device="cuda")


def example(scope: Scope) -> tuple[str, ...]:
    """Texts that the model was trained for."""
    first = (
        scope.examples or ["March 5, 2021" if scope.task == "dates" else "She is reading a book."]
    )[0]
    return tuple(first) if isinstance(first, list) else (first,)


def compare(cpu: Trace, gpu: Trace) -> None:
    """Assert the same tokens, the same weights in every head and the same logits; every check passes."""
    assert {name: e.ids for name, e in cpu.streams.items()} == {
        name: e.ids for name, e in gpu.streams.items()
    }
    assert cpu.attention.keys() == gpu.attention.keys()
    for name, site in gpu.attention.items():
        torch.testing.assert_close(
            site.weights().cpu(), cpu.attention[name].weights(), atol=WEIGHTS, rtol=1e-3
        )
        assert site.allowed().cpu().equal(cpu.attention[name].allowed()), name
        assert [check for check in check_site(site) if not check.passed] == [], name
    assert cpu.activations.keys() == gpu.activations.keys()
    for name, activation in gpu.activations.items():
        torch.testing.assert_close(
            activation.value.cpu(), cpu.activations[name].value, atol=LOGITS, rtol=1e-3, msg=name
        )
    assert cpu.outputs.keys() == gpu.outputs.keys()
    for name, output in gpu.outputs.items():
        if isinstance(output, NextToken):
            torch.testing.assert_close(
                output.logits.cpu(), cpu.outputs[name].logits, atol=LOGITS, rtol=1e-3
            )


def test_a_run_is_the_same(both: tuple[Scope, Scope]) -> None:
    cpu, gpu = both
    compare(cpu.run(*example(cpu)), gpu.run(*example(gpu)))
    assert cpu.fingerprint == gpu.fingerprint


def test_a_changed_mask_is_the_same(both: tuple[Scope, Scope]) -> None:
    if not both[0].model.kinds or not both[0].model.can_edit_masks:
        pytest.skip("this model has no attention whose mask could change")
    edits = for_kinds(**{both[0].model.kinds[0].name: MaskChange(block=((2, 1), (3, 0)))})
    compare(*(scope.run(*example(scope), edits=edits) for scope in both))


@pytest.mark.parametrize(
    "method",
    [runs.Method(max_new=17), runs.Method("beam", width=3, max_new=17)],
    ids=lambda m: m.strategy,
)
def test_the_generated_text_is_the_same(both: tuple[Scope, Scope], method: runs.Method) -> None:
    if not both[0].model.can_write:
        pytest.skip("this model does not write")
    ours, theirs = (
        runs.autoregressive(scope.model, scope.input_ids(example(scope)[0]), method)
        for scope in both
    )
    assert ours.run.taken == theirs.run.taken
    torch.testing.assert_close(
        theirs.run.log_probs.cpu(), ours.run.log_probs, atol=LOGITS, rtol=1e-3
    )
    for name, rows in theirs.run.rows.items():
        torch.testing.assert_close(
            theirs.run.weights(name).cpu(), ours.run.weights(name), atol=WEIGHTS, rtol=1e-3
        )
        assert rows.weights(0).shape == ours.run.rows[name].weights(0).shape


def test_sampling_depends_on_its_seed_alone() -> None:
    scope = models.load("dates", device="cuda")
    method = runs.Method("sample", seed=7, temperature=2.0, max_new=9)
    first, again, other = (
        runs.autoregressive(scope.model, scope.input_ids("March 5, 2021"), m).run.taken
        for m in (method, method, replace(method, seed=8))
    )
    assert first == again != other


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hub")
    for name in NAMES:
        BY_NAME[name].save(root / name)
    return root


@pytest.mark.parametrize("name", NAMES)
def test_a_hugging_face_model_gives_the_same(folders: Path, name: str) -> None:
    cpu, gpu = (models.load(folders / name, device=device) for device in ("cpu", "cuda"))
    needed = [field for field in cpu.model.text_fields if not field.optional]
    texts = [IDS, "21 23 29"][: max(len(needed), len(cpu.model.streams))]
    compare(cpu.run(*texts), gpu.run(*texts))
    asked = gpu.run(*texts).streams
    with torch.no_grad():
        plain = gpu.model(*gpu.model.inputs([asked]))
        with models.record() as recording:
            recorded = gpu.model(*gpu.model.inputs([asked]))
    assert recording.attention
    pairs = (
        [(plain, recorded)]
        if isinstance(plain, Tensor)
        else [(plain[key], recorded[key]) for key in plain]
    )
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_greedy_text_equals_that_of_generate(folders: Path, name: str, dtype: str) -> None:
    scope = models.load(folders / name, device="cuda", dtype=dtype)
    given = scope.input_ids(IDS)
    written = runs.autoregressive(scope.model, given, runs.Method(max_new=13)).run
    with torch.no_grad():
        row = scope.model.module.generate(
            torch.tensor([given], device="cuda"),
            do_sample=False,
            num_beams=1,
            max_new_tokens=13,
            pad_token_id=scope.config.fill_id,
        )[0].tolist()
    assert list(written.taken) == row[len(given) if scope.model.writes == "text" else 1 :][:13]
    for site in scope.run(IDS, "21 23 29").attention.values():
        assert [check for check in check_site(site) if not check.passed] == [], site.name


def test_a_users_module_stays_on_its_device() -> None:
    layer = nn.TransformerEncoderLayer(22, 2, 31, batch_first=True)
    net = nn.Sequential(
        nn.Embedding(128, 22), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    ).eval()
    cpu, gpu = (
        models.watch(copy.deepcopy(net).to(device), encode=lambda text: list(text.encode("ascii")))
        for device in ("cpu", "cuda")
    )
    compare(cpu.run("a small dog"), gpu.run("a small dog"))


def test_threads_do_not_mix(folders: Path) -> None:
    scopes = [
        models.load(folders / name, device="cuda")
        for name in ("GPT2LMHeadModel", "LlamaForCausalLM")
    ]
    texts = [" ".join(IDS.split()[:n]) for n in (3, 5, 7, 11)]
    asked = [(scope, text) for scope in scopes for text in texts] * 8

    def weights(pair: tuple[Scope, str]) -> Tensor:
        return torch.cat(
            [site.weights().flatten() for site in pair[0].run(pair[1]).attention.values()]
        )

    alone = [weights(pair) for pair in asked[:8]]
    with ThreadPoolExecutor(32) as pool:
        for i, found in enumerate(pool.map(weights, asked)):
            torch.testing.assert_close(found, alone[i % 8], atol=1e-6, rtol=0)


def test_training_resumes_where_it_stopped(tmp_path: Path) -> None:
    """A run in two parts equals the run in one, as far as sums on a GPU are reproducible, and its checkpoint opens on both devices."""
    settings = {"steps": 60, "warmup": 10, "save_every": 10, "device": "cuda", "dropout": 0.1}
    whole = [r.loss for r in reversal_trainer(tmp_path / "whole", **settings).train()]
    assert sum(whole[-10:]) < 0.9 * sum(whole[:10])
    losses = []
    for record in reversal_trainer(tmp_path / "parts", **settings).train():
        losses.append(record.loss)
        if record.step == 30:
            break
    second = reversal_trainer(tmp_path / "parts", **settings)
    assert second.resume() == 30
    losses += [r.loss for r in second.train()]
    assert losses == pytest.approx(whole, rel=0.02)
    whole_state, parts_state = (
        torch.load(tmp_path / run / STATE, weights_only=True) for run in ("whole", "parts")
    )
    assert whole_state.keys() == parts_state.keys()
    cpu, gpu = (models.load(tmp_path / "parts", device=device) for device in ("cpu", "cuda"))
    compare(cpu.run("abc"), gpu.run("abc"))


def test_bfloat16_learns_as_float32_does(tmp_path: Path) -> None:
    """Its loss curve is no further from that of float32 than the curves of other seeds."""

    def curve(seed: int, precise: bool) -> Tensor:
        settings = {"steps": 300, "warmup": 50, "save_every": 1000, "device": "cuda"}
        trainer = reversal_trainer(tmp_path / f"{seed}{precise}", seed=seed, **settings)
        if precise:
            trainer._losses = lambda model, batch, smoothing: trainer.task.objective(
                model(*batch.inputs), batch, smoothing
            )
        return torch.tensor([record.loss for record in trainer.train()]).view(6, 50).mean(1)

    exact = [curve(seed, precise=True) for seed in (1, 2, 3)]
    noise = max(float((a - b).abs().max()) for a in exact for b in exact)
    assert float((curve(1, precise=False) - exact[0]).abs().max()) <= noise
    assert exact[0][-1] < 0.7 * exact[0][0]


@pytest.mark.parametrize("large", [compiled_layers.LARGE, 0], ids=["fused", "small tiles"])
def test_compiled_layers_learn_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    """A step with compiled layers and loss has the loss of the uncompiled step."""
    torch._dynamo.reset()
    monkeypatch.setattr(compiled_layers, "LARGE", large)
    settings = {"steps": 12, "warmup": 10, "save_every": 1000, "device": "cuda", "d_model": 48}
    written, compiled = (reversal_trainer(tmp_path / name, **settings) for name in "ab")
    compiled.compile()
    losses = [[record.loss for record in trainer.train()] for trainer in (written, compiled)]
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
    text = compiled.task.tokenizer.encode("abc")
    with models.record() as recording, torch.no_grad():
        compiled.model.eval()(*(torch.tensor([text.ids], device="cuda"),) * 2)
    assert len(recording.attention) == 3  # recorded from the uncompiled code, compiled or not
