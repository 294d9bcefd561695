// Tokens that a click hides and a second click shows again, and a panel for each [MASK]: what is expected there, and what it read.
class Guesses {
  constructor(root) {
    this.root = root;
    this.row = root.querySelector(".row");
    this.panels = [];
    offerPage(root, () => {
      const { picture, theme } = this,
        parts = picture.masks.flatMap(({ title }, i) => [this.panels[i].bars.part(title), this.panels[i].row.part()]);
      return [picture.title, picture, theme, parts];
    });
    useKeys(this.row, { ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1) });
  }

  // The keyboard to the next token that can be hidden; false if there is none.
  step(by) {
    const open = this.chips.filter((chip) => !chip.disabled), next = open[open.indexOf(this.row.getRootNode().activeElement) + by];
    if (!next) return false;
    next.focus();
  }

  show(picture, theme, send) {
    const { root } = this, names = JSON.stringify(picture.tokens), own = picture.states.flatMap((state, i) => (state === "hidden" ? [i] : []));
    if (names !== this.names || String(own) === String(this.pending)) this.pending = undefined; // another text, or it has come
    Object.assign(this, { picture, theme, names, send });
    this.hidden = new Set(this.pending ?? own);
    root.querySelector("h2").textContent = picture.title;
    root.querySelector(".said").textContent = picture.note;
    this.tokens(picture);
    this.masks(picture, theme);
    Object.assign(root.dataset, { masks: picture.masks.length, hidden: own.join(" ") });
    countPaint(root);
  }

  tokens({ tokens, states, segments }) {
    const breaks = segments.findIndex((segment) => segment > 0);
    if (this.breaks !== breaks) this.row.replaceChildren();
    this.breaks = breaks;
    const add = (row) => (row.children.length === breaks ? put(row, "span", "break") : chip(row));
    this.chips = children(this.row, tokens.length + (breaks > 0), add).filter((element) => element.tagName === "BUTTON");
    this.chips.forEach((button, i) => {
      button.disabled = states[i] === "fixed" || states[i] === "mask";
      button.className = `place${tokens[i][2] ? " special" : ""}${states[i] === "mask" ? " typed" : ""}`;
      button.dataset.position = i;
      button.onclick = () => this.toggle(i);
      this.mark(button, i);
    });
  }

  mark(button, i) {
    const { tokens, states } = this.picture, hidden = this.hidden.has(i), label = tokens[i];
    button.children[0].textContent = hidden ? this.picture.mask : shorten(label[0], 18);
    button.children[1].textContent = hidden ? shorten(label[0], 12) : "\u00a0";
    if (button.disabled) button.removeAttribute("aria-pressed");
    else button.setAttribute("aria-pressed", hidden);
    const how = {
      fixed: "",
      mask: "typed; take it out of the text to see a word there",
      open: "click to mask it",
      hidden: "hidden; click to show it again",
    };
    button.title = [label[0], how[hidden ? "hidden" : states[i] === "hidden" ? "open" : states[i]], label[1]].filter(Boolean).join(": ");
  }

  toggle(i) {
    this.hidden.has(i) ? this.hidden.delete(i) : this.hidden.add(i);
    this.mark(this.chips[i], i);
    this.pending = [...this.hidden].sort((a, b) => a - b);
    this.send({ hidden: this.pending });
  }

  masks({ masks, arrays }, theme) {
    const place = this.root.querySelector(".masks");
    while (this.panels.length > masks.length) this.panels.pop().section.remove();
    while (this.panels.length < masks.length) this.panels.push(panel(place));
    let from = 0;
    masks.forEach((mask, i) => {
      const { section, heading, fact, bars, rest, row } = this.panels[i];
      section.dataset.position = mask.position;
      heading.textContent = mask.title;
      fact.textContent = mask.fact;
      rest.textContent = mask.rest;
      bars.show(mask.rows.map(([id, label, mark], j) => ({ id, label, mark, p: arrays.p[from + j], rank: arrays.ranks[from + j] })));
      from += mask.rows.length;
      row.show(i < masks.length - 1 ? { ...mask.reading, note: "" } : mask.reading, arrays[`${i} weights`], arrays[`${i} allowed`], theme);
    });
  }
}

function chip(parent) {
  const button = put(parent, "button");
  button.type = "button";
  put(button, "b");
  put(button, "small");
  return button;
}

function panel(parent) {
  const section = put(parent, "section", "mask"), answer = put(section, "div", "answer"), reading = put(section, "div", "reading");
  const heading = put(answer, "h3"), fact = put(answer, "p", "fact"), bars = new Bars(answer, null);
  return { section, heading, fact, bars, rest: put(answer, "p", "rest quiet"), row: new ReadRow(reading) };
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".guesses");
  const view = (root.view ??= new Guesses(root));
  view.show(unpack(data), themeOf(root), (pick) => setTriggerValue("pick", pick));
}
