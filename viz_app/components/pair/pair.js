// The classes as bars, and each text of the row as a block of its tokens, shaded by the attention that the answering token pays to them.
class Pair {
  constructor(root) {
    this.root = root;
    this.bars = new Bars(root.querySelector(".list"), null);
    this.blocks = [];
    offerPage(root, () => {
      const { picture, theme } = this, { title, rows, blocks } = picture, parts = rows.length ? [this.bars.part(title)] : [];
      return [title, picture, theme, [...parts, ...blocks.map(([name], i) => this.blocks[i].row.part(name))]];
    });
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    const { root } = this, write = (selector, text) => (root.querySelector(selector).textContent = text);
    write("h2", picture.title);
    write(".waiting", picture.waiting ?? "");
    root.querySelector(".panels").hidden = Boolean(picture.waiting);
    root.querySelector(".files").hidden = Boolean(picture.waiting);
    if (!picture.waiting) this.answer(picture, theme, write);
    Object.assign(root.dataset, { waiting: Boolean(picture.waiting) });
    countPaint(root);
  }

  answer({ fact, rows, blocks, segments, reading, arrays }, theme, write) {
    write(".fact", fact);
    write(".reading h3", reading.title);
    write(".reading > .note", reading.note);
    this.root.classList.toggle("alone", !blocks.length);
    this.bars.show(rows.map(([id, label, mark], i) => ({ id, label, mark, p: arrays.p[i], rank: arrays.ranks[i] })));
    const box = this.root.querySelector(".blocks");
    while (this.blocks.length > blocks.length) this.blocks.pop().section.remove();
    while (this.blocks.length < blocks.length) this.blocks.push(block(box));
    blocks.forEach(([name, share], i) => {
      const { section, text, number, bar, row } = this.blocks[i];
      const mine = segments.flatMap((segment, k) => (segment === i && k < reading.keys.length ? [k] : []));
      text.textContent = name;
      number.textContent = share;
      const sum = mine.reduce((total, k) => total + arrays.weights[k], 0);
      section.dataset.share = sum;
      bar.style.width = `${100 * sum}%`;
      row.show({ ...reading, title: "", note: "" }, arrays.weights, arrays.allowed, theme, mine);
    });
  }
}

function block(parent) {
  const section = put(parent, "section", "block"), line = put(section, "p"), text = put(line, "span"), number = put(line, "span", "share");
  const bar = put(put(section, "div", "track"), "i"), row = new ReadRow(section);
  row.heading.hidden = row.note.hidden = true;
  return { section, text, number, bar, row };
}

function mount({ data, parentElement }) {
  const root = parentElement.querySelector(".pair");
  const view = (root.view ??= new Pair(root));
  view.show(unpack(data), themeOf(root));
}
