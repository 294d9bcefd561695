"""The forward pass of an encoder-decoder and of a GPT in numpy, one head and one row at a time, with edits made by hand.

The only parts of the product it uses are the parameters, the values of the edits and the position vectors.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from models.trace.edits import Edit, HeadOff, HeadScale, Patch, SetWeights, ZeroValue


class ByHand:
    """A forward pass by hand: `head_out[site]` (head, query, d_head), `weights[site]`, `values[name]` (token, d_model)."""

    def __init__(
        self,
        model,
        ids: Sequence[Sequence[int]],
        edits: Sequence[Edit] = (),
        may: Callable[[str, int, int], bool] | None = None,
    ) -> None:
        """`may` maps an attention's path to a function of (query, key) that replaces the model's mask."""
        self.may = may
        self.p = {name: p.detach().double().numpy() for name, p in model.state_dict().items()}
        self.model, self.config, self.edits = model, model.config, edits
        self.head_out, self.weights, self.values = {}, {}, {}
        if model.streams == ("text",):
            x = self.embed(ids[0], "decoder", 1.0)
            for layer in range(self.config.n_layers):
                x = self.layer(f"decoder.layers.{layer}", x, True, None)
            x = self.last_norm(x, "decoder")
            self.logits = x @ self.p["embedding.weight"].T
            return
        factor = math.sqrt(self.config.d_model)
        memory, x = self.embed(ids[0], "encoder", factor), self.embed(ids[1], "decoder", factor)
        for layer in range(self.config.n_encoder_layers):
            memory = self.layer(f"encoder.layers.{layer}", memory, False, None)
        memory = self.last_norm(memory, "encoder")
        for layer in range(self.config.n_decoder_layers):
            x = self.layer(f"decoder.layers.{layer}", x, True, memory)
        x = self.last_norm(x, "decoder")
        self.logits = x @ self.p["embedding.weight"].T

    def embed(self, ids: Sequence[int], stack: str, factor: float) -> np.ndarray:
        x = self.named(f"{stack}.embedding", self.p["embedding.weight"][list(ids)] * factor)
        return x + self.model.positions(len(ids), 0).detach().double().numpy()

    def named(self, name: str, value: np.ndarray) -> np.ndarray:
        for edit in self.edits:
            if (
                isinstance(edit, Patch)
                and edit.of == "activation"
                and edit.where.activation == name
            ):
                value = value.copy()
                for i in range(len(value)) if edit.where.queries is None else edit.where.queries:
                    value[i] = edit.material[name].vectors[i].numpy()
        self.values[name] = value
        return value

    def layer(
        self, path: str, x: np.ndarray, causal: bool, memory: np.ndarray | None
    ) -> np.ndarray:
        pre = self.config.norm == "pre"
        x = self.named(f"{path}.resid_pre", x)
        parts = [("self_attn", "add_norm_1", "resid_mid")]
        if memory is not None:
            parts.append(("cross_attn", "add_norm_2", "resid_mid_cross"))
        for attn, add_norm, after in parts:
            norm = f"{path}.{add_norm}.layer_norm"
            read = self.norm(x, norm) if pre else x
            other = memory if attn == "cross_attn" else read
            out = self.attention(f"{path}.{attn}", read, other, causal and attn == "self_attn")
            x = x + out if pre else self.norm(x + out, norm)
            x = self.named(f"{path}.{after}", x)
        norm = f"{path}.add_norm_{len(parts) + 1}.layer_norm"
        read = self.norm(x, norm) if pre else x
        post = self.linear(read, f"{path}.ff.W_1")
        if memory is None and self.model.streams == ("text",):
            erf = np.vectorize(math.erf)
            post = post * 0.5 * (1 + erf(post / math.sqrt(2)))
        else:
            post = np.maximum(post, 0)
        out = self.named(f"{path}.ff.ff_out", self.linear(post, f"{path}.ff.W_2"))
        x = x + out if pre else self.norm(x + out, norm)
        return self.named(f"{path}.resid_post", x)

    def attention(self, path: str, x: np.ndarray, memory: np.ndarray, causal: bool) -> np.ndarray:
        n_heads, n_key = self.config.n_heads, len(memory)
        q, k, v = (
            self.linear(t, f"{path}.W_{name}").reshape(len(t), n_heads, -1)
            for name, t in (("Q", x), ("K", memory), ("V", memory))
        )
        outs, rows = np.zeros_like(q), np.zeros((n_heads, len(x), n_key))
        for head in range(n_heads):
            for i in range(len(x)):
                keys = range(i + 1) if causal else range(n_key)
                if self.may is not None:
                    keys = [j for j in range(n_key) if self.may(path, i, j)]
                e = np.array(
                    [math.exp(q[i, head] @ k[j, head] / math.sqrt(q.shape[2])) for j in keys]
                )
                w = np.zeros(n_key)
                w[list(keys)] = e / e.sum()
                mine = [edit for edit in self.edits if self.applies(edit, path, head, i)]
                for edit in mine:
                    w = self.edited_row(edit, w, path, head, i, list(keys))
                rows[head, i], factors = w, w.copy()
                for edit in mine:
                    if isinstance(edit, ZeroValue) and edit.token < n_key:
                        factors[edit.token] = 0
                out = sum(factors[j] * v[j, head] for j in range(n_key))
                for edit in mine:
                    if isinstance(edit, HeadScale):
                        out = out * edit.factor
                    elif isinstance(edit, HeadOff) and edit.baseline == "zero":
                        out = out * 0
                    elif edit.changes("head_out"):
                        out = edit.material[path].vectors[head, i].double().numpy()
                outs[i, head] = out
        self.head_out[path], self.weights[path] = outs.transpose(1, 0, 2), rows
        return self.linear(outs.reshape(len(x), -1), f"{path}.W_O")

    @staticmethod
    def applies(edit: Edit, path: str, head: int, query: int) -> bool:
        where = edit.where
        stack = path.split(".")[0]
        kinds = (None, "cross") if "cross" in path else (None, "self", f"{stack}_self")
        return (
            where.activation is None
            and where.site in (None, path)
            and where.kind in kinds
            and (where.layers is None or int(path.split(".")[2]) in where.layers)
            and (where.heads is None or head in where.heads)
            and (where.queries is None or query in where.queries)
        )

    @staticmethod
    def edited_row(
        edit: Edit, w: np.ndarray, path: str, head: int, i: int, keys: list[int]
    ) -> np.ndarray:
        new = np.zeros_like(w)
        if isinstance(edit, HeadOff) and edit.baseline == "uniform":
            new[keys] = 1 / len(keys)
        elif isinstance(edit, HeadOff) and edit.baseline == "offset":
            new[min(max(i + edit.offset, 0), keys[-1])] = 1
        elif isinstance(edit, Patch) and edit.of == "attention row":
            new[keys] = edit.material[path].vectors[head, i].double().numpy()[keys]
            new /= new.sum()
        elif isinstance(edit, SetWeights):
            set_here = {key: weight for key, weight in edit.cells if key in keys}
            rest = sum(w[j] for j in keys if j not in set_here)
            for j in keys:
                new[j] = set_here.get(j, w[j] * (1 - sum(set_here.values())) / rest if rest else 0)
            if not new.sum():
                return w
            new /= new.sum()
        else:
            return w
        return new

    def linear(self, x: np.ndarray, path: str) -> np.ndarray:
        return x @ self.p[f"{path}.weight"].T + self.p[f"{path}.bias"]

    def last_norm(self, x: np.ndarray, stack: str) -> np.ndarray:
        return self.norm(x, f"{stack}.last_norm") if self.config.norm == "pre" else x

    def norm(self, x: np.ndarray, path: str) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return scaled * self.p[f"{path}.weight"] + self.p[f"{path}.bias"]
