// Which keys and values are computed at a step and which are kept, and how the number of operations of a step grows without the cache.
const WITHOUT = "#E69F00";
const HOLLOW = { fill: WITHOUT, "fill-opacity": 0.15, stroke: WITHOUT }; // distinguishable without colours, too

class Cost {
  constructor(root) {
    const keys = root.querySelector(".keys");
    this.lines = ["with", "without", "cross"].map((name) => {
      const line = put(keys, "div", name);
      return { text: put(line, "p"), boxes: put(line, "div", "boxes") };
    });
    this.sum = put(keys, "p", "sum");
    this.svg = root.querySelector(".chart svg");
    this.svg.setAttribute("preserveAspectRatio", "xMinYMin");
    this.note = root.querySelector(".chart .note");
  }

  show(picture, theme) {
    const scale = scaleOf();
    Object.assign(this, { picture, theme, width: this.svg.clientWidth / scale, height: 150 / scale });
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.marks = [];
    if (!picture.work || this.width <= 0) return; // the model's products are not counted, or another picture is shown
    this.note.textContent = "Multiply-adds of the decoder's matrix products at each step, counted from the model's sizes.";
    this.svg.replaceChildren();
    const { cached, uncached } = picture.work, steps = cached.length;
    const left = 58, top = 22, floor = this.height - 22, most = picture.most;
    const pitch = (this.width - left - 8) / steps, y = (v) => floor - ((floor - top) * v) / most;
    const text = (x, y, label, more = {}) => this.draw("text", { x, y, "font-size": 12, fill: theme.quiet, ...more }, label);
    for (const v of [0, most / 2, most]) {
      this.draw("line", { x1: left, x2: this.width - 6, y1: y(v), y2: y(v), stroke: theme.line });
      text(left - 5, y(v) + 4, millions(v), { "text-anchor": "end" });
    }
    this.draw("rect", { x: left, y: 4, width: 10, height: 10, ...HOLLOW });
    text(left + 14, 13, "without cache");
    this.draw("rect", { x: left + 104, y: 4, width: 10, height: 10, fill: theme.accent });
    text(left + 118, 13, "with cache");
    const name = "Multiply-adds of each step with and without the cache", rows = cached.map((_, i) => `step ${i + 1}`);
    describe(this.svg, { name, rows, columns: ["without cache", "with cache"], value: (r, c) => (c ? cached : uncached)[r] });
    const wide = Math.max(1, Math.min(14, pitch * 0.4));
    this.marks = cached.map((v, i) => {
      const middle = left + (i + 0.5) * pitch, group = this.draw("g", {});
      this.draw("rect", { x: middle - wide, y: y(uncached[i]), width: wide, height: floor - y(uncached[i]), ...HOLLOW }, undefined, group);
      this.draw("rect", { x: middle, y: y(v), width: wide, height: floor - y(v), fill: theme.accent }, undefined, group);
      this.draw("title", {}, `step ${i + 1}: ${uncached[i].toLocaleString("en")} without, ${v.toLocaleString("en")} with the cache`, group);
      return group;
    });
    const every = Math.ceil(18 / pitch);
    for (let i = 0; i < steps; i += every) text(left + (i + 0.5) * pitch, floor + 14, String(i + 1), { "text-anchor": "middle" });
    text(left - 5, floor + 14, "step", { "text-anchor": "end" });
  }

  draw(tag, attributes, text, parent = this.svg) {
    return putSvg(parent, tag, attributes, text);
  }

  at(step) {
    if (!this.picture.work) return;
    const { work } = this.picture, { cached, uncached, parallel } = work, now = Math.min(step, cached.length - 1);
    if (this.picture.family === "recurrent") this.state(now);
    else this.keys(now);
    const total = (row) => row.slice(0, now + 1).reduce((a, b) => a + b, 0);
    const [spent, would] = [total(cached), total(uncached)];
    this.sum.textContent =
      `${now ? `Steps 1 to ${now + 1} together` : "Step 1"}: ${millions(spent)} multiply-adds with the cache, ${millions(would)} without (${
        (would / spent).toFixed(1)
      } ×). ` +
      WORDING[this.picture.family].sum(this.picture.parallel.n, millions(parallel));
    Object.assign(this.sum.dataset, { cached: spent, uncached: would, parallel });
    this.marks.forEach((mark, i) => mark.setAttribute("opacity", i <= now ? 1 : 0.35));
  }

  // What a Transformer's cache holds: keys and values of its own text and of the source.
  keys(now) {
    const { work, serial, prompt } = this.picture, { layers, source } = work, kept = serial.cached[now];
    const [cache, none, cross] = this.lines, first = now === 0, all = prompt.length + now + 1, fresh = first ? all : 1;
    const each = layers
      ? `${count(kept, "key and value", "keys and values")} kept, ${fresh} computed now (in ${
        layers === 1 ? "the decoder's one layer" : `each of the decoder's ${layers} layers`
      })`
      : "1 position computed now; its own text is not read, so none of it is kept";
    this.fill(cache, `With the cache: ${each}.`, kept, fresh, prompt.length + serial.n);
    this.fill(
      none,
      first ? `Without it: the same ${all}.` : `Without it: all ${all} computed, ${all - 1} of them again.`,
      0,
      all,
      prompt.length + serial.n,
    );
    [cross.text, cross.boxes].forEach((part) => (part.hidden = !source));
    if (!source) return;
    this.fill(
      cross,
      `Of the source: ${first ? `all ${source} keys and values computed now, once for all steps` : `all ${source} kept since step 1`}.`,
      first ? 0 : source,
      first ? source : 0,
      source,
    );
  }

  // What a recurrence keeps: one state, however long the text is; with an alignment, also U h of the source.
  state(now) {
    const { work, serial, cross } = this.picture, { source, state } = work, [cache, none, memory] = this.lines, first = now === 0;
    const from = first ? "computed from h(m)" : "kept";
    this.fill(
      cache,
      `The state s(${now}), ${state} numbers, is ${from}; 1 step computed now. Its earlier text is not read again.`,
      0,
      1,
      serial.n,
    );
    this.fill(
      none,
      first ? "Without it: the same 1 step." : `Without it: all ${now + 1} steps computed from s(0) on, ${now} of them again.`,
      0,
      now + 1,
      serial.n,
    );
    const kept = first ? `U h of all ${source} tokens computed now, once for all steps` : `U h of all ${source} tokens kept since step 1`;
    this.fill(
      memory,
      cross ? `Of the source: ${kept}.` : "Of the source: only h(m), from which s(0) is computed.",
      cross && !first ? source : 0,
      cross && first ? source : 0,
      cross ? source : 0,
    );
  }

  fill({ text, boxes }, sentence, kept, now, all) {
    text.textContent = sentence;
    children(boxes, all, () => put(boxes, "i")).forEach((box, i) => (box.className = i < kept ? "kept" : i < kept + now ? "now" : "later"));
    Object.assign(boxes.dataset, { kept, now });
  }
}

const count = (n, one, many) => `${n} ${n === 1 ? one : many}`;

// 1,234,567 as 1.23 M.
function millions(v) {
  if (v >= 1e9) return `${(v / 1e9).toFixed(2)} G`;
  if (v >= 1e6) return `${(v / 1e6).toFixed(2)} M`;
  return v >= 1e3 ? `${(v / 1e3).toFixed(0)} k` : String(Math.round(v));
}
