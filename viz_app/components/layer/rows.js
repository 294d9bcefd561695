// What both panels draw with: an SVG of rows of one height, in which each number has a place to be pointed at.
const LINE = 22, TOP_ROOM = 24, SMALL = 12, GAP = 8;
const WIDE = [950, 1600], LARGER = 1.35; // px of both panels together, and how much larger all is drawn at the second

const EXPLAINED = {
  adds: "Length of the vector that the part adds to the stream",
  makes: "Length of the vector that replaces the stream",
  cosine: "Direction of that vector: cosine with the stream the part read. 1: more of what is there, 0: something new, −1: takes it away",
  stream: "Length of the token's vector after the part",
  length: "Euclidean length of the vector",
  mean: "Mean of the vector's numbers",
  spread: "Standard deviation of the vector's numbers",
  "±": "The largest number of the vector, by size: the end of its colours",
};

class Rows extends Fitted {
  constructor(section, on) {
    super(section);
    this.svg = section.querySelector("svg");
    this.on = on;
  }

  // How much larger than on a small screen; the same in both panels.
  get scale() {
    const share = (this.root.parentElement.clientWidth - WIDE[0]) / (WIDE[1] - WIDE[0]);
    return 1 + (LARGER - 1) * Math.max(0, Math.min(1, share));
  }

  // The height that a row has at least, px.
  get least() {
    return 0;
  }

  begin(width, rows) {
    this.grown = this.scale;
    this.letters = 12.5 * Math.max(this.grown, scaleOf() > 1 ? scaleOf() * 0.965 : 1); // in a presentation, larger in rows of the same height
    this.line = Math.max(Math.round(LINE * this.grown), this.least);
    const height = TOP_ROOM + rows * this.line + 2;
    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("height", height);
    this.measure = widthIn(`12.5px ${this.theme.font}`);
  }

  put(tag, attributes, text, parent = this.svg) {
    return putSvg(parent, tag, attributes, text);
  }

  write(x, y, text, room, { anchor = "start", bold = false, quiet = false, size = this.letters, parent = this.svg, ink } = {}) {
    const shown = fit(text, room, (t) => ((this.measure(t) * size) / 12.5) * (bold ? 1.06 : 1));
    return this.put(
      "text",
      {
        x,
        y,
        "text-anchor": anchor,
        "dominant-baseline": "central",
        "font-size": size,
        "font-weight": bold ? 600 : 400,
        fill: ink ?? (quiet ? this.theme.quiet : this.theme.text),
        "font-variant-numeric": "tabular-nums",
        style: "unicode-bidi: plaintext; pointer-events: none; white-space: pre",
      },
      shown,
      parent,
    );
  }

  // The heading of a column, explained on hover.
  head(x, text, room, anchor = "start") {
    const heading = this.write(x, TOP_ROOM - 11, text, room, {
      size: SMALL * Math.max(Math.min(1.17, this.grown), scaleOf()),
      quiet: true,
      anchor,
    });
    heading.style.pointerEvents = "auto";
    if (EXPLAINED[text]) this.put("title", {}, EXPLAINED[text], heading);
  }

  // A bar as long as the share of a number in the largest, with the number on it.
  bar(x, y, wide, value, largest, parent, text = brief(value)) {
    this.put(
      "rect",
      { x, y: y + 3, width: wide, height: this.line - 6, fill: this.theme.background, stroke: this.theme.line },
      undefined,
      parent,
    );
    this.put(
      "rect",
      {
        x,
        y: y + 3,
        width: (wide * Math.min(1, largest ? value / largest : 0)).toFixed(1),
        height: this.line - 6,
        fill: this.theme.accent,
        "fill-opacity": 0.28,
      },
      undefined,
      parent,
    );
    this.write(x + wide - 4, y + this.line / 2, text, wide, { anchor: "end", parent });
  }

  // A number on the colours of what is signed, from −1 to 1.
  signed(x, y, wide, value, parent) {
    const ramp = signedRamp(this.theme), code = signedCode(value, 1);
    this.put("rect", { x, y: y + 3, width: wide, height: this.line - 6, fill: ramp.css[code], stroke: this.theme.line }, undefined, parent);
    this.write(x + wide / 2, y + this.line / 2, brief(value), wide, { anchor: "middle", parent, ink: ramp.inks[code] });
  }

  // A vector as a strip: one pixel for each number, or where there are more numbers than pixels, the one furthest from 0.
  strip(x, y, wide, values, peak) {
    const n = Math.min(values.length, Math.floor(wide)), ends = spans(values.length, n), canvas = document.createElement("canvas");
    canvas.width = n;
    canvas.height = 1;
    const context = canvas.getContext("2d"), image = context.createImageData(n, 1), out = new Uint32Array(image.data.buffer);
    const { packed } = signedRamp(this.theme);
    for (let i = 0; i < n; i++) out[i] = packed[signedCode(strongest(values, ends[2 * i], ends[2 * i + 1]), peak)];
    context.putImageData(image, 0, 0);
    this.put("image", {
      x,
      y: y + 3,
      width: wide,
      height: this.line - 6,
      href: canvas.toDataURL(),
      preserveAspectRatio: "none",
      style: "image-rendering: pixelated",
    });
    this.put("rect", { x, y: y + 3, width: wide, height: this.line - 6, fill: "none", stroke: this.theme.line });
  }

  // An area that shows on hover what is there; `say` gets how far along it the pointer is, from 0 to 1.
  place(x, y, wide, say, parent) {
    const pad = this.put("rect", { x, y, width: wide, height: this.line, fill: "transparent" }, undefined, parent);
    pad.onpointermove = (event) => {
      const box = pad.getBoundingClientRect();
      this.on.tip(say(Math.min(0.9999, Math.max(0, (event.clientX - box.left) / box.width))), event);
    };
    pad.onpointerleave = () => this.on.tip(null);
    return pad;
  }
}
