const BESIDE = { map: 354, lines: 220 }; // px: the least width of each with the gap, as in head.css; the lines' grows with the letters

// Joins the two pictures of one head: what is pointed at or locked in one is also pointed at or locked in the other.
class Head extends Fitted {
  constructor(root) {
    super(root);
    const on = { hover: (spot, event) => this.hover(spot, event), click: (spot) => this.click(spot) };
    this.map = new Heatmap(root.querySelector(".map"), on);
    this.lines = new Lines(root.querySelector(".lines"), on);
    this.fold = root.querySelector(".fold");
    this.foldLines();
    this.fold.ontoggle = () => (this.width = 0, this.resized());
    this.tip = root.querySelector(".tip");
    this.reading = root.querySelector(".reading");
    useKeys(root, { Escape: () => (this.lock ? this.hold(null) : false) });
    useKeys(this.map.cells, { ...arrows((down, right) => this.step(down, right)), Enter: () => this.into() });
    this.switches = new Switches(root, (look) => {
      this.send("look", look);
      this.show({ ...this.picture, scale: "" }, this.theme); // the same numbers; Python has not answered yet
    });
    this.whole = root.querySelector(".whole");
    this.whole.onclick = () => this.send("tile", {});
    const drawn = () => (this.map.show(this.picture, this.theme), this.focus());
    offerCanvas(
      root.querySelector(".map .files"),
      () => sharply(drawn, () => saveCanvas(this.map.cells, this.heading(), this.picture, this.theme)),
      () => [root.querySelector(".map"), this.picture],
    );
    offer(root.querySelector(".lines .files"), () => [this.lines.svg, this.heading(), this.picture, this.theme]);
  }

  // The title of a saved file.
  heading() {
    const { title, scale, hides, sinkNames } = this.picture;
    const how = [SCALES[scale].names, hides && sinkNames.length && `${sinkNames.join(" and ")} hidden`].filter(Boolean);
    return how.length ? `${title} (${how.join("; ")})` : title;
  }

  show(picture, theme) {
    picture.rows = picture.queries.length;
    picture.cols = picture.keys.length;
    picture.weights = picture.arrays.weights;
    this.switches.show(picture);
    picture.strengths = strengthsOf(picture);
    picture.codes = Uint8Array.from(picture.strengths, (s, i) => (picture.arrays.blocked[i] ? 0 : weightCode(s)));
    const { site, head, rows, cols, lock } = picture, another = this.picture?.site !== site || this.picture.head !== head;
    Object.assign(this, { picture, theme });
    if (another || this.waiting === lock) this.waiting = undefined;
    this.lock = this.spotOf(this.waiting ?? lock); // a lock on its way to Python is not undone by an older answer
    this.root.querySelector(".title").textContent = picture.title;
    this.whole.hidden = picture.block > 1 || (rows === picture.size[0] && cols === picture.size[1]);
    this.root.querySelector(".chip").style.background = headColour(picture.head);
    this.hovered = null;
    this.tip.hidden = true;
    this.fit();
    Object.assign(this.root.dataset, {
      site,
      head,
      rows,
      cols,
      block: picture.block,
      first: picture.first.join(" "),
      scale: picture.scale,
    });
    countPaint(this.root);
  }

  // Where the lines would be below the map (on a phone, beside a pinned run), they are shown when they are asked for.
  foldLines() {
    const width = this.root.clientWidth, narrow = width > 0 && width < BESIDE.map + BESIDE.lines * scaleOf();
    if (narrow === this.narrow) return;
    this.narrow = narrow;
    this.fold.open = !narrow;
    this.root.toggleAttribute("data-narrow", narrow);
  }

  // Its height follows the window's.
  resized() {
    this.foldLines();
    if (this.picture && this.map.stage.clientHeight !== this.map.room) this.width = 0;
    super.resized();
  }

  draw(width, other) {
    if (other) { for (const part of this.fold.open ? [this.map, this.lines] : [this.map]) part.measure(); }
    this.map.show(this.picture, this.theme);
    Object.assign(this.map.cells.dataset, {
      left: this.map.left,
      top: this.map.top,
      right: this.map.right,
      wide: this.map.wide,
      tall: this.map.tall,
    }); // where the cells are
    if (this.fold.open) this.lines.show(this.picture, this.theme);
    this.focus();
  }

  // "q3" → {query: 3}, counted from the first that is shown; null if there is no such token.
  spotOf(lock) {
    const { block, first, rows, cols } = this.picture, byQuery = lock?.[0] === "q";
    if (block > 1 || !/^[qk]\d*$/.test(lock)) return null;
    const index = Number(lock.slice(1)) - first[byQuery ? 0 : 1];
    return index < 0 || index >= (byQuery ? rows : cols) ? null : { [byQuery ? "query" : "key"]: index };
  }

  // The token's name in the URL: "q3".
  nameOf(token) {
    const { first } = this.picture;
    return !token ? "" : token.query !== undefined ? `q${token.query + first[0]}` : `k${token.key + first[1]}`;
  }

  hover(spot, event) {
    this.hovered = spot;
    this.focus();
    this.point(spot, event);
  }

  // A click on a token or anywhere in its row locks it; a second click unlocks it.
  click(spot) {
    if (this.picture.block > 1) return spot && this.enlarge(spot);
    if (!spot) return this.hold(null);
    const token = spot.query !== undefined ? { query: spot.query } : { key: spot.key };
    return this.hold(this.lock && this.lock.query === token.query && this.lock.key === token.key ? null : token);
  }

  // By key: up and down pin the row before or after, left and right the column; in blocks they go from cell to cell.
  step(down, right) {
    const { block, rows, cols } = this.picture, within = (i, n) => Math.max(0, Math.min(n - 1, i));
    if (block > 1) {
      const { query = -1, key = -1 } = this.hovered ?? {};
      return this.hover({ query: within(query + (query < 0 ? 1 : down), rows), key: within(key + (key < 0 ? 1 : right), cols) });
    }
    const { query = down > 0 ? -1 : rows, key = right > 0 ? -1 : cols } = this.lock ?? {};
    return this.hold(down ? { query: within(query + down, rows) } : { key: within(key + right, cols) });
  }

  // By key: the exact weights of the block that the arrows went to.
  into() {
    return this.picture.block > 1 && this.hovered ? this.enlarge(this.hovered) : false;
  }

  hold(token) {
    this.lock = token;
    this.waiting = this.nameOf(token);
    this.focus();
    this.send("lock", { token: this.waiting });
  }

  // The exact weights around the middle of a block; for a row or a column, around its strongest weight.
  enlarge({ query, key }) {
    const { block, rows, cols, weights, size } = this.picture;
    const strongest = (n, cell) =>
      Array.from({ length: n }, (_, i) => i).reduce((best, i) => (weights[cell(i)] > weights[cell(best)] ? i : best), 0);
    const q = query ?? strongest(rows, (i) => i * cols + key), k = key ?? strongest(cols, (i) => q * cols + i);
    const middle = (i, n) => Math.min(n - 1, Math.floor((i + 0.5) * block));
    this.send("tile", { query: middle(q, size[0]), key: middle(k, size[1]) });
  }

  focus() {
    const spot = this.hovered ?? this.lock;
    this.map.focus(spot);
    if (this.fold.open) this.lines.focus(spot, this.lock);
    this.read(spot);
    this.root.dataset.lock = this.nameOf(this.lock);
  }

  // One sentence about the token in focus, under the pictures; always two lines high.
  read(spot) {
    this.reading.replaceChildren();
    const say = (text, className) => put(this.reading, "span", className, text);
    const { rows, cols, queries, keys, weights, block } = this.picture;
    if (!spot) {
      if (matchMedia("(hover: none)").matches) return void say("Tap a token to see its lines.", "quiet");
      return void say(
        `Hover a token to isolate its lines; click ${
          block > 1 ? "to see its exact weights (arrow keys, Enter)" : "or press an arrow key to pin it"
        }.`,
        "quiet",
      );
    }
    const byQuery = spot.query !== undefined;
    const self = byQuery ? queries[spot.query] : keys[spot.key];
    const all = Array.from({ length: byQuery ? cols : rows }, (_, i) => [weights[byQuery ? spot.query * cols + i : i * cols + spot.key], i]);
    const best = all.sort((a, b) => b[0] - a[0]).slice(0, 3).filter(([weight]) => weight >= FAINTEST);
    say(self[0], "token");
    say(byQuery ? " attends most to " : " is attended to most by ");
    best.forEach(([weight, i], n) => {
      say((byQuery ? keys : queries)[i][0], "token");
      say(` ${weight.toFixed(2)}${n < best.length - 1 ? ", " : "."}`);
    });
    if (!best.length) say(byQuery ? "nothing." : "no token.");
    if (this.lock) say(" Pinned. Click again or press Esc to release.", "quiet");
    if (self[1]) say(` (${self[1]})`, "quiet");
  }

  point(spot, event) {
    const { tip, picture } = this;
    tip.hidden = !spot || spot.query === undefined || spot.key === undefined;
    if (tip.hidden) return;
    const cell = spot.query * picture.cols + spot.key, bits = picture.arrays.blocked[cell];
    const masks = picture.masks.filter((_, i) => bits & (1 << i)), hidden = picture.hidden.has(spot.key) && "hidden by the switch above";
    tip.querySelector(".query").textContent = picture.queries[spot.query][0];
    tip.querySelector(".key").textContent = picture.keys[spot.key][0];
    tip.querySelector(".value").textContent = `${picture.block > 1 ? "largest " : ""}weight ${exact(picture.weights[cell])}`;
    tip.querySelector(".why").textContent = masks.length
      ? `masked (${masks.join(", ")})`
      : [hidden, picture.queries[spot.query][1], picture.keys[spot.key][1]].filter(Boolean).join("; ");
    Object.assign(tip.dataset, { query: spot.query, key: spot.key, weight: exact(picture.weights[cell]) });
    placeTip(tip, this.root, event);
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".head");
  const view = (root.view ??= new Head(root));
  view.send = (name, value) => setTriggerValue(name, value);
  view.show(unpack(data), themeOf(root));
  return () => view.watcher.disconnect();
}
