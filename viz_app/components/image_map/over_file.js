// A head's weights over the file that the model reads, of one query: the file, in which a query is pointed at or held; the weights over
// it; and those of all heads of the layer, small. A subclass says what the keys are and draws:
// `name(query)`, `keyName(key)`, `lay()`, `say(weights, blocked)`, `paint()` and `paintOver(canvas, weights, blocked, isSmall)`.
class OverFile extends Fitted {
  constructor(root) {
    super(root);
    const find = (selector) => root.querySelector(selector);
    Object.assign(this, {
      plain: find(".plain"),
      cells: find(".cells"),
      small: find(".small"),
      tip: find(".tip"),
      reading: find(".reading"),
      buttons: [],
    });
    this.plain.onpointerleave = () => this.hover(null);
    this.cells.onpointerleave = () => (this.tip.hidden = true);
    offerCanvas(
      find(".files"),
      () => sharply(() => this.paint(), () => saveCanvas(this.cells, this.heading(), this.picture, this.theme, [this.key()])),
      () => [this.cells.parentElement, this.picture],
    );
  }

  // `n` and `queries` are the numbers of keys and of queries, `image` the file drawn plain and pale.
  take(picture, theme, n, queries, image) {
    const { ramp } = theme, { weights } = picture.arrays;
    Object.assign(picture, { n, isWhole: weights.length === n * queries });
    Object.assign(this, { picture, theme, image, hovered: null, query: picture.query });
    this.root.querySelector(".title").textContent = picture.title;
    this.root.querySelector(".chip").style.background = headColour(picture.head);
    this.root.querySelector(".layer").textContent = `${picture.layer}: all heads`;
    this.root.querySelector(".bar").style.background = `linear-gradient(to right, ${css(ramp[1])}, ${css(ramp[128])}, ${css(ramp[255])})`;
    this.root.querySelector(".says").textContent = `0 to ${SCALES[picture.scale].says}`;
    this.tip.hidden = true;
    this.lay();
    this.layHeads();
    this.fit();
    const { site, head } = picture;
    Object.assign(this.root.dataset, { site, head, query: this.query });
    countPaint(this.root);
  }

  useKeys(move) {
    useKeys(this.plain, { ...arrows(move), Escape: () => this.picture.lock ? this.send("lock", { token: "" }) : false });
  }

  heading() {
    return `${this.picture.title}: query ${this.name(this.shown())}`;
  }

  key() {
    return { ...weightKey(this.theme), most: "", says: SCALES[this.picture.scale].says };
  }

  layHeads() {
    const { n, arrays } = this.picture;
    while (this.buttons.length > arrays.heads.length / n) this.buttons.pop().remove();
    while (this.buttons.length < arrays.heads.length / n) {
      const button = put(this.small, "button"), head = this.buttons.push(button) - 1;
      button.type = "button";
      put(button, "span", "", `head ${head + 1}`);
      put(button, "canvas");
      button.onclick = () => this.send("pick", { site: this.picture.site, head });
    }
  }

  paintHeads() {
    const { picture } = this, { n, arrays } = picture;
    this.buttons.forEach((button, head) => {
      const of = (array) => array.subarray(head * n, (head + 1) * n);
      this.paintOver(button.querySelector("canvas"), of(arrays.heads), of(arrays.headsBlocked), true);
      button.style.setProperty("--head", headColour(head));
      button.setAttribute("aria-pressed", String(head === picture.head));
      button.setAttribute("aria-label", `${picture.layer}, head ${head + 1}: what ${this.name(picture.query)} attends to`);
    });
  }

  shown() {
    return this.hovered ?? this.query;
  }

  // The chosen head's weights of a query, and where masks block it.
  rowOf(query) {
    const { n, first, arrays } = this.picture, start = (query - first) * n;
    return [arrays.weights.subarray(start, start + n), arrays.blocked.subarray(start, start + n)];
  }

  // A query is shown while it is pointed at, if its row is in the payload.
  hover(query) {
    const shown = this.picture.isWhole ? query : null;
    if (shown === this.hovered) return;
    this.hovered = shown;
    this.paint();
  }

  hold(query) {
    if (query === null) return;
    this.query = this.picture.isWhole ? query : this.query;
    this.hovered = null;
    this.send("lock", { token: `q${query}` });
    if (this.picture.isWhole) this.paint();
  }

  // The keys with the largest weights among these, as ` … 0.123, … 0.045. `
  sayBest(keys, weights) {
    const best = keys.map((key) => [weights[key], key]).sort((a, b) => b[0] - a[0]).slice(0, 3);
    best.forEach(([weight, key], i) => {
      put(this.reading, "span", "token", this.keyName(key));
      put(this.reading, "span", "", ` ${weight.toFixed(3)}${i < best.length - 1 ? ", " : ". "}`);
    });
  }

  point(key, event) {
    this.tip.hidden = key === null;
    if (this.tip.hidden) return;
    const [weights, blocked] = this.rowOf(this.shown()), masks = this.picture.masks.filter((_, i) => blocked[key] & (1 << i));
    this.tip.querySelector(".where").textContent = `${this.name(this.shown())} → ${this.keyName(key)}`;
    this.tip.querySelector(".value").textContent = masks.length ? `masked (${masks.join(", ")})` : `weight ${exact(weights[key])}`;
    Object.assign(this.tip.dataset, { query: this.shown(), key, weight: exact(weights[key]) });
    placeTip(this.tip, this.root, event);
  }
}

function mountOver(View, { data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".over-file"), view = (root.view ??= new View(root));
  view.send = (name, value) => setTriggerValue(name, value);
  view.show(unpack(data), themeOf(root));
  return () => view.watcher.disconnect();
}
