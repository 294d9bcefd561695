// What a frame of a sound, or a token of the text that is written from it, reads of the sound: its spectrogram, the chosen head's
// weights over it, and those of all heads of the layer, small.
const TALL = 84, TALLEST = 150, SMALL = { wide: 150, tall: 34 }, AXIS = 16, TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10]; // CSS pixels; s

class SoundMap extends Fitted {
  constructor(root) {
    super(root);
    const find = (selector) => root.querySelector(selector);
    Object.assign(this, {
      plain: find(".plain"),
      cells: find(".cells"),
      queries: find(".queries"),
      small: find(".small"),
      tip: find(".tip"),
      reading: find(".reading"),
      extent: find(".extent"),
      buttons: [],
      isWhole: false,
    });
    this.plain.onpointermove = (event) => this.picture.ofFrames && this.hover(this.frameAt(this.plain, event));
    this.plain.onpointerleave = () => this.hover(null);
    this.plain.onclick = (event) => this.picture.ofFrames && this.hold(this.frameAt(this.plain, event));
    useKeys(this.plain, {
      ...arrows((down, right) => this.hold(Math.max(0, Math.min(this.picture.queries.length - 1, this.query + (right || down))))),
      Escape: () => this.picture.lock ? this.send("lock", { token: "" }) : false,
    });
    this.cells.onpointermove = (event) => this.point(this.frameAt(this.cells, event), event);
    this.cells.onpointerleave = () => (this.tip.hidden = true);
    this.extent.onclick = () => {
      this.isWhole = !this.isWhole;
      this.paint();
    };
    offerCanvas(
      find(".files"),
      () => sharply(() => this.paint(), () => saveCanvas(this.cells, this.heading(), this.picture, this.theme, [this.key()])),
      () => [this.cells.parentElement, this.picture],
    );
  }

  show(picture, theme) {
    const { weights } = picture.arrays, n = picture.keys.length;
    Object.assign(picture, { n, hasAll: weights.length === n * picture.queries.length });
    Object.assign(this, { picture, theme, hovered: null, image: spectrogramOf(picture, theme) });
    this.query = picture.query;
    this.root.classList.toggle("of-frames", picture.ofFrames);
    this.root.querySelector(".title").textContent = picture.title;
    this.root.querySelector(".sound").textContent = `${
      picture.isInput ? "The sound as the model reads it" : "The sound. The model reads its waveform"
    }: time across, frequency up`;
    this.root.querySelector(".chip").style.background = headColour(picture.head);
    this.root.querySelector(".layer").textContent = `${picture.layer}: all heads`;
    const { ramp } = theme;
    this.root.querySelector(".bar").style.background = `linear-gradient(to right, ${css(ramp[1])}, ${css(ramp[128])}, ${css(ramp[255])})`;
    this.root.querySelector(".says").textContent = `0 to ${SCALES[picture.scale].says}`;
    this.tip.hidden = true;
    this.lay();
    this.fit();
    const { site, head } = picture;
    Object.assign(this.root.dataset, { site, head, query: this.query, painted: (Number(this.root.dataset.painted) || 0) + 1 });
  }

  heading() {
    return `${this.picture.title}: query ${this.name(this.shown())}`;
  }

  key() {
    return { ...weightKey(this.theme), most: "", says: SCALES[this.picture.scale].says };
  }

  name(query) {
    return this.picture.queries[query][0];
  }

  // The buttons: the tokens of a text that reads the sound, and the heads.
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

  draw() {
    this.paint();
  }

  shown() {
    return this.hovered ?? this.query;
  }

  // The number of frames that are drawn: those that hold the sound, or all.
  get across() {
    return this.isWhole ? this.picture.n : this.picture.heard;
  }

  paint() {
    const { picture, theme, image } = this, { ofFrames } = picture, query = this.shown(), scale = scaleOf();
    const wide = this.width, tall = Math.min(TALLEST, TALL * scale), [weights, blocked] = this.rowOf(query);
    this.paintExtent();
    const [context, ratio] = sized(this.plain, wide, tall + AXIS * scale);
    this.stretch(context, image.plain, tall * ratio);
    this.paintAxis(context, tall * ratio, ratio * scale);
    if (ofFrames) this.mark(context, query, tall * ratio, ratio);
    const [over] = this.paintWeights(this.cells, wide, tall, weights, blocked);
    if (ofFrames) this.mark(over, query, this.cells.height, ratio);
    describe(this.cells, { name: this.heading(), rows: [this.name(query)], columns: picture.keys, value: (_, k) => weights[k] });
    const what = ofFrames ? `; the query is the frame at ${this.name(query)}` : "";
    describe(this.plain, { name: `The sound's spectrogram, ${picture.heard} frames${what}`, rows: [], columns: [], value: () => 0 });
    this.root.querySelector(".what").textContent = `What ${ofFrames ? "the frame at " : ""}${this.name(query)} attends to`;
    this.tokens.forEach((button, i) => button.setAttribute("aria-pressed", String(i === query)));
    this.say(weights);
    this.paintHeads(scale);
    Object.assign(this.root.dataset, { shown: query, across: this.across });
  }

  paintExtent() {
    const { heard, n, step } = this.picture, long = (frames) => `${(frames * step).toFixed(1)} s`;
    this.extent.hidden = heard === n;
    this.extent.textContent = this.isWhole ? `Show the sound alone, ${long(heard)}` : `Show all ${long(n)}, with the silence after it`;
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

  paintWeights(canvas, wide, tall, weights, blocked) {
    const { picture, theme, image, across } = this, [context, ratio] = sized(canvas, wide, tall);
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

  paintHeads(scale) {
    const { picture } = this, { n } = picture;
    const wide = Math.min(SMALL.wide * scale, this.width), tall = SMALL.tall * scale;
    this.buttons.forEach((button, head) => {
      const of = (array) => array.subarray(head * n, (head + 1) * n);
      this.paintWeights(button.querySelector("canvas"), wide, tall, of(picture.arrays.heads), of(picture.arrays.headsBlocked));
      button.style.setProperty("--head", headColour(head));
      button.setAttribute("aria-pressed", String(head === picture.head));
      button.setAttribute("aria-label", `${picture.layer}, head ${head + 1}: what ${this.name(picture.query)} attends to`);
    });
  }

  // The chosen head's weights of a query, and where masks block it.
  rowOf(query) {
    const { n, first, arrays } = this.picture, start = (query - first) * n;
    return [arrays.weights.subarray(start, start + n), arrays.blocked.subarray(start, start + n)];
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

  // A query that is pointed at is shown for as long, where its row is here.
  hover(query) {
    const shown = this.picture.hasAll ? query : null;
    if (shown === this.hovered) return;
    this.hovered = shown;
    this.paint();
  }

  hold(query) {
    if (query === null) return;
    this.query = this.picture.hasAll ? query : this.query;
    this.hovered = null;
    this.send("lock", { token: `q${query}` });
    if (this.picture.hasAll) this.paint();
  }

  // How much of the attention is on the sound, and where most of it is.
  say(weights) {
    const { picture } = this, { heard, keys, n } = picture, sound = Array.from(weights.subarray(0, heard), (weight, k) => [weight, k]);
    const total = sound.reduce((sum, [weight]) => sum + weight, 0), best = sound.sort((a, b) => b[0] - a[0]).slice(0, 3);
    this.reading.replaceChildren();
    const say = (text, className) => put(this.reading, "span", className, text);
    say(this.name(this.shown()), "token");
    say(heard < n ? ` gives ${percent(total)} of its attention to the sound, most to ` : " attends most to ");
    best.forEach(([weight, k], i) => {
      say(keys[k], "token");
      say(` ${weight.toFixed(3)}${i < best.length - 1 ? ", " : ". "}`);
    });
    if (heard < n) say(`${percent(1 - total)} is on the silence that is put after it. `);
    say(picture.ofFrames ? "Click the sound to choose the query." : "Click a token to choose the query.", "quiet");
  }

  point(frame, event) {
    this.tip.hidden = frame === null;
    if (this.tip.hidden) return;
    const { picture } = this, [weights, blocked] = this.rowOf(this.shown()), masks = picture.masks.filter((_, i) => blocked[frame] & (1 << i));
    this.tip.querySelector(".where").textContent = `${this.name(this.shown())} → ${picture.keys[frame]}`;
    this.tip.querySelector(".value").textContent = masks.length ? `masked (${masks.join(", ")})` : `weight ${exact(weights[frame])}`;
    Object.assign(this.tip.dataset, { query: this.shown(), key: frame, weight: exact(weights[frame]) });
    const box = this.root.getBoundingClientRect();
    this.tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left + 16, this.width - this.tip.offsetWidth))}px`;
    this.tip.style.top = `${event.clientY - box.top + 18}px`;
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

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".sound-map");
  const view = (root.view ??= new SoundMap(root));
  view.send = (name, value) => setTriggerValue(name, value);
  view.show(unpack(data), themeOf(root));
  return () => view.watcher.disconnect();
}
