// Several models' texts beside each other, and how much of the source one fixed vector keeps.
const TALLEST = 84; // px of the largest bar
const DIFFERS = "#D55E00";

class Versions {
  constructor(root) {
    this.root = root;
    this.part = (name) => root.querySelector(`.${name}`);
    this.strip = new VectorStrip(this.part("strip"), "h_m");
    root.style.setProperty("--differs", DIFFERS);
    offerPage(root, () => {
      const { picture, theme } = this, { source, cards, bottleneck, arrays } = picture;
      const parts = bottleneck
        ? [
          { name: bottleneck.bars, rows: bottleneck.labels.map(([text]) => text), columns: ["change"], value: (r) => arrays.change[r] },
          {
            name: bottleneck.title,
            rows: [...arrays.vector.keys()].map((i) => i + 1),
            columns: [bottleneck.vector],
            value: (r) => arrays.vector[r],
          },
        ]
        : [];
      const texts = {
        name: source,
        rows: cards.map(({ title }) => title),
        columns: ["text"],
        value: (r) => this.part("cards").children[r].querySelector(".text").textContent,
      };
      return [source, picture, theme, [texts, ...parts]];
    });
    this.watcher = new ResizeObserver(() => this.layout());
    this.watcher.observe(root);
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme, width: 0 });
    this.source();
    this.part("cards").replaceChildren();
    picture.cards.forEach((card) => this.card(card));
    this.part("legend").textContent = picture.legend;
    this.part("bottleneck").hidden = !picture.bottleneck;
    if (picture.bottleneck) this.columns(picture.bottleneck, picture.arrays.change);
    this.layout();
    countPaint(this.root);
  }

  source() {
    const line = this.part("asked"), { source, reference } = this.picture;
    line.replaceChildren();
    put(line, "span", "token", source);
    if (reference) {
      put(line, "span", "quiet", `  →  ${reference.name}: `);
      put(line, "span", "token", reference.text);
    }
  }

  card({ title, whose, words, lost, gap, verdict }) {
    const card = put(this.part("cards"), "section", "card");
    put(card, "h2", "", title);
    put(card, "p", "whose quiet", whose);
    const text = put(card, "p", "text");
    words.forEach(([word, invented], i) => {
      if (i && gap) put(text, "span", "", gap);
      put(text, "span", invented ? "invented" : "", word);
    });
    const missing = put(card, "p", "missing");
    put(missing, "span", "quiet", verdict);
    lost.forEach((word, i) => {
      if (i && gap) put(missing, "span", "", gap);
      put(missing, "span", "lost", word);
    });
  }

  columns({ title, note, bars, labels, largest }, change) {
    this.part("bottleneck").querySelector("h2").textContent = title;
    this.part("note").textContent = note;
    const what = this.root.querySelector(".bottleneck > .what");
    what.textContent = bars;
    const box = this.part("columns");
    box.setAttribute("aria-label", `${bars} ${labels.map(([text], i) => `${text}: ${percent(change[i])}`).join(", ")}`);
    box.replaceChildren();
    labels.forEach(([text, hint], i) => {
      const column = put(box, "div", "column");
      put(column, "span", "", percent(change[i]));
      put(column, "i").style.height = `${(TALLEST * change[i]) / largest}px`;
      put(column, "b", "", text);
      column.title = `${text}${hint ? ` (${hint})` : ""}: ${exact(change[i])}`;
      column.dataset.change = exact(change[i]);
    });
  }

  layout() {
    const width = this.root.clientWidth, { bottleneck, arrays } = this.picture ?? {};
    if (!bottleneck || !width || width === this.width) return;
    this.width = width;
    this.strip.show(bottleneck.vector, arrays.vector, bottleneck.scale, this.theme);
  }
}

function mount({ data, parentElement }) {
  const root = parentElement.querySelector(".versions");
  const view = (root.view ??= new Versions(root));
  view.show(unpack(data), themeOf(root));
  return () => view.watcher.disconnect();
}
