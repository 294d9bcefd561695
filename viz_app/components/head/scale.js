// How strongly a weight is drawn, in its cell and as a line; the same functions as drawing/scale.py. `says` is the key's end,
// `names` what a file's title adds.
const SCALES = {
  weight: { of: (w) => w, says: "1  weight", names: "" },
  row: { of: (w, largest) => (largest > 0 ? w / largest : 0), says: "the largest of its row", names: "each row by its largest weight" },
  root: { of: (w) => Math.sqrt(w), says: "1  √weight: the middle is 0.25", names: "square root of the weights" },
};

// Strengths 0 … 1 of a picture's weights under its scale. A hidden column has 0, and the largest of a row is taken over the others.
function strengthsOf({ arrays, rows, cols, scale, hidden }) {
  const { weights, largest } = arrays, strengths = new Float32Array(rows * cols), { of } = SCALES[scale];
  for (let q = 0; q < rows; q++) {
    let most = largest ? largest[q] : 0;
    if (!largest) { for (let k = 0; k < cols; k++) if (!hidden.has(k)) most = Math.max(most, weights[q * cols + k]); }
    for (let k = 0; k < cols; k++) if (!hidden.has(k)) strengths[q * cols + k] = of(weights[q * cols + k], most);
  }
  return strengths;
}

// The switches over the picture: the scale, and whether [start] and [end] are hidden. The choice shows at once; an older
// answer from Python does not undo it.
class Switches {
  constructor(root, choose) {
    this.select = root.querySelector(".scale");
    this.box = root.querySelector(".sinks input");
    this.label = root.querySelector(".sinks");
    this.note = root.querySelector(".sunk");
    const chosen = (asked) => {
      this.waiting = { scale: this.select.value, hides: this.box.checked };
      choose({ ...this.waiting, scale: asked });
    };
    this.select.onchange = () => chosen(this.select.value);
    this.box.onchange = () => chosen(this.waiting?.scale ?? this.asked);
  }

  // Sets the picture's scale and its hidden columns.
  show(picture) {
    const { waiting } = this, { sinks, sinkNames, sinkShare, first, block } = picture;
    if (waiting && waiting.scale === picture.scale && waiting.hides === picture.hides) this.waiting = undefined;
    this.asked = picture.asked ?? picture.scale; // "auto" until one is chosen
    const { scale, hides } = this.waiting ?? picture, names = [...new Set(sinkNames)].join(" and ");
    Object.assign(picture, { scale, hides, hidden: new Set(hides && block === 1 ? sinks.map((key) => key - first[1]) : []) });
    this.select.value = scale;
    this.box.checked = hides;
    this.label.style.visibility = this.note.style.visibility = sinks.length ? "visible" : "hidden";
    this.label.lastChild.textContent = `hide ${names}`;
    const share = percent(sinkShare);
    this.note.textContent = hides ? `${names} hidden: ${share} of the weight goes there` : `(${share} of the weight)`;
  }
}
