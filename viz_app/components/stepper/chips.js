// A row of tokens coloured by their weight, with the numbers below.
class Chips {
  constructor(parent, side) {
    this.title = put(parent, "div", "what");
    this.row = put(parent, "div", "chips");
    this.row.dataset.side = side;
    this.chips = [];
  }

  hide(hidden) {
    this.title.hidden = hidden;
    this.row.hidden = hidden;
  }

  // weights[i] for the tokens that may be read; from `open` on they are masked, from `known` on not there yet.
  show(title, labels, weights, theme, { open = labels.length, known = labels.length } = {}) {
    const [what, ...whose] = title.split(" ("); // where there is little space, the rest is shown on hover
    this.title.replaceChildren(what);
    if (whose.length) put(this.title, "span", "whose", ` (${whose.join(" (")}`);
    this.title.title = title;
    this.row.classList.toggle("many", labels.length > 36);
    while (this.chips.length > labels.length) this.chips.pop().remove();
    while (this.chips.length < labels.length) {
      const chip = put(this.row, "span", "chip-token");
      put(chip, "b");
      put(chip, "small");
      this.chips.push(chip);
    }
    labels.forEach((label, i) => this.paint(this.chips[i], label, weights[i], i >= known ? "unknown" : i >= open ? "masked" : "open", theme));
  }

  paint(chip, label, weight, state, theme) {
    const [name, value] = chip.children, code = state === "open" ? weightCode(weight) : 0;
    chip.dataset.state = state;
    chip.dataset.weight = state === "open" ? exact(weight) : "";
    name.textContent = state === "unknown" ? " " : shorten(label[0], 14);
    name.classList.toggle("quiet", Boolean(label[2]) && code < 90);
    value.textContent = state === "open" ? weight.toFixed(2) : " ";
    chip.style.background = code ? css(theme.ramp[code]) : "";
    chip.style.color = code ? theme.on(code) : "";
    chip.title = {
      open: `${label[0]}: weight ${exact(weight)}${label[1] ? ` (${label[1]})` : ""}`,
      masked: `${label[0]}: masked (look-ahead): no attending to later positions`,
      unknown: "not written yet",
    }[state];
  }
}
