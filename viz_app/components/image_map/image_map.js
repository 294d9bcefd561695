// What one patch of an image reads: the image, in which a patch is pointed at or clicked; the chosen head's weights over it; and those
// of all heads of its layer, small.
const LARGE = { least: 180, most: 460, share: 0.34 }, SMALLEST = 56, MOST_SMALL = 96; // CSS pixels

class ImageMap extends OverFile {
  constructor(root) {
    super(root);
    this.specials = root.querySelector(".specials");
    this.plain.onpointermove = (event) => this.hover(this.tokenOf(this.patchAt(this.plain, event)));
    this.plain.onclick = (event) => this.hold(this.tokenOf(this.patchAt(this.plain, event)));
    this.useKeys((down, right) => this.step(down, right));
    this.cells.onpointermove = (event) => this.point(this.tokenOf(this.patchAt(this.cells, event)), event);
  }

  show(picture, theme) {
    const n = picture.tokens.length;
    this.root.querySelector(".read").textContent = picture.isStretched
      ? "What the model reads, from its smallest numbers (black) to its largest (white)"
      : "The image as the model reads it";
    this.take(picture, theme, n, n, imageOf(picture, theme));
    this.root.dataset.pixels = picture.arrays.pixels.length;
  }

  name(query) {
    return this.picture.tokens[query][0];
  }

  keyName(key) {
    return this.picture.tokens[key][0];
  }

  // The buttons of the tokens that are not patches.
  lay() {
    const { tokens } = this.picture, special = tokens.map((_, i) => i).filter((i) => this.patchOf(i) === null);
    this.specials.replaceChildren();
    this.special = special.map((token) => {
      const button = put(this.specials, "button", "", "");
      button.type = "button";
      button.onclick = () => this.hold(token);
      button.onpointerenter = () => this.hover(token);
      button.onpointerleave = () => this.hover(null);
      return [token, button];
    });
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

  paint() {
    const { picture, image } = this, [wide, tall] = this.within(this.side), query = this.shown();
    const [context, ratio] = sized(this.plain, wide, tall);
    context.drawImage(image.plain, 0, 0, this.plain.width, this.plain.height);
    this.mark(context, this.plain, query, ratio);
    const [weights, blocked] = this.rowOf(query), [over, sharp] = this.paintOver(this.cells, weights, blocked);
    this.mark(over, this.cells, query, sharp);
    describe(this.cells, {
      name: this.heading(),
      rows: [this.name(query)],
      columns: positions(picture.tokens),
      value: (_, c) => weights[c],
    });
    describe(this.plain, {
      name: `The image, ${picture.rows} × ${picture.columns} patches; the query is ${this.name(query)}`,
      rows: [],
      columns: [],
      value: () => 0,
    });
    this.root.querySelector(".what").textContent = `What ${this.name(query)} attends to`;
    this.say(weights, blocked);
    this.paintHeads();
    Object.assign(this.root.dataset, { wide, tall, shown: query });
  }

  paintOver(canvas, weights, blocked, isSmall = false) {
    const { picture, theme, image } = this, { before, rows, columns, scale } = picture;
    const [wide, tall] = this.within(isSmall ? this.little : this.side);
    const strengths = strengthsOfRow(weights, blocked, scale).slice(before, before + rows * columns);
    return paintPatches(canvas, image.pale, strengths, picture, wide, tall, theme, 1);
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

  // By key from patch to patch; from a special token to the first.
  step(down, right) {
    const { rows, columns } = this.picture, patch = this.patchOf(this.query), within = (i, n) => Math.max(0, Math.min(n - 1, i));
    if (patch === null) return this.hold(this.tokenOf(0));
    const r = within(Math.floor(patch / columns) + down, rows), c = within(patch % columns + right, columns);
    return this.hold(this.tokenOf(r * columns + c));
  }

  // The weights that are not over the image, and the strongest that are.
  say(weights, blocked) {
    for (const [token, button] of this.special) {
      button.textContent = `${this.name(token)} ${blocked[token] ? "masked" : percent(weights[token])}`;
      button.setAttribute("aria-pressed", String(token === this.shown()));
      button.title = `Weight of ${this.name(token)}, which is not a patch; click to see what it attends to`;
    }
    const patches = this.picture.tokens.map((_, token) => token).filter((token) => this.patchOf(token) !== null);
    const total = patches.reduce((sum, token) => sum + weights[token], 0),
      say = (text, className) => put(this.reading, "span", className, text);
    this.reading.replaceChildren();
    say(this.name(this.shown()), "token");
    say(` gives ${percent(total)} of its attention to the patches, most to `);
    this.sayBest(patches, weights);
    say("Click a patch of the image to choose the query.", "quiet");
  }
}

function mount(streamlit) {
  return mountOver(ImageMap, streamlit);
}
