// Two maps over the same tokens and their signed difference, side by side; above them two answers, if there are two.
class Difference extends Fitted {
  constructor(root) {
    super(root);
    this.tip = root.querySelector(".tip");
    const place = root.querySelector(".panels");
    this.panels = ["first", "second", "difference"].map((name) => {
      const panel = put(place, "figure", `panel of-${name}`), caption = put(panel, "figcaption");
      return { name, caption, board: new Board(panel, "small", { hover: (spot, event) => this.hover(spot, event) }) };
    });
    offerCanvas(root.querySelector(".files"), () => sharply(() => this.paint(), () => this.download()), () => [root, this.picture]);
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    const { root } = this, write = (name, text) => (root.querySelector(`.${name}`).textContent = text);
    this.answers(picture.answers);
    write("verdict", picture.verdict);
    write("title", picture.title);
    write("most", picture.most);
    write(
      "legend",
      `${picture.how} Weights: 0 (blank) to 1 (full colour). Difference: −${picture.scale} (orange) to +${picture.scale} (blue), for all heads. Hatched: blocked.`,
    );
    const names = [...picture.names, "Difference: left − middle"];
    this.panels.forEach(({ caption }, i) => (caption.textContent = caption.title = names[i]));
    this.names = names;
    this.tip.hidden = true;
    this.fit();
    Object.assign(root.dataset, {
      site: picture.site,
      head: picture.head,
      distance: exact(picture.distance),
    });
    countPaint(root);
  }

  answers(answers) {
    const box = this.root.querySelector(".answers");
    box.replaceChildren();
    for (const { whose, words, from } of answers) {
      const place = put(box, "span");
      put(place, "span", "whose", whose);
      const line = put(place, "span", "text");
      words.forEach((word, i) => {
        if (i) put(line, "span", "", " ");
        put(line, "span", from >= 0 && i >= from ? "token differs" : "token", word);
      });
    }
  }

  draw() {
    this.paint();
  }

  paint() {
    const { picture, theme } = this, { queryAxis, keyAxis, scale, arrays } = picture;
    const rows = picture.queries.length, cols = picture.keys.length, { blockedFirst, blockedSecond } = arrays;
    const weights = Uint32Array.from(theme.ramp, pack32), signed = signedRamp(theme);
    this.panels.forEach(({ name, board }, n) => {
      const values = arrays[name],
        differs = name === "difference",
        [queries, keys] = differs ? [picture.queries, picture.keys] : picture.labels[n];
      const blocked = (i) => (name === "first" ? blockedFirst[i] : name === "second" ? blockedSecond[i] : blockedFirst[i] && blockedSecond[i]);
      const codes = Uint8Array.from(values, (v, i) => (blocked(i) ? 0 : differs ? 1 + signedCode(v, scale) : weightCode(v)));
      board.show({
        name: `${picture.title}. ${this.names[n]}`,
        value: (q, k) => (codes[q * cols + k] ? values[q * cols + k] : "blocked"),
        codes,
        packed: differs ? Uint32Array.from([0, ...signed.packed]) : weights,
        rows,
        cols,
        queries,
        keys,
        room: picture,
        block: 1,
        queryAxis,
        keyAxis,
        text: (i) => (codes[i] && Math.abs(values[i]) >= 0.005 ? brief(values[i]).replace(/^(−?)0\./, "$1.") : ""),
        ink: (i) => (differs ? signed.inks[codes[i] - 1] : theme.on(codes[i])),
      }, theme);
    });
  }

  hover(spot, event) {
    for (const { board } of this.panels) board.mark(spot);
    const { tip, picture } = this;
    tip.hidden = !spot || spot.query === undefined || spot.key === undefined;
    if (tip.hidden) return;
    const { queries, keys, arrays } = picture, cell = spot.query * keys.length + spot.key;
    tip.querySelector(".where").textContent = `${queries[spot.query][0]} attends to ${keys[spot.key][0]}`;
    const table = tip.querySelector("table");
    table.replaceChildren();
    this.panels.forEach(({ name }, n) => {
      const line = put(table, "tr");
      put(line, "td", "", this.names[n]);
      put(line, "td", "", plain(arrays[name][cell]));
    });
    placeTip(tip, this.root, event);
  }

  // The three pictures beside each other.
  download() {
    const { theme, picture } = this, whole = besideEachOther(this.panels.map(({ board }) => board.cells), this.names, theme);
    const keys = [weightKey(theme, "weight; hatched = masked"), signedKey(theme, "difference of the weights", picture.scale)];
    saveCanvas(whole, picture.title, picture, theme, keys);
  }
}

function mount({ data, parentElement }) {
  const root = parentElement.querySelector(".difference");
  const view = (root.view ??= new Difference(root));
  view.show(unpack(data), themeOf(root));
  return () => view.watcher.disconnect();
}
