// What a frame or a patch of a sound, or a token of the text written from it, attends to in the sound: its spectrogram, the chosen
// head's weights over it, and those of all heads of the layer, small. Frames are a grid of one row, whose patches do not overlap.
const TALL = 84, TALLEST = 150, SMALL = { wide: 150, tall: 34 }, AXIS = 16, TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10]; // CSS pixels; s

class SoundMap extends OverFile {
  constructor(root) {
    super(root);
    Object.assign(this, { queries: root.querySelector(".queries"), extent: root.querySelector(".extent"), showsAll: false });
    this.plain.onpointermove = (event) => this.picture.readsItself && this.hover(this.tokenAt(this.plain, event));
    this.plain.onclick = (event) => this.picture.readsItself && this.hold(this.tokenAt(this.plain, event));
    this.useKeys((down, right) => this.hold(this.beside(this.query, down, right)));
    this.cells.onpointermove = (event) => this.point(this.tokenAt(this.cells, event), event);
    this.extent.onclick = () => {
      this.showsAll = !this.showsAll;
      this.paint();
    };
  }

  show(picture, theme) {
    this.root.classList.toggle("reads-itself", picture.readsItself);
    this.root.querySelector(".sound").textContent = `${
      picture.isInput ? "The sound as the model reads it" : "The sound. The model reads its waveform"
    }: time across, frequency up`;
    this.take(picture, theme, picture.keys.length, picture.queries.length, spectrogramOf(picture, theme));
  }

  name(query) {
    return this.picture.queries[query][0];
  }

  keyName(key) {
    return this.picture.keys[key];
  }

  // The buttons of the queries that are not part of the sound: special tokens, or the tokens of a text.
  lay() {
    const { picture } = this, all = picture.queries.map((_, query) => query);
    const others = picture.readsItself ? all.filter((token) => this.placeOf(token) === null) : all;
    this.queries.hidden = others.length === 0;
    this.queries.replaceChildren();
    this.tokens = others.map((query) => {
      const [text, note] = picture.queries[query], button = put(this.queries, "button", "", text);
      Object.assign(button, { type: "button", title: note || "Click to see what it attends to", onclick: () => this.hold(query) });
      button.onpointerenter = () => this.hover(query);
      button.onpointerleave = () => this.hover(null);
      return [query, button];
    });
  }

  draw() {
    this.paint();
  }

  // The number of columns of tokens that are drawn: those that cover the sound, or all.
  get across() {
    return this.showsAll ? this.picture.columns : this.picture.heard;
  }

  // The row, from low frequencies up, and the column of a token; null for a special one.
  placeOf(token) {
    const { before, rows, columns } = this.picture, i = token - before;
    return i >= 0 && i < rows * columns ? [Math.floor(i / columns), i % columns] : null;
  }

  tokenOf(row, column) {
    return this.picture.before + row * this.picture.columns + column;
  }

  // How many bands that n rows read, or columns of the spectrogram that n columns of tokens read.
  span(n, axis) {
    const { size, stride } = this.picture;
    return (n - 1) * stride[axis] + size[axis];
  }

  // Where the part that is nearest to the middle of token i begins, of n tokens in a line, as a share of what all n read.
  edge(i, n, axis) {
    const { size, stride } = this.picture;
    if (i === 0 || i === n) return i / n;
    return (i * stride[axis] + (size[axis] - stride[axis]) / 2) / this.span(n, axis);
  }

  // By key from part to part, up to higher frequencies; from a special token to the first part.
  beside(token, down, right) {
    const { picture } = this, within = (i, n) => Math.max(0, Math.min(n - 1, i));
    if (!picture.readsItself) return within(token + (right || down), picture.queries.length);
    const place = this.placeOf(token);
    if (place === null) return this.tokenOf(0, 0);
    const [row, column] = place;
    if (picture.rows === 1) return this.tokenOf(0, within(column + (right || down), picture.columns));
    return this.tokenOf(within(row - down, picture.rows), within(column + right, picture.columns));
  }

  paint() {
    const { picture, image } = this, { readsItself } = picture, query = this.shown(), scale = scaleOf();
    const [wide, tall] = this.sizes(), [weights, blocked] = this.rowOf(query);
    this.paintExtent();
    const [context, ratio] = sized(this.plain, wide, tall + AXIS * scale);
    this.stretch(context, image.plain, tall * ratio);
    this.paintAxis(context, tall * ratio, ratio * scale);
    if (readsItself) this.mark(context, query, tall * ratio, ratio);
    const [over] = this.paintOver(this.cells, weights, blocked);
    if (readsItself) this.mark(over, query, this.cells.height, ratio);
    describe(this.cells, { name: this.heading(), rows: [this.name(query)], columns: picture.keys, value: (_, k) => weights[k] });
    const named = `${readsItself && picture.areFrames ? "the frame at " : ""}${this.name(query)}`;
    const parts = picture.areFrames ? `${picture.heard} frames` : `${picture.rows} × ${picture.heard} patches`;
    const what = readsItself ? `; the query is ${named}` : "";
    describe(this.plain, { name: `The sound's spectrogram, ${parts}${what}`, rows: [], columns: [], value: () => 0 });
    const overlap = picture.stride.some((stride, axis) => stride < picture.size[axis])
      ? ". Patches overlap: each colours what is nearest to its middle"
      : "";
    const extent = this.placeOf(query) && picture.queries[query][1] ? ` (${picture.queries[query][1]})` : "";
    this.root.querySelector(".what").textContent = `What ${named}${readsItself ? extent : ""} attends to${overlap}`;
    for (const [token, button] of this.tokens) {
      button.setAttribute("aria-pressed", String(token === query));
      if (readsItself) button.textContent = `${this.name(token)} ${blocked[token] ? "masked" : percent(weights[token])}`;
    }
    this.say(weights);
    this.paintHeads();
    Object.assign(this.root.dataset, { shown: query, across: this.across });
  }

  paintExtent() {
    const { heard, columns, seconds } = this.picture;
    const long = (s) => `${s < 1 ? Number(s.toFixed(2)) : s.toFixed(1)} s`;
    this.extent.hidden = heard === columns;
    this.extent.textContent = this.showsAll
      ? `Show the sound alone, ${long(Math.min(seconds, this.seconds(heard)))}`
      : `Show all ${long(this.seconds(columns))}, with the ${this.after} after it`;
  }

  // The duration of n columns of tokens.
  seconds(n) {
    return this.span(n, 1) * this.picture.step / this.picture.stride[1];
  }

  get after() {
    return this.picture.areFrames ? "silence" : "padding";
  }

  // The part of the spectrogram that is shown, over the width of a canvas.
  stretch(context, image, tall) {
    const part = image.width * this.span(this.across, 1) / this.span(this.picture.columns, 1);
    context.imageSmoothingEnabled = false;
    context.drawImage(image, 0, 0, part, image.height, 0, 0, context.canvas.width, tall);
  }

  paintAxis(context, top, ratio) {
    const seconds = this.seconds(this.across), { width } = context.canvas;
    const tick = TICKS.find((one) => seconds / one <= 10) ?? 10;
    Object.assign(context, {
      fillStyle: this.theme.text,
      font: `${10.5 * ratio}px ${this.theme.font}`,
      textBaseline: "top",
      textAlign: "left",
    });
    for (let i = 0; i * tick < seconds; i++) {
      const x = i * tick / seconds * width, text = `${Number((i * tick).toFixed(1))} s`;
      context.fillRect(x, top, Math.max(1, ratio), 4 * ratio);
      if (x + context.measureText(text).width + 4 * ratio < width) context.fillText(text, x + 3 * ratio, top + 3 * ratio);
    }
  }

  // The width and height of the spectrogram, large or over one of all heads.
  sizes(isSmall = false) {
    const scale = scaleOf();
    if (isSmall) return [Math.min(SMALL.wide * scale, this.width), SMALL.tall * scale];
    return [this.width, Math.min(TALLEST, TALL * scale)];
  }

  paintOver(canvas, weights, blocked, isSmall = false) {
    const { picture, theme, image, across } = this, { rows } = picture, [context, ratio] = sized(canvas, ...this.sizes(isSmall));
    const { width, height } = canvas, strengths = strengthsOfRow(weights, blocked, picture.scale);
    this.stretch(context, image.pale, height);
    for (let row = 0; row < rows; row++) {
      const y = Math.floor((1 - this.edge(row + 1, rows, 0)) * height), tall = Math.floor((1 - this.edge(row, rows, 0)) * height) - y;
      for (let column = 0; column < across; column++) {
        const x = Math.floor(this.edge(column, across, 1) * width), end = Math.floor(this.edge(column + 1, across, 1) * width);
        const wide = Math.max(1, end - x), strength = strengths[this.tokenOf(row, column)];
        if (strength < 0) hatchPatch(context, x, y, wide, tall, PERIOD * ratio, theme);
        else {
          context.globalAlpha = COVER * strength;
          context.fillStyle = theme.accent;
          context.fillRect(x, y, wide, tall);
          context.globalAlpha = 1;
        }
      }
    }
    return [context, ratio];
  }

  // A line around everything that the query reads, if it is part of the sound.
  mark(context, token, tall, ratio) {
    const { stride, size, rows } = this.picture, place = this.placeOf(token);
    if (place === null || place[1] >= this.across) return;
    const [right, up] = [context.canvas.width / this.span(this.across, 1), tall / this.span(rows, 0)];
    const [row, column] = place, x = column * stride[1] * right, w = Math.max(3 * ratio, size[1] * right);
    const y = tall - (row * stride[0] + size[0]) * up;
    for (const [colour, line] of [["#000", 4], ["#fff", 2]]) {
      context.strokeStyle = colour;
      context.lineWidth = line * ratio;
      context.strokeRect(x - ratio, y, w + 2 * ratio, size[0] * up);
    }
  }

  // The token whose middle is nearest to the pointer.
  tokenAt(canvas, event) {
    const { rows } = this.picture, box = canvas.getBoundingClientRect();
    const tall = canvas === this.plain ? box.height - AXIS * scaleOf() : box.height;
    const column = this.at((event.clientX - box.left) / box.width, this.across, 1);
    const row = rows === 1 ? 0 : this.at(1 - (event.clientY - box.top) / tall, rows, 0);
    return row === null || column === null ? null : this.tokenOf(row, column);
  }

  at(share, n, axis) {
    const { size, stride } = this.picture, i = Math.floor((share * this.span(n, axis) - (size[axis] - stride[axis]) / 2) / stride[axis]);
    return share >= 0 && share < 1 ? Math.max(0, Math.min(n - 1, i)) : null;
  }

  // How much of the attention is on the sound, and where most of it is.
  say(weights) {
    const { heard, columns, readsItself } = this.picture, keys = Array.from(weights, (_, key) => key);
    const columnOf = (key) => this.placeOf(key)?.[1] ?? -1, sum = (chosen) => chosen.reduce((total, key) => total + weights[key], 0);
    const sound = keys.filter((key) => columnOf(key) >= 0 && columnOf(key) < heard),
      say = (text, className) => put(this.reading, "span", className, text);
    this.reading.replaceChildren();
    say(this.name(this.shown()), "token");
    const isPart = sound.length < weights.length;
    say(isPart ? ` gives ${percent(sum(sound))} of its attention to the sound, most to ` : " attends most to ");
    this.sayBest(sound, weights);
    if (heard < columns) say(`${percent(sum(keys.filter((key) => columnOf(key) >= heard)))} is on the ${this.after} that is put after it. `);
    say(readsItself ? "Click the sound to choose the query." : "Click a token to choose the query.", "quiet");
  }
}

// The spectrogram as a canvas of its own pixels, from the page's background to its text colour, and pale.
function spectrogramOf({ arrays, bands: tall }, theme) {
  const levels = arrays.spectrogram, wide = levels.length / tall;
  const canvases = [1, PALE].map((share) => {
    const canvas = Object.assign(document.createElement("canvas"), { width: wide, height: tall });
    const context = canvas.getContext("2d"), image = context.createImageData(wide, tall);
    for (let i = 0; i < levels.length; i++) {
      for (let c = 0; c < 3; c++) image.data[4 * i + c] = theme.paper[c] + (theme.ink[c] - theme.paper[c]) * share * levels[i] / 255;
      image.data[4 * i + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    return canvas;
  });
  return { plain: canvases[0], pale: canvases[1] };
}

function mount(streamlit) {
  return mountOver(SoundMap, streamlit);
}
