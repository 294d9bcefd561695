r"""The formulas in the app's texts as MathML, which browsers draw without a script.

It knows the part of TeX that those texts use: groups, _ and ^, \frac, \sqrt, \mathbf, \text,
arrows and hats over letters, named functions and symbols. An unknown command is shown by its
name. Everything is escaped, which latex2mathml does not do in \text.
"""

import re
from html import escape

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[0-9]+(?:\.[0-9]+)?|\S| +", re.DOTALL)
_SYMBOLS = {
    "cdot": "·", "times": "×", "infty": "∞", "sum": "∑", "dots": "…", "ldots": "…", "le": "≤", "ge": "≥", "approx": "≈",
    "to": "→", "in": "∈", "pm": "±", "neq": "≠", "odot": "⊙", "top": "⊤", "lambda": "λ", "alpha": "α", "beta": "β", "theta": "θ",
    "pi": "π", "sigma": "σ", "mu": "μ", "omega": "ω", "varepsilon": "ε", "epsilon": "ε", "Delta": "Δ", "lfloor": "⌊", "rfloor": "⌋",
    "lVert": "‖", "rVert": "‖", "mid": "|", "prime": "′", "max": "max", "min": "min",
}  # fmt: skip
_SIGNS = {"-": "−", "'": "′"}
_OVER = {"overleftarrow": "←", "overrightarrow": "→", "hat": "^", "bar": "¯", "tilde": "~"}
_SPACES = {"\\;", "\\,", "\\:", "\\!", "\\ ", "\\quad"}
_TEXTS = {"\\text", "\\mathrm", "\\operatorname"}


def mathml(tex: str, is_displayed: bool = False) -> str:
    """Return a formula as a MathML element."""
    tokens = [token for token in _TOKEN.findall(tex)]
    inner = _row(tokens)
    display = ' display="block"' if is_displayed else ""
    return f"<math{display}>{inner}</math>"


def _row(tokens: list[str], end: str = "") -> str:
    """Consume the tokens up to `end`; return their elements, with sub- and superscripts."""
    parts: list[str] = []
    while tokens and tokens[0] != end:
        token = tokens.pop(0)
        if token in ("_", "^"):
            parts.append(_scripted(token, parts.pop() if parts else "<mrow></mrow>", tokens))
        elif part := _element(token, tokens):
            parts.append(part)
    if tokens:
        tokens.pop(0)
    return f"<mrow>{''.join(parts)}</mrow>"


def _scripted(mark: str, base: str, tokens: list[str]) -> str:
    first = _argument(tokens)
    if tokens and tokens[0] in ("_", "^") and tokens[0] != mark:
        tokens.pop(0)
        second = _argument(tokens)
        below, above = (first, second) if mark == "_" else (second, first)
        return f"<msubsup>{base}{below}{above}</msubsup>"
    name = "msub" if mark == "_" else "msup"
    return f"<{name}>{base}{first}</{name}>"


def _argument(tokens: list[str]) -> str:
    while tokens and tokens[0].isspace():
        tokens.pop(0)
    if not tokens:
        return "<mrow></mrow>"
    token = tokens.pop(0)
    return _row(tokens, "}") if token == "{" else _element(token, tokens) or "<mrow></mrow>"


def _element(token: str, tokens: list[str]) -> str:
    """Return the element of a token and of the arguments that it consumes; "" for none."""
    if token.isspace() or token in ("\\left", "\\right"):
        return ""
    if token == "{":
        return _row(tokens, "}")
    if token in _SPACES:
        return '<mspace width="0.25em"/>'
    if token in _TEXTS:
        return f"<mtext>{escape(_raw(tokens))}</mtext>"
    if token == "\\frac":
        return f"<mfrac>{_argument(tokens)}{_argument(tokens)}</mfrac>"
    if token == "\\mathbf":
        return f'<mrow class="bold">{_argument(tokens)}</mrow>'
    if token == "\\sqrt":
        return f"<msqrt>{_argument(tokens)}</msqrt>"
    name = token[1:] if token.startswith("\\") and len(token) > 1 else token
    if name in _OVER and name != token:
        return f"<mover>{_argument(tokens)}<mo>{_OVER[name]}</mo></mover>"
    if name != token:
        symbol = _SYMBOLS.get(name, name)
        kind = "mi" if symbol.isalpha() else "mo"
        return f"<{kind}>{escape(symbol)}</{kind}>"
    kind = "mn" if token[0].isdigit() else "mi" if token.isalpha() else "mo"
    return f"<{kind}>{escape(_SIGNS.get(token, token))}</{kind}>"


def _raw(tokens: list[str]) -> str:
    """Return the text of a group as it is written."""
    if not tokens or tokens[0] != "{":
        return tokens.pop(0) if tokens else ""
    end = tokens.index("}") if "}" in tokens else len(tokens)
    text = "".join(tokens[1:end])
    del tokens[: end + 1]
    return text
