// What one patch of an image reads: the image, in which a patch is pointed at or clicked; the chosen head's weights over it; and those
// of all heads of its layer, small.
const LARGE = { least: 180, most: 460, share: 0.34 }, SMALLEST = 56, MOST_SMALL = 96; // CSS pixels

class ImageMap extends Fitted {
  constructor(root) {
    super(root);
    const find = (selector) => root.querySelector(selector);
    Object.assign(this, {
      pixels: find(".pixels"),
      cells: find(".cells"),
      specials: find(".specials"),
      small: find(".small"),
      tip: find(".tip"),
      reading: find(".reading"),
      buttons: [],
    });
    this.pixels.onpointermove = (event) => this.hover(this.patchAt(this.pixels, event));
    this.pixels.onpointerleave = () => this.hover(null);
    this.pixels.onclick = (event) => this.hold(this.tokenOf(this.patchAt(this.pixels, event)));
    useKeys(this.pixels, {
      ...arrows((down, right) => this.step(down, right)),
      Escape: () => this.picture.lock ? this.send("lock", { token: "" }) : false,
    });
    this.cells.onpointermove = (event) => this.point(this.patchAt(this.cells, event), event);
    this.cells.onpointerleave = () => (this.tip.hidden = true);
    const drawn = () => this.paint();
    offerCanvas(
      find(".files"),
      () => sharply(drawn, () => saveCanvas(this.cells, this.heading(), this.picture, this.theme, [this.key()])),
      () => [this.cells.parentElement, this.picture],
    );
  }

  show(picture, theme) {
    const { weights, pixels } = picture.arrays, n = picture.tokens.length;
    Object.assign(picture, { n, isWhole: weights.length === n * n });
    Object.assign(this, { picture, theme, hovered: null, image: imageOf(picture, theme) });
    this.query = picture.query;
    this.root.querySelector(".title").textContent = picture.title;
    this.root.querySelector(".chip").style.background = headColour(picture.head);
    this.root.querySelector(".layer").textContent = `${picture.layer}: all heads`;
    const { ramp } = theme;
    this.root.querySelector(".bar").style.background = `linear-gradient(to right, ${css(ramp[1])}, ${css(ramp[128])}, ${css(ramp[255])})`;
    this.root.querySelector(".says").textContent = `0 to ${SCALES[picture.scale].says}`;
    this.tip.hidden = true;
    this.lay();
    this.fit();
    const { site, head } = picture;
    Object.assign(this.root.dataset, {
      site,
      head,
      query: this.query,
      pixels: pixels.length,
      painted: (Number(this.root.dataset.painted) || 0) + 1,
    });
  }

  heading() {
    return `${this.picture.title}: query ${this.picture.tokens[this.shown()][0]}`;
  }

  key() {
    return { ...weightKey(this.theme), most: "", says: SCALES[this.picture.scale].says };
  }

  // The buttons: the tokens that are no patches, and the heads.
  lay() {
    const { picture } = this, { tokens } = picture;
    const special = tokens.map((_, i) => i).filter((i) => this.patchOf(i) === null);
    this.specials.replaceChildren();
    this.special = special.map((token) => {
      const button = put(this.specials, "button", "", "");
      button.type = "button";
      button.onclick = () => this.hold(token);
      button.onpointerenter = () => this.hover(null, token);
      button.onpointerleave = () => this.hover(null);
      return [token, button];
    });
    const n = picture.arrays.heads.length / picture.n;
    while (this.buttons.length > n) this.buttons.pop().remove();
    while (this.buttons.length < n) {
      const button = put(this.small, "button"), head = this.buttons.push(button) - 1;
      button.type = "button";
      put(button, "span", "", `head ${head + 1}`);
      put(button, "canvas");
      button.onclick = () => this.send("pick", { site: this.picture.site, head });
    }
  }

  draw(width) {
    const scale = scaleOf(), share = isPhone() ? width : Math.floor(width * LARGE.share);
    const fitting = isPhone() ? innerWidth * 0.6 : innerHeight * (scale > 1 ? 0.42 : 0.55); // so that the page needs no more than it has
    this.side = Math.max(LARGE.least, Math.min(LARGE.most * scale, share, fitting));
    const rest = Math.max(SMALLEST, width - 2 * this.side - 60), across = Math.ceil(Math.sqrt(this.buttons.length));
    this.little = Math.max(SMALLEST, Math.min(MOST_SMALL * scale, Math.floor(rest / across) - 8));
    this.paint();
  }

  // The width and height of the image within a square.
  within(side) {
    const [tall, wide] = this.picture.size, most = Math.max(tall, wide);
    return [Math.round((side * wide) / most), Math.round((side * tall) / most)];
  }

  shown() {
    return this.hovered ?? this.query;
  }

  paint() {
    const { picture, theme, image } = this, [wide, tall] = this.within(this.side), query = this.shown();
    const [context, ratio] = sized(this.pixels, wide, tall);
    context.drawImage(image.plain, 0, 0, this.pixels.width, this.pixels.height);
    this.mark(context, this.pixels, query, ratio);
    const [weights, blocked] = this.rowOf(query);
    const [over, sharp] = paintPatches(this.cells, image.pale, this.patchesOf(weights, blocked), picture, wide, tall, theme, 1);
    this.mark(over, this.cells, query, sharp);
    describe(this.cells, {
      name: this.heading(),
      rows: [picture.tokens[query][0]],
      columns: positions(picture.tokens),
      value: (_, c) => weights[c],
    });
    describe(this.pixels, {
      name: `The image, ${picture.rows} × ${picture.columns} patches; the query is ${picture.tokens[query][0]}`,
      rows: [],
      columns: [],
      value: () => 0,
    });
    this.root.querySelector(".what").textContent = `What ${picture.tokens[query][0]} attends to`;
    this.say(weights, blocked);
    this.paintHeads();
    Object.assign(this.root.dataset, { wide, tall, shown: query });
  }

  paintHeads() {
    const { picture, theme, image } = this, { n } = picture, [wide, tall] = this.within(this.little);
    this.buttons.forEach((button, head) => {
      const canvas = button.querySelector("canvas"), range = [head * n, (head + 1) * n];
      const weights = picture.arrays.heads.subarray(...range), blocked = picture.arrays.headsBlocked.subarray(...range);
      paintPatches(canvas, image.pale, this.patchesOf(weights, blocked), picture, wide, tall, theme, 1);
      button.style.setProperty("--head", headColour(head));
      button.setAttribute("aria-pressed", String(head === picture.head));
      button.setAttribute("aria-label", `${picture.layer}, head ${head + 1}: what ${picture.tokens[picture.query][0]} attends to`);
    });
  }

  // The chosen head's weights of a query, and where masks block it.
  rowOf(query) {
    const { n, first, arrays } = this.picture, start = (query - first) * n;
    return [arrays.weights.subarray(start, start + n), arrays.blocked.subarray(start, start + n)];
  }

  patchesOf(weights, blocked) {
    const { before, rows, columns, scale } = this.picture;
    return strengthsOfRow(weights, blocked, scale).slice(before, before + rows * columns);
  }

  patchOf(token) {
    const { before, rows, columns } = this.picture, patch = token - before;
    return patch >= 0 && patch < rows * columns ? patch : null;
  }

  tokenOf(patch) {
    return patch === null ? null : patch + this.picture.before;
  }

  mark(context, canvas, token, ratio) {
    const patch = this.patchOf(token);
    if (patch !== null) ring(context, this.picture, patch, canvas.width, canvas.height, ratio);
  }

  patchAt(canvas, event) {
    const { rows, columns } = this.picture, box = canvas.getBoundingClientRect();
    const r = Math.floor(((event.clientY - box.top) / box.height) * rows), c = Math.floor(((event.clientX - box.left) / box.width) * columns);
    return r >= 0 && r < rows && c >= 0 && c < columns ? r * columns + c : null;
  }

  // A patch that is pointed at is the query for as long, where its row is here.
  hover(patch, token = this.tokenOf(patch)) {
    const shown = this.picture.isWhole ? token : null;
    if (shown === this.hovered) return;
    this.hovered = shown;
    this.paint();
  }

  hold(token) {
    if (token === null) return;
    this.query = this.picture.isWhole ? token : this.query;
    this.hovered = null;
    this.send("lock", { token: `q${token}` });
    if (this.picture.isWhole) this.paint();
  }

  // By key from patch to patch; from a special token to the first.
  step(down, right) {
    const { rows, columns } = this.picture, patch = this.patchOf(this.query), within = (i, n) => Math.max(0, Math.min(n - 1, i));
    if (patch === null) return this.hold(this.tokenOf(0));
    const r = within(Math.floor(patch / columns) + down, rows), c = within(patch % columns + right, columns);
    return this.hold(this.tokenOf(r * columns + c));
  }

  // The weights that are not over the image, and the strongest that are.
  say(weights, blocked) {
    const { tokens } = this.picture;
    for (const [token, button] of this.special) {
      button.textContent = `${tokens[token][0]} ${blocked[token] ? "masked" : percent(weights[token])}`;
      button.setAttribute("aria-pressed", String(token === this.shown()));
      button.title = `Weight of ${tokens[token][0]}, which is no patch; click to see what it attends to`;
    }
    const patches = Array.from(weights, (weight, token) => [weight, token]).filter(([, token]) => this.patchOf(token) !== null);
    const total = patches.reduce((sum, [weight]) => sum + weight, 0), best = patches.sort((a, b) => b[0] - a[0]).slice(0, 3);
    this.reading.replaceChildren();
    const say = (text, className) => put(this.reading, "span", className, text);
    say(tokens[this.shown()][0], "token");
    say(` gives ${percent(total)} of its attention to the patches, most to `);
    best.forEach(([weight, token], i) => {
      say(tokens[token][0], "token");
      say(` ${weight.toFixed(3)}${i < best.length - 1 ? ", " : ". "}`);
    });
    say("Click a patch of the image to choose the query.", "quiet");
  }

  point(patch, event) {
    this.tip.hidden = patch === null;
    if (this.tip.hidden) return;
    const token = this.tokenOf(patch), [weights, blocked] = this.rowOf(this.shown());
    const masks = this.picture.masks.filter((_, i) => blocked[token] & (1 << i));
    this.tip.querySelector(".where").textContent = `${this.picture.tokens[this.shown()][0]} → ${this.picture.tokens[token][0]}`;
    this.tip.querySelector(".value").textContent = masks.length ? `masked (${masks.join(", ")})` : `weight ${exact(weights[token])}`;
    Object.assign(this.tip.dataset, { query: this.shown(), key: token, weight: exact(weights[token]) });
    const box = this.root.getBoundingClientRect();
    this.tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left + 16, this.width - this.tip.offsetWidth))}px`;
    this.tip.style.top = `${event.clientY - box.top + 18}px`;
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".image-map");
  const view = (root.view ??= new ImageMap(root));
  view.send = (name, value) => setTriggerValue(name, value);
  view.show(unpack(data), themeOf(root));
  return () => view.watcher.disconnect();
}
