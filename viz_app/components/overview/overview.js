// All heads at a glance. Hover names a head and enlarges it, a click or the arrow keys choose one.
const GAP_TO_ZOOM = 6, ZOOMED = 216, ZOOM_FRAME = 20; // px: above the zoom, its picture, and the frame around it
const NARROW = 700, FINGER = 40; // px: the window below which the chosen head is under the pictures, not beside them; a target for a finger

class Overview extends Fitted {
  constructor(root) {
    super(root);
    this.grids = [];
    this.zoom = root.querySelector(".zoom");
    this.pooled = root.querySelector(".pooled");
    this.join = root.querySelector(".join");
    this.box = this.join.querySelector("input");
    this.box.onchange = () => this.send("join", { on: this.joining = this.box.checked });
    offerCanvas(root.querySelector(".files"), () => sharply(() => this.draw(this.width), () => this.download()), () => [root, this.picture]);
  }

  show(picture, theme) {
    this.picture = picture;
    this.theme = theme;
    const { chosen } = picture;
    if (this.waiting && this.waiting.site === chosen.site && this.waiting.head === chosen.head) this.waiting = null;
    this.chosen = this.waiting ?? chosen; // a choice on its way to Python is not taken back by an older answer
    if (this.explained !== theme) this.explain(theme);
    this.switch();
    while (this.grids.length > picture.blocks.length) this.grids.pop().remove();
    while (this.grids.length < picture.blocks.length) this.grids.push(new Grid(this.root.querySelector(".blocks"), this));
    this.fit();
  }

  // The choice shows at once; an older answer from Python does not undo it.
  switch() {
    const { joined, joins, cannot, switches } = this.picture;
    if (this.joining === joined) this.joining = undefined;
    Object.assign(this.box, { checked: this.joining ?? joined, disabled: Boolean(cannot) });
    this.join.hidden = !switches;
    this.join.title = cannot || joins;
    this.root.querySelector(".joins").textContent = joined ? joins : "";
    this.root.dataset.joined = Boolean(joined);
  }

  // The key to the colours.
  explain(theme) {
    this.explained = theme;
    const hatch = css(theme.hatch);
    this.root.querySelector(".bar").style.background = rampGradient(theme);
    this.root.querySelector(".hatch").style.background = `repeating-linear-gradient(135deg, ${hatch} 0 1px, ${theme.background} 1px 3px)`;
  }

  draw(width) {
    const given = Number(getComputedStyle(this.root).getPropertyValue("--attnscope-columns")); // where style.css gives blocks a share of the width
    const columns = given || Math.max(1, Math.min(this.grids.length, Math.floor((width + 20) / 250)));
    const room = (width - 20 * (columns - 1)) / columns;
    const height = this.rowHeight(Math.ceil(this.grids.length / columns));
    this.grids.forEach((grid, i) => grid.show(this.picture.blocks[i], this.picture.arrays.codes, this.theme, room, height));
    this.mark();
    const pooled = Math.max(...this.picture.blocks.map((block) => block.pool));
    this.root.querySelector(".most").textContent = this.strongest();
    this.pooled.textContent = `Each pixel = largest weight of ${pooled} × ${pooled}.`;
    this.pooled.style.visibility = pooled > 1 ? "visible" : "hidden"; // its space is kept, so that nothing below moves
    countPaint(this.root);
  }

  // What the strongest colour means. Rows of very many keys are scaled by their own largest weight, because they would be pale otherwise.
  strongest() {
    const byRow = this.picture.blocks.filter((block) => block.byRow).length;
    return !byRow ? "1 weight" : byRow === this.picture.blocks.length ? "largest of its row" : "1 weight; in a long row, its largest";
  }

  // The height of one row of pictures: all blocks, stacked this high, fit the window beside the head; if the head is below
  // them, a picture is large enough for a finger.
  rowHeight(stacked) {
    if (window.innerWidth < NARROW) return FINGER + GAP;
    const most = Math.max(...this.picture.blocks.map((block) => block.layers.length));
    const around = ((300 + 64 * stacked) * (1 + scaleOf())) / 2; // in a presentation, the letters above and below are larger
    return Math.floor(Math.max(180, window.innerHeight - around) / (stacked * most));
  }

  mark() {
    for (const grid of this.grids) grid.mark(this.chosen);
    Object.assign(this.root.dataset, this.chosen);
  }

  tap(grid, layer, head) {
    this.pick(grid, layer, head);
    const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
    if (window.innerWidth < NARROW) document.querySelector(".st-key-head")?.scrollIntoView({ behavior });
  }

  pick(grid, layer, head) {
    this.chosen = this.waiting = { site: grid.block.sites[layer], head };
    this.mark();
    this.send("pick", this.chosen);
  }

  enter(grid, layer, head, button) {
    const { block } = grid, { zoom, theme } = this;
    zoom.querySelector(".name").textContent = `${block.title}: layer ${block.layers[layer]}, head ${head + 1}`;
    const wide = Math.min(ZOOMED, this.root.clientWidth - ZOOM_FRAME), [context, ratio] = sized(zoom.querySelector("canvas"), wide, wide);
    const side = Math.round(wide * ratio);
    zoom.style.width = `${wide}px`;
    paintCodes(context, grid.head(layer, head), block.rows, block.cols, 0, 0, side, side, theme, Math.round(6 * ratio));
    zoom.querySelector(".note").textContent = `${block.sides}; hatched = masked.${
      block.pool > 1 ? ` Each pixel = largest of ${block.pool} × ${block.pool}.` : ""
    }`;
    zoom.hidden = false;
    this.placeZoom(button);
  }

  // Under the hovered head or, where that does not fit, over it; never where the chosen one is shown, beside or below all heads: in a
  // narrow window it does not fit there, and so it is over the heads, or extends past the top.
  placeZoom(button) {
    const box = this.root.getBoundingClientRect(), at = button.getBoundingClientRect(), { offsetWidth, offsetHeight } = this.zoom;
    const narrow = window.innerWidth < NARROW, below = at.bottom + GAP_TO_ZOOM;
    const end = narrow ? Math.min(box.bottom, window.innerHeight) : window.innerHeight;
    const over = Math.max(0, at.top - GAP_TO_ZOOM - offsetHeight);
    const top = below + offsetHeight <= end ? below : narrow ? Math.min(over, box.bottom - offsetHeight) : over;
    this.zoom.style.left = `${Math.max(0, Math.min(at.left - box.left, box.width - offsetWidth))}px`;
    this.zoom.style.top = `${top - box.top}px`;
  }

  leave() {
    this.zoom.hidden = true;
  }

  // To the head this many rows below and columns to the right; false if there is none.
  step(grid, layer, head, rows, columns) {
    this.leave();
    const next = this.neighbour(grid, layer + rows, head + columns, columns);
    if (!next) return false;
    this.pick(...next);
    next[0].button(next[1], next[2]).focus();
    return true;
  }

  // Past a block's first or last layer the arrows continue in the block above or below; in a layer with fewer heads, at its last one.
  neighbour(grid, layer, head, along) {
    const of = (grid, layer) => [grid, layer, Math.min(head, grid.block.largest[layer].length - 1)];
    if (head < 0 || (along && head >= grid.block.largest[layer].length)) return null;
    const index = this.grids.indexOf(grid);
    if (layer >= 0 && layer < grid.block.layers.length) return of(grid, layer);
    const other = this.grids[layer < 0 ? index - 1 : index + 1];
    if (!other) return null;
    return of(other, layer < 0 ? other.block.layers.length - 1 : 0);
  }

  // All blocks, one under the other, as one PNG.
  download() {
    const canvases = this.grids.map((grid) => grid.canvas), { theme, picture } = this, band = 24, ratio = pixelRatio();
    const width = Math.max(...canvases.map((c) => c.width / ratio), 300),
      height = canvases.reduce((sum, c) => sum + c.height / ratio + band, 0);
    const whole = document.createElement("canvas"), [context] = sized(whole, width, height);
    context.fillStyle = theme.background;
    context.fillRect(0, 0, whole.width, whole.height);
    context.scale(ratio, ratio);
    context.font = `600 12px ${theme.font}`;
    context.fillStyle = theme.text;
    let y = 0;
    canvases.forEach((canvas, i) => {
      context.fillText(picture.blocks[i].title, 4, y + 16);
      context.drawImage(canvas, 0, y + band, canvas.width / ratio, canvas.height / ratio);
      y += canvas.height / ratio + band;
    });
    saveCanvas(whole, "All heads: rows are layers, columns are heads", picture, theme, [
      { ...weightKey(theme, "hatched = masked"), most: `${this.strongest()};` },
    ]);
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".overview");
  const view = (root.view ??= new Overview(root));
  view.send = (name, value) => setTriggerValue(name, value);
  view.show(unpack(data), themeOf(root));
  return () => view.watcher.disconnect();
}
