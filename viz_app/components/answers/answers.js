// What a model expects along a text: the places, the distribution at the chosen one, and the attention row of the token that answers.
class Answers {
  constructor(root) {
    this.root = root;
    this.strip = new Strip(root.querySelector(".strip"));
    this.bars = new Bars(root.querySelector(".list"), null);
    this.row = new ReadRow(root.querySelector(".reading"));
    offerPage(root, () => {
      const { picture, theme } = this;
      const parts = [this.strip.part(), this.bars.part(picture.answer.title)];
      return [picture.title, picture, theme, picture.reading.keys.length ? [...parts, this.row.part()] : parts];
    });
  }

  show(picture, theme, send) {
    Object.assign(this, { picture, theme });
    const { root } = this, write = (selector, text) => (root.querySelector(selector).textContent = text);
    if (this.waiting === picture.position) this.waiting = undefined;
    write("h2", picture.title);
    this.strip.show(picture, theme, (position) => {
      if (position === this.waiting) return;
      this.waiting = position;
      this.strip.mark(position);
      send({ position });
    });
    if (this.waiting !== undefined && this.waiting < picture.places.length) this.strip.mark(this.waiting); // on its way to Python
    const [least, most, how] = picture.scale;
    write(".least", least);
    write(".most", most);
    write(".how", how);
    write(".summary", picture.summary);
    root.querySelector(".ramp").style.background = rampGradient(theme);
    this.answer(picture, write);
    root.querySelector(".reading").hidden = !picture.reading.title && !picture.reading.note; // it is drawn over a sound
    this.row.show(picture.reading, picture.arrays.weights, picture.arrays.allowed, theme);
    Object.assign(root.dataset, { position: picture.position, kind: picture.kind });
    countPaint(root);
  }

  answer({ answer, arrays }, write) {
    write(".answer h3", answer.title);
    write(".fact", answer.fact);
    write(".rest", answer.rest);
    this.bars.show(answer.rows.map(([id, label, mark], i) => ({ id, label, mark, p: arrays.p[i], rank: arrays.ranks[i] })));
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".answers");
  const view = (root.view ??= new Answers(root));
  view.show(unpack(data), themeOf(root), (pick) => setTriggerValue("pick", pick));
}
