// What a frame of a sound, or a token of the text that is written from it, reads of the sound: its spectrogram, the chosen head's
// weights over it, and those of all heads of the layer, small.
const TALL = 84, TALLEST = 150, SMALL = { wide: 150, tall: 34 }, AXIS = 16, TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10]; // CSS pixels; s

class SoundMap extends OverFile {
  constructor(root) {
    super(root);
    Object.assign(this, { queries: root.querySelector(".queries"), extent: root.querySelector(".extent"), showsAll: false });
    this.plain.onpointermove = (event) => this.picture.ofFrames && this.hover(this.frameAt(this.plain, event));
    this.plain.onclick = (event) => this.picture.ofFrames && this.hold(this.frameAt(this.plain, event));
    this.useKeys((down, right) => this.hold(Math.max(0, Math.min(this.picture.queries.length - 1, this.query + (right || down)))));
    this.cells.onpointermove = (event) => this.point(this.frameAt(this.cells, event), event);
    this.extent.onclick = () => {
      this.showsAll = !this.showsAll;
      this.paint();
    };
  }

  show(picture, theme) {
    this.root.classList.toggle("of-frames", picture.ofFrames);
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

  // The buttons of the tokens of a text that reads the sound.
  lay() {
    const { picture } = this;
    this.queries.hidden = picture.ofFrames;
    this.queries.replaceChildren();
    this.tokens = picture.ofFrames ? [] : picture.queries.map(([text, note], query) => {
      const button = put(this.queries, "button", "", text);
      Object.assign(button, { type: "button", title: note || "Click to see what it attends to", onclick: () => this.hold(query) });
      button.onpointerenter = () => this.hover(query);
      button.onpointerleave = () => this.hover(null);
      return button;
    });
  }

  draw() {
    this.paint();
  }

  // The number of frames that are drawn: those that hold the sound, or all.
  get across() {
    return this.showsAll ? this.picture.n : this.picture.heard;
  }

  paint() {
    const { picture, image } = this, { ofFrames } = picture, query = this.shown(), scale = scaleOf();
    const [wide, tall] = this.sizes(), [weights, blocked] = this.rowOf(query);
    this.paintExtent();
    const [context, ratio] = sized(this.plain, wide, tall + AXIS * scale);
    this.stretch(context, image.plain, tall * ratio);
    this.paintAxis(context, tall * ratio, ratio * scale);
    if (ofFrames) this.mark(context, query, tall * ratio, ratio);
    const [over] = this.paintOver(this.cells, weights, blocked);
    if (ofFrames) this.mark(over, query, this.cells.height, ratio);
    describe(this.cells, { name: this.heading(), rows: [this.name(query)], columns: picture.keys, value: (_, k) => weights[k] });
    const what = ofFrames ? `; the query is the frame at ${this.name(query)}` : "";
    describe(this.plain, { name: `The sound's spectrogram, ${picture.heard} frames${what}`, rows: [], columns: [], value: () => 0 });
    this.root.querySelector(".what").textContent = `What ${ofFrames ? "the frame at " : ""}${this.name(query)} attends to`;
    this.tokens.forEach((button, i) => button.setAttribute("aria-pressed", String(i === query)));
    this.say(weights);
    this.paintHeads();
    Object.assign(this.root.dataset, { shown: query, across: this.across });
  }

  paintExtent() {
    const { heard, n, step } = this.picture;
    const long = (frames) => `${frames * step < 1 ? Number((frames * step).toFixed(2)) : (frames * step).toFixed(1)} s`;
    this.extent.hidden = heard === n;
    this.extent.textContent = this.showsAll ? `Show the sound alone, ${long(heard)}` : `Show all ${long(n)}, with the silence after it`;
  }

  // The part of the spectrogram that is shown, over the width of a canvas.
  stretch(context, image, tall) {
    const { n } = this.picture, part = image.width * this.across / n;
    context.imageSmoothingEnabled = false;
    context.drawImage(image, 0, 0, part, image.height, 0, 0, context.canvas.width, tall);
  }

  paintAxis(context, top, ratio) {
    const { step } = this.picture, seconds = this.across * step, { width } = context.canvas;
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
    const { picture, theme, image, across } = this, [context, ratio] = sized(canvas, ...this.sizes(isSmall));
    this.stretch(context, image.pale, canvas.height);
    strengthsOfRow(weights, blocked, picture.scale).slice(0, across).forEach((strength, k) => {
      const x = Math.floor(k * canvas.width / across), w = Math.max(1, Math.floor((k + 1) * canvas.width / across) - x);
      if (strength < 0) return hatchPatch(context, x, 0, w, canvas.height, PERIOD * ratio, theme);
      context.globalAlpha = COVER * strength;
      context.fillStyle = theme.accent;
      context.fillRect(x, 0, w, canvas.height);
      context.globalAlpha = 1;
    });
    return [context, ratio];
  }

  // A line round the frame that is the query.
  mark(context, frame, tall, ratio) {
    if (frame >= this.across) return;
    const { width } = context.canvas, x = frame * width / this.across, w = Math.max(3 * ratio, width / this.across);
    for (const [colour, line] of [["#000", 4], ["#fff", 2]]) {
      context.strokeStyle = colour;
      context.lineWidth = line * ratio;
      context.strokeRect(x - ratio, 0, w + 2 * ratio, tall);
    }
  }

  frameAt(canvas, event) {
    const box = canvas.getBoundingClientRect(), frame = Math.floor((event.clientX - box.left) / box.width * this.across);
    return frame >= 0 && frame < this.across ? frame : null;
  }

  // How much of the attention is on the sound, and where most of it is.
  say(weights) {
    const { heard, n, ofFrames } = this.picture, frames = Array.from({ length: heard }, (_, k) => k);
    const total = frames.reduce((sum, k) => sum + weights[k], 0), say = (text, className) => put(this.reading, "span", className, text);
    this.reading.replaceChildren();
    say(this.name(this.shown()), "token");
    say(heard < n ? ` gives ${percent(total)} of its attention to the sound, most to ` : " attends most to ");
    this.sayBest(frames, weights);
    if (heard < n) say(`${percent(1 - total)} is on the silence that is put after it. `);
    say(ofFrames ? "Click the sound to choose the query." : "Click a token to choose the query.", "quiet");
  }
}

// The spectrogram as a canvas of its own pixels, from the page's paper to its ink, and pale.
function spectrogramOf({ arrays, bands: tall }, theme) {
  const levels = arrays.spectrogram, wide = levels.length / tall;
  const made = [1, PALE].map((share) => {
    const canvas = Object.assign(document.createElement("canvas"), { width: wide, height: tall });
    const context = canvas.getContext("2d"), image = context.createImageData(wide, tall);
    for (let i = 0; i < levels.length; i++) {
      for (let c = 0; c < 3; c++) image.data[4 * i + c] = theme.paper[c] + (theme.ink[c] - theme.paper[c]) * share * levels[i] / 255;
      image.data[4 * i + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    return canvas;
  });
  return { plain: made[0], pale: made[1] };
}

function mount(given) {
  return mountOver(SoundMap, given);
}
