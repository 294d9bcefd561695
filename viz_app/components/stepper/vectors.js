// A vector as one strip of colours, signed, on a scale that all steps of both runs share; hover shows its numbers.
class VectorStrip {
  constructor(parent, id) {
    this.title = put(parent, "div", "what");
    this.canvas = put(parent, "canvas", "vector");
    this.canvas.dataset.vector = id;
    this.canvas.onpointermove = (event) => this.read(event);
  }

  show(title, values, scale, theme) {
    this.values = values;
    this.title.textContent = `${title}, ${values.length} numbers, ±${brief(scale)}`;
    const columns = Array.from(values, (_, i) => `number ${i + 1}`);
    describe(this.canvas, { name: this.title.textContent, rows: [title], columns, value: (_, c) => values[c] });
    const width = Math.max(40, this.title.clientWidth), height = 18;
    const [context, ratio] = sized(this.canvas, width, height), ramp = signedRamp(theme);
    const wide = Math.round(width * ratio), ends = spans(values.length, wide);
    for (let x = 0; x < wide; x++) {
      context.fillStyle = ramp.css[signedCode(strongest(values, ends[2 * x], ends[2 * x + 1]), scale)];
      context.fillRect(x, 0, 1, height * ratio);
    }
    Object.assign(this.canvas.dataset, { first: exact(values[0]), last: exact(values.at(-1)) });
  }

  read(event) {
    const i = Math.max(0, Math.min(this.values.length - 1, Math.floor((event.offsetX / this.canvas.clientWidth) * this.values.length)));
    this.canvas.title = `number ${i + 1}: ${plain(this.values[i])}`;
  }
}
