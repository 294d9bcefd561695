// One run at one step: what it has read, what it expects next, its entropy, and where its attention goes.
class Panel {
  constructor(section, lane, force) {
    Object.assign(this, { section, lane, lead: section.querySelector(".lead") });
    this.expects = section.querySelector("h2 .what");
    this.bars = new Bars(section, force);
    const entropy = put(section, "div", "entropy");
    this.entropy = { text: put(entropy, "span"), bar: put(put(entropy, "span", "track"), "i"), most: put(entropy, "span", "quiet") };
    section.append(this.lead); // below the part it explains, so that the bars start as high as possible
    this.parts = put(section, "div", "parts");
  }

  // Rows of tokens where there is attention, strips where there are states; built again for a model of another kind.
  buildParts({ cross, own, vectors }) {
    const kind = JSON.stringify([cross, own, vectors.map(({ name }) => name)]);
    if (kind === this.kind) return;
    this.kind = kind;
    this.parts.replaceChildren();
    this.cross = cross ? new Chips(this.parts, "cross") : undefined;
    this.self = own ? new Chips(this.parts, "self") : undefined;
    this.strips = vectors.map(({ name }) => new VectorStrip(this.parts, name));
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme, run: picture[this.lane] });
    const { arrays } = picture, part = (name) => arrays[`${this.lane}_${name}`];
    this.buildParts(picture);
    this.wording = WORDING[picture.family];
    this.vectors = picture.vectors.map(({ name }) => part(name));
    this.values = { ids: part("ids"), p: part("p"), rank: part("rank"), entropy: part("entropy"), cross: part("cross"), self: part("self") };
    this.k = this.values.p.length / this.run.n;
  }

  // A position this run does not have (the other is longer) keeps the last one, faded.
  at(step) {
    const i = Math.min(step, this.run.n - 1), over = step >= this.run.n;
    this.section.style.opacity = over ? 0.45 : 1;
    Object.assign(this.section.dataset, { position: i + 1, over, entropy: exact(this.values.entropy[i]) });
    this.say(i, over);
    this.bars.show(this.rows(i, over));
    if (over) this.expects.textContent = this.lead.textContent;
    this.showEntropy(i);
    this.attend(i);
  }

  say(i, over) {
    const { lead, run, lane, picture } = this;
    lead.replaceChildren();
    const say = (text, className) => put(lead, "span", className, text);
    if (over) {
      const end = lane === "parallel"
        ? "The given text ends before this position."
        : run.ended
        ? "This run has already ended."
        : "This run was stopped at its limit of steps.";
      return void say(`${end} Its last position, ${i + 1}:`);
    }
    const { here: [place, of, masked], alone, ahead } = this.wording, hidden = picture.own ? masked : (alone ?? masked);
    const rest = picture.seesAhead ? ahead : hidden;
    say(lane === "parallel" ? place : "Pass ");
    say(lane === "parallel" ? String(i + 1) : `${i + 1} of ${run.n}`, "count");
    say(lane === "parallel" ? of(run.n) : ". So far it reads: ");
    const all = [...picture.prompt, ...run.read], end = picture.prompt.length + i + 1, from = Math.max(0, end - 12);
    if (from) say("… ");
    all.slice(from, end).forEach((label) => (say(label[0], "token"), say(" ")));
    if (lane === "parallel" && i + 1 < picture.parallel.n) say(rest, "quiet");
    return undefined;
  }

  rows(i, over) {
    const { values, run, k, lane, picture } = this, drawn = lane === "serial" ? picture.arrays.drawn_p : undefined;
    this.expects.textContent = lane === "parallel"
      ? "What the model predicts next, and what is given:"
      : picture.sampling
      ? "Predicted next (orange: drawn from). Click another to force it:"
      : "What the model predicts next. Click another token to force it:";
    return Array.from({ length: k }, (_, n) => {
      const id = values.ids[i * k + n], here = id === run.taken[i];
      const forced = lane === "serial" && picture.forced.includes(i);
      const mark = !here ? "" : lane === "parallel" ? "given" : forced ? "forced" : "written";
      const fixed = over || picture.unforceable.includes(id) || (here && !forced);
      return { id, label: run.candidates[i][n], p: values.p[i * k + n], drawn: drawn?.[i * k + n], mark, rank: values.rank[i], fixed };
    });
  }

  showEntropy(i) {
    const value = this.values.entropy[i], { mostEntropy, vocab } = this.picture;
    this.entropy.text.textContent = `Entropy ${value.toFixed(3)} bits`;
    this.entropy.bar.style.width = `${(100 * value) / mostEntropy}%`;
    this.entropy.text.parentElement.title = `The largest possible entropy is log₂ ${vocab.toLocaleString("en")} = ${
      mostEntropy.toFixed(2)
    } bits.`;
    this.entropy.most.textContent = `of at most ${mostEntropy.toFixed(2)}`;
  }

  attend(i) {
    const { picture, run, values, theme } = this;
    const row = (array) => array.subarray((i * array.length) / run.n, ((i + 1) * array.length) / run.n);
    const largest = picture.block > 1 ? `; the largest weight of each ${picture.block} tokens, the others are hidden` : "";
    this.cross?.show(
      `${picture.cross} to ${picture.sourceName} (${picture.reading}${largest})`,
      picture.source,
      row(values.cross),
      theme,
    );
    picture.vectors.forEach(({ title, scale }, n) => this.strips[n].show(title, row(this.vectors[n]), scale, theme));
    const n = Math.ceil((picture.prompt.length + i + 1) / picture.block), given = picture.seesAhead ? {} : { open: n };
    const open = this.lane === "parallel" ? given : { known: n };
    const what = this.lane === "parallel" ? "the given text" : "its own text";
    this.self?.show(
      `Self-attention to ${what} (${picture.reading}${largest})`,
      picture.blocks[this.lane] ?? [...picture.prompt, ...run.read],
      row(values.self),
      theme,
      open,
    );
  }
}
