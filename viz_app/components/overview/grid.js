// One kind of attention as a grid of layers × heads: a canvas with the pictures, and a button over each of them.
const GAP = 3, SIDE_ROOM = 20, TOP_ROOM = 15, LARGEST = 56;
const SMALL = 15, LEAST = 5, NUMBER = 19, LINE = 12; // px from picture to picture: below SMALL the gap is 1, LEAST at least; the space of a number along the top and down the side

class Grid {
  constructor(parent, on) {
    this.on = on;
    this.section = put(parent, "section", "block");
    this.heading = put(this.section, "h2");
    this.subtitle = put(this.section, "div", "quiet subtitle");
    this.box = put(this.section, "div", "grid");
    this.canvas = put(this.box, "canvas");
    this.buttons = [];
  }

  // Fits `width`; a row of pictures is at most `height` high.
  show(block, codes, theme, width, height) {
    this.block = block;
    this.codes = codes.subarray(block.offset, block.offset + block.layers.length * block.heads * block.rows * block.cols);
    this.scale = scaleOf();
    this.pitch = Math.max(LEAST, Math.min(LARGEST, height / this.scale, Math.floor((width / this.scale - SIDE_ROOM) / block.heads)));
    this.side = this.pitch - (this.pitch < SMALL ? 1 : GAP);
    const frame = JSON.stringify([
      pixelRatio(),
      this.scale,
      this.side,
      ...[block.title, block.subtitle, block.sites, block.layers, block.heads, block.largest.map((heads) => heads.length)],
    ]);
    if (frame !== this.frame || theme !== this.theme) this.lay(theme);
    Object.assign(this, { frame, theme });
    this.paint();
    const { title, layers, heads } = block, rows = layers.map((layer) => `layer ${layer}`);
    const columns = Array.from({ length: heads }, (_, h) => `head ${h + 1}`);
    const value = (l, h) => block.largest[l][h] ?? "";
    describe(this.canvas, { name: `${title}: the largest weight of each head`, rows, columns, value });
  }

  // What stays while someone types: the empty canvas, the numbers along it, the headings and the buttons.
  lay(theme) {
    const { title, subtitle, layers, heads } = this.block;
    this.heading.textContent = title;
    this.subtitle.textContent = subtitle;
    const [context, ratio] = sized(this.canvas, ...this.corner(layers.length, heads), this.scale);
    context.fillStyle = theme.background;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    context.scale(ratio, ratio);
    this.number(context, theme);
    this.placeButtons();
  }

  // The codes of one head's picture.
  head(layer, head) {
    const size = this.block.rows * this.block.cols;
    const first = (layer * this.block.heads + head) * size;
    return this.codes.subarray(first, first + size);
  }

  corner(layer, head) {
    return [SIDE_ROOM + head * this.pitch, TOP_ROOM + layer * this.pitch];
  }

  paint() {
    const { largest, rows, cols } = this.block, ratio = pixelRatio() * this.scale;
    const context = this.canvas.getContext("2d"), side = Math.round(this.side * ratio);
    largest.forEach((heads, l) =>
      heads.forEach((_, h) => {
        const [x, y] = this.corner(l, h).map((v) => Math.round(v * ratio));
        paintCodes(context, this.head(l, h), rows, cols, x, y, side, side, this.theme, Math.round(4 * ratio));
      })
    );
  }

  // Heads along the top, each with its colour, and layers down the side.
  number(context, theme) {
    context.font = `12px ${theme.font}`;
    context.textBaseline = "middle";
    context.textAlign = "center";
    const every = Math.ceil(NUMBER / this.pitch), down = Math.ceil(LINE / this.pitch);
    for (let h = 0; h < this.block.heads; h += every) {
      const [x] = this.corner(0, h);
      context.fillStyle = theme.quiet;
      context.fillText(String(h + 1), x + this.side / 2, 6);
      context.fillStyle = headColour(h);
      context.fillRect(x, TOP_ROOM - 4, this.side, 2);
    }
    context.fillStyle = theme.quiet;
    this.block.layers.forEach((layer, l) => l % down || context.fillText(String(layer), 7, this.corner(l, 0)[1] + this.side / 2));
  }

  placeButtons() {
    const { heads, largest, layers, sites, title } = this.block;
    while (this.buttons.length > layers.length * heads) this.buttons.pop().remove();
    while (this.buttons.length < layers.length * heads) this.addButton();
    this.buttons.forEach((button, i) => {
      const layer = Math.floor(i / heads), head = i % heads;
      const [x, y, side] = [...this.corner(layer, head), this.side].map((length) => length * this.scale);
      button.style.cssText = `left:${x}px;top:${y}px;width:${side}px;height:${side}px;--head:${headColour(head)};--edge:${
        this.pitch < SMALL ? 2 : 3
      }px`;
      button.hidden = head >= largest[layer].length; // a layer with fewer heads than another
      button.dataset.site = sites[layer];
      button.dataset.head = head;
      button.setAttribute("aria-label", `${title}, layer ${layers[layer]}, head ${head + 1}`);
    });
  }

  addButton() {
    const button = put(this.box, "button");
    button.type = "button";
    const index = this.buttons.push(button) - 1;
    const at = () => [Math.floor(index / this.block.heads), index % this.block.heads];
    button.onclick = () => this.on.tap(this, ...at());
    button.onpointerenter = () => this.on.enter(this, ...at(), button);
    button.onpointerleave = () => this.on.leave();
    useKeys(button, arrows((rows, columns) => this.on.step(this, ...at(), rows, columns)));
  }

  mark(chosen) {
    for (const button of this.buttons) {
      const pressed = String(button.dataset.site === chosen.site && Number(button.dataset.head) === chosen.head);
      if (pressed === button.getAttribute("aria-pressed")) continue;
      button.setAttribute("aria-pressed", pressed);
      button.tabIndex = pressed === "true" ? 0 : -1;
    }
  }

  button(layer, head) {
    return this.buttons[layer * this.block.heads + head];
  }

  remove() {
    this.section.remove();
  }
}
