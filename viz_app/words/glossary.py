"""The field's terms and symbols in plain words, shown on hover (components/tools/glossary.js)."""

import re
from html import escape

GLOSSARY = {
    "token": "The unit of text that a model reads: a word, part of a word, or a character. “·” is a space.",
    "head": "One of several attentions that work side by side in a layer, each with its own weights.",
    "layer": "One of several parts of a model that are built alike. Each reads the output of the one before.",
    "query": "The vector of the token that attends: what it looks for.",
    "key": "The vector of a token that may be attended to: what it is found by.",
    "value": "The vector of a token that may be attended to: what it contributes.",
    "vector": "A row of numbers: here, what the model knows of a token.",
    "weight": "In a picture of attention: the share of one token in what another attends to. Of a model: one of the "
    "numbers set by training.",
    "position": "The number of a token in its text, counted from the start.",
    "score": (
        "How well a key fits a query, before softmax. Of a whole model: how well it does on texts not used in "
        "training."
    ),
    "softmax": "Turns any numbers into shares: none is negative, and together they add up to 1.",
    "mask": "Defines which tokens may attend to which.",
    "attention": "How a token collects from other tokens: it compares its query with their keys and mixes their values.",
    "alignment": "The attention of an RNN: which words of the source each written word comes from.",
    "entropy": "How undecided a distribution is: 0 if one choice has everything, highest if all are equally likely.",
    "nat": "The unit of information with natural logarithms: ln 2 = 0.69 nats are 1 bit.",
    "bit": "The unit of information: 1 bit decides between two equally likely things.",
    "surprisal": "How unexpected a token was: the negative logarithm of its probability.",
    "perplexity": "The number of equally likely tokens that a model is in effect choosing among.",
    "logit": "A number for each possible answer, such as each token of the vocabulary; softmax turns them into probabilities.",
    "residual stream": "The vector of a token on its way through the layers. Each part reads it and, with residual "
    "connections, adds to it.",
    "LayerNorm": (
        "Brings the numbers of a vector to mean 0 and spread 1. Then it multiplies and shifts each by "
        "learned numbers."
    ),
    "feed-forward": "The part of a layer that works on each token alone: two matrices with an activation between "
    "them.",
    "embedding": "The vector that a token enters the model with.",
    "bias": "Learned numbers that are added after a matrix product.",
    "cosine": "How far two vectors point the same way: 1 the same, 0 at a right angle, −1 opposite.",
    "teacher forcing": "The model reads the correct text at every step, not its own output.",
    "greedy": "Always takes the most probable token.",
    "beam": "The best few beginnings of a text that a search keeps at each step.",
    "BLEU": "A score for translations: how many word sequences they share with human ones, from 0 to 100.",
}
# symbol → its meaning, for symbols that also occur in running text
SYMBOLS = {
    "q": "the query vector of the token that attends",
    "k": "the key vector of a token that may be attended to (as a number: how many)",
    "v": (
        "the value vector of a token that may be attended to. In an additive similarity, the vector that turns a "
        "hidden layer into a score"
    ),
    "Q": "all queries, one row for each token",
    "K": "all keys, one row for each token",
    "V": "all values, one row for each token",
    "d_k": "how many numbers a query and a key have",
    "d_model": "how many numbers the vector of a token has between the layers",
    "√": "square root; dividing q·k by √d_k keeps it from growing with the length of the vectors",
    "W_Q": "the matrix that makes queries out of token vectors",
    "W_K": "the matrix that makes keys out of token vectors",
    "W_V": "the matrix that makes values out of token vectors",
    "W_O": "the matrix that turns the output of all heads into the output of the attention",
    "W_R": "the matrix that is applied to the vector of a distance",
    "α": (
        "a score in the walk of a Transformer. In an RNN's alignment it is a weight, in a beam search the weight of "
        "length"
    ),
    "α̂": "a weight: the share that softmax makes of a score",
    "λ": "the weight of the language model's loss beside that of the classes",
    "h(j)": "the encoder's state at token j of the source",
    "h(m)": "the encoder's last state, or the last one of each direction",
    "s(i)": "the decoder's state after step i",
    "s(i−1)": "the decoder's state before step i",
    "s(0)": "the decoder's state before its first step",
    "c(i)": "the context of step i: the encoder's states, mixed by the weights of that step",
    "y(i−1)": "the token written at the step before",
    "PE": "position encoding: the vector of a position",
    "·": "product: of two numbers, of two vectors (number by number, then summed) or of matrices",
    "∘": "product number by number, not yet summed",
    "Σ": "the sum over everything named below it",
    "π": "half the circumference of a circle of radius 1, 3.14…; a full turn is 2π",
    "‖": "length of the vector between the bars: the root of the sum of its squares",
    "−∞": "minus infinity: after softmax, exactly 0",
    "∂": "derivative: how much one thing changes with a small change of another",
    "L1": "the loss of the language model: of every token, given those before it",
    "L2": "the loss of the classes",
    "L3": "what training minimises: both losses together",
}
# symbols that are explained only inside a formula
LETTER_MEANINGS = {
    "i": "the position of the token that attends",
    "j": "the position of a token that may be attended to",
    "a": "the vector of a token as it arrives at this attention",
    "b": "what a head outputs for a token; as b^Q, b^K, b^V, b^O: a bias",
    "c": "the context: the encoder's states, mixed by the weights of a step",
    "s": "a state of the decoder",
    "h": "a state of the encoder; with Σ or Concat: a head",
    "e": "the energy: how well a state of the encoder fits the decoder's, before softmax",
    "t": "a learned number by which the cosine is multiplied",
    "x": "the vector of a token",
    "p": "the vector of a position, or a probability",
    "d": "how many numbers a vector has; below a Σ: the numbers one by one",
    "n": "how many tokens there are",
    "M": "a learned matrix; or the mask, 0 or −∞ in each cell; or the vectors attended to",
    "W": "a learned matrix",
    "U": "a learned matrix",
    "A": "all scores: a row for each query token",
    "Â": "all weights: a row for each query token",
    "B": "what the head outputs, a row for each query token",
    "X": "the vectors of all tokens",
    "I": "the vectors of all tokens, as columns; in [I; I] a unit matrix",
    "S": "the decoder's states before each step",
    "H": "the states of the encoder; of a distribution, its entropy",
    "E": "all energies",
    "C": "the contexts of all steps",
    "r": "the vector of a distance",
    "y": "what comes out, or the token that was written",
    "T": "transposed: rows become columns",
    "R": "the real numbers; R^d: vectors of d numbers",
    "pos": "the position of a token, from 0",
    "exp": "e to the power of",
    "tanh": "bends any number into −1 … 1",
    "Concat": "one vector written after the other",
    "ln": "natural logarithm",
}
_WORD = re.compile(rf"\b({'|'.join(sorted(GLOSSARY, key=len, reverse=True))})s?\b")


def annotate(*texts: str) -> list[str]:
    """Return each text as HTML, the first occurrence of every GLOSSARY word marked.

    A word counts as seen once it occurs in any of the texts.
    """
    names: set[str] = set()

    def mark(match: re.Match) -> str:
        name = match[1]
        if name in names:
            return match[0]
        names.add(name)
        return f"<abbr>{match[0]}</abbr>"

    return [_WORD.sub(mark, escape(text)) for text in texts]


def glossary_html() -> str:
    """Return all explanations as a hidden HTML definition list, from which tooltips are filled."""
    items = [
        f'<dt class="{kind}">{escape(name)}</dt><dd>{escape(text)}</dd>'
        for kind, explanations in (
            ("word", GLOSSARY),
            ("symbol", SYMBOLS),
            ("letter", LETTER_MEANINGS),
        )
        for name, text in explanations.items()
    ]
    return f'<dl class="glossary" hidden>{"".join(items)}</dl>'
