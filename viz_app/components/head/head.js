// Joins the two pictures of one head: what is pointed at or locked in one is so in the other.
class Head extends Fitted {
  constructor(root) {
    super(root);
    const on = { hover: (spot, event) => this.hover(spot, event), click: (spot) => this.click(spot) };
    this.map = new Heatmap(root.querySelector(".map"), on);
    this.lines = new Lines(root.querySelector(".lines"), on);
    this.tip = root.querySelector(".tip");
    this.reading = root.querySelector(".reading");
    useKeys(root, { Escape: () => (this.lock ? this.hold(null) : false) });
    const [png, svg] = root.querySelectorAll(".save");
    png.onclick = () => saveCanvas(this.map.cells, this.picture.title, this.picture.file, this.theme);
    svg.onclick = () => saveSvg(this.lines.svg, this.picture.title, this.picture.file, this.theme);
  }

  show(picture, theme) {
    picture.rows = picture.queries.length;
    picture.cols = picture.keys.length;
    picture.weights = picture.arrays.weights;
    picture.codes = Uint8Array.from(picture.weights, (w, i) => (picture.arrays.blocked[i] ? 0 : 1 + Math.round(w * 254)));
    const { site, head, rows, cols, lock } = picture, another = this.picture?.site !== site || this.picture.head !== head;
    Object.assign(this, { picture, theme });
    if (another || this.waiting === lock) this.waiting = undefined;
    this.lock = this.spotOf(this.waiting ?? lock);     // a lock on its way to Python is not undone by an older answer
    this.root.querySelector(".title").textContent = picture.title;
    this.root.querySelector(".chip").style.background = headColour(picture.head);
    this.hovered = null;
    this.tip.hidden = true;
    this.fit();
    Object.assign(this.root.dataset, { site, head, rows, cols, painted: (Number(this.root.dataset.painted) || 0) + 1 });
  }

  draw(width, other) {
    if (other) for (const part of [this.map, this.lines]) part.measure();
    this.map.show(this.picture, this.theme);
    Object.assign(this.map.cells.dataset, { ...AXIS, wide: this.map.wide, tall: this.map.tall });     // where the cells are
    this.lines.show(this.picture, this.theme);
    this.focus();
  }

  // "q3" → {query: 3}; null if there is no such token.
  spotOf(lock) {
    const index = Number(lock?.slice(1));
    if (lock?.[0] === "q" && index < this.picture.rows) return { query: index };
    if (lock?.[0] === "k" && index < this.picture.cols) return { key: index };
    return null;
  }

  hover(spot, event) {
    this.hovered = spot;
    this.focus();
    this.point(spot, event);
  }

  // A click on a token or anywhere in its row locks it; a second click lets go.
  click(spot) {
    if (!spot) return this.hold(null);
    const token = spot.query !== undefined ? { query: spot.query } : { key: spot.key };
    return this.hold(this.lock && this.lock.query === token.query && this.lock.key === token.key ? null : token);
  }

  hold(token) {
    this.lock = token;
    this.waiting = !token ? "" : token.query !== undefined ? `q${token.query}` : `k${token.key}`;
    this.focus();
    this.send({ token: this.waiting });
  }

  focus() {
    const spot = this.hovered ?? this.lock;
    this.map.focus(spot);
    this.lines.focus(spot, this.lock);
    this.read(spot);
    const lock = this.lock;
    this.root.dataset.lock = !lock ? "" : lock.query !== undefined ? `q${lock.query}` : `k${lock.key}`;
  }

  // One sentence about the token in focus, under the pictures; always two lines high.
  read(spot) {
    this.reading.replaceChildren();
    const say = (text, className) => put(this.reading, "span", className, text);
    if (!spot) return void say("Point at a token to see only its lines; click to keep it.", "quiet");
    const { rows, cols, queries, keys, weights } = this.picture, byQuery = spot.query !== undefined;
    const self = byQuery ? queries[spot.query] : keys[spot.key];
    const all = Array.from({ length: byQuery ? cols : rows }, (_, i) => [weights[byQuery ? spot.query * cols + i : i * cols + spot.key], i]);
    const best = all.sort((a, b) => b[0] - a[0]).slice(0, 3).filter(([weight]) => weight >= FAINTEST);
    say(self[0], "token");
    say(byQuery ? " reads most from " : " is read most by ");
    best.forEach(([weight, i], n) => {
      say((byQuery ? keys : queries)[i][0], "token");
      say(` ${weight.toFixed(2)}${n < best.length - 1 ? ", " : "."}`);
    });
    if (!best.length) say(byQuery ? "nothing." : "nobody.");
    if (this.lock) say(" Locked: click it again, or press Escape, to let go.", "quiet");
    if (self[1]) say(` (${self[1]})`, "quiet");
  }

  point(spot, event) {
    const { tip, picture } = this;
    tip.hidden = !spot || spot.query === undefined || spot.key === undefined;
    if (tip.hidden) return;
    const cell = spot.query * picture.cols + spot.key, bits = picture.arrays.blocked[cell];
    const masks = picture.masks.filter((_, i) => bits & (1 << i));
    tip.querySelector(".query").textContent = picture.queries[spot.query][0];
    tip.querySelector(".key").textContent = picture.keys[spot.key][0];
    tip.querySelector(".value").textContent = `weight ${exact(picture.weights[cell])}`;
    tip.querySelector(".why").textContent = masks.length
      ? `masked (${masks.join(", ")}): it may not be read`
      : [picture.queries[spot.query][1], picture.keys[spot.key][1]].filter(Boolean).join("; ");
    Object.assign(tip.dataset, { query: spot.query, key: spot.key, weight: exact(picture.weights[cell]) });
    const box = this.root.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    tip.style.left = `${Math.max(0, Math.min(x + 16, this.width - tip.offsetWidth))}px`;
    tip.style.top = `${y + 18}px`;
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".head");
  const view = (root.view ??= new Head(root));
  view.send = (lock) => setTriggerValue("lock", lock);
  view.show(unpack(data), themeOf(root));
  return () => view.watcher.disconnect();
}
