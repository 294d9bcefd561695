// One head before and after the change, and the difference; and the log-probability of each given token.
class Effect {
  constructor(section, on) {
    this.heading = section.querySelector(".title");
    this.place = section.querySelector(".panels");
    this.chip = section.querySelector(".chip");
    this.legend = section.querySelector(".legend");
    const choices = section.querySelector(".switch");
    this.panels = [["before", "Before: the model's own masks"], ["after", "After: with your changes"], [
      "difference",
      "Difference: after − before",
    ]]
      .map(([name, caption]) => {
        const button = put(choices, "button", name, caption.split(":")[0]);
        Object.assign(button, { type: "button", onclick: () => this.choose(name) });
        const panel = put(this.place, "figure", `panel ${name}`);
        put(panel, "figcaption", "", caption);
        return {
          name,
          caption,
          button,
          board: new Board(panel, "small", { hover: (spot, event) => on.hover(spot, event), down: (spot) => on.enlarge(spot) }),
        };
      });
    this.worth = Object.assign(put(choices, "button", "worth", "Tokens"), { type: "button", onclick: () => this.choose("tokens") });
    const panel = put(this.place, "figure", "panel tokens");
    this.caption = put(panel, "figcaption");
    this.table = put(put(put(panel, "div", "scroll"), "table"), "tbody");
    offerCanvas(section.querySelector(".files"), () => this.save(), () => [section, { ...this.effect, file: `${this.effect.file}.masks` }]);
  }

  // The picture shown where there is no space for all of them.
  choose(name) {
    this.place.dataset.shown = name;
    this.press();
    this.draw();
  }

  press() {
    for (const { name, button } of [...this.panels, { name: "tokens", button: this.worth }]) {
      button.setAttribute("aria-pressed", name === this.place.dataset.shown);
    }
  }

  // The file has all three pictures side by side, even if the page has space for fewer.
  save() {
    this.place.classList.add("together");
    try {
      sharply(() => this.draw(), () => this.download());
    } finally {
      this.place.classList.remove("together");
      this.draw();
    }
  }

  show(effect, arrays, theme) {
    Object.assign(this, { effect, arrays, theme });
    this.heading.textContent = this.heading.title = effect.title;
    this.chip.style.background = headColour(effect.head);
    const { block, labels, largest } = effect,
      blocks = block > 1
        ? `Each cell is the largest of ${block} × ${block}; in the difference, the one furthest from 0. The other ${
          block * block - 1
        } are hidden. Click to show each. `
        : "";
    const bar = labels.length ? ` A full bar is −${largest.toFixed(1)} nats.` : "";
    this.legend.textContent =
      `${blocks}Weights: 0 (blank) to 1 (full colour). Difference: −${effect.scale} (orange) to +${effect.scale} (blue). Hatched: blocked.${bar}`;
    this.press();
    this.draw();
    this.tokens();
  }

  draw() {
    const { effect, arrays, theme } = this;
    const { queries, keys, block, queryAxis, keyAxis, scale } = effect, rows = queries.length, cols = keys.length;
    const plain = Uint32Array.from(theme.ramp, pack32), signed = signedRamp(theme);
    for (const { name, board } of this.panels) {
      if (!board.stage.clientWidth) continue; // hidden by the switch
      const values = arrays[name], differs = name === "difference";
      const blocked = (
        i,
      ) => (name === "before"
        ? arrays.blockedBefore[i]
        : name === "after"
        ? arrays.blockedAfter[i]
        : arrays.blockedBefore[i] && arrays.blockedAfter[i]);
      const codes = Uint8Array.from(values, (v, i) => (blocked(i) ? 0 : differs ? 1 + signedCode(v, scale) : weightCode(v)));
      const packed = differs ? Uint32Array.from([0, ...signed.packed]) : plain;
      board.show({
        name: `${effect.title}, ${name}`,
        value: (q, k) => (codes[q * cols + k] ? values[q * cols + k] : "blocked"),
        codes,
        packed,
        rows,
        cols,
        queries,
        keys,
        block,
        queryAxis,
        keyAxis,
        text: (i) => (codes[i] && Math.abs(values[i]) >= 0.005 ? brief(values[i]).replace(/^(−?)0\./, "$1.") : ""),
        ink: (i) => (differs ? signed.inks[codes[i] - 1] : theme.on(codes[i])),
      }, theme);
    }
  }

  mark(spot) {
    for (const { board } of this.panels) board.mark(spot);
  }

  // A row for each token: two numbers, and two bars that show how surprised the model is, on one scale.
  tokens() {
    const { given, labels, sums, largest } = this.effect, { logBefore, logAfter } = this.arrays;
    this.caption.textContent = `${given} log-probability, nats`;
    this.table.replaceChildren();
    this.caption.hidden = this.table.hidden = !labels.length; // a model that does not write says nothing of its text
    if (!labels.length) return;
    const head = put(this.table, "tr", "head");
    for (const name of ["token", "before", "after"]) put(head, "th", "", name);
    put(head, "td");
    const row = (label, before, after, className) => {
      const line = put(this.table, "tr", className);
      put(line, "td", "token", label);
      put(line, "td", "before", nats(before));
      put(line, "td", "after", nats(after));
      return put(line, "td", "bars");
    };
    row("sum", ...sums, "sum");
    labels.forEach((label, i) => {
      const bars = row(label[0], logBefore[i], logAfter[i], label[2] ? "special" : "");
      bars.parentElement.firstChild.title = label[1];
      for (const [name, value] of [["before", logBefore[i]], ["after", logAfter[i]]]) {
        put(bars, "div", `bar ${name}`).style.width = `${(100 * -value) / largest}%`;
      }
    });
  }

  // The three pictures beside each other as one PNG.
  download() {
    const { theme, effect, panels } = this;
    const whole = besideEachOther(panels.map(({ board }) => board.cells), panels.map(({ caption }) => caption), theme);
    const keys = [weightKey(theme, "weight, before and after; hatched = masked"), signedKey(theme, "difference of the weights", effect.scale)];
    saveCanvas(whole, effect.title, { ...effect, file: `${effect.file}.masks` }, theme, keys);
  }
}

const nats = (value) => (Math.abs(value) < 0.0005 ? "0.000" : value.toFixed(Math.abs(value) < 1 ? 3 : 2).replace("-", "−"));
