// The answer's map, its list and its rows of attention.
class SpanView {
  constructor(root) {
    this.root = root;
    this.map = new SpanMap(root.querySelector("figure"));
    this.bars = new Bars(root.querySelector(".list"), null);
    this.rows = [];
  }

  show(picture, theme) {
    const { root } = this, write = (selector, text) => (root.querySelector(selector).textContent = text);
    write("h2", picture.title);
    write(".fact", picture.fact);
    write(".more", picture.more);
    const [before, answer, after] = picture.context, context = root.querySelector(".context");
    context.replaceChildren(before);
    put(context, "mark", "", answer);
    context.append(after);
    this.bars.show(picture.rows.map(([id, label, mark], i) => ({ id, label, mark, p: picture.arrays.p[i], rank: i + 1 })));
    this.map.show(picture, theme);
    const place = root.querySelector(".readings");
    while (this.rows.length > picture.readings.length) this.rows.pop().keys.parentElement.remove();
    while (this.rows.length < picture.readings.length) this.rows.push(new ReadRow(put(place, "section")));
    picture.readings.forEach((reading, i) =>
      this.rows[i].show(
        i < picture.readings.length - 1 ? { ...reading, note: "" } : reading,
        picture.arrays[`${i} weights`],
        picture.arrays[`${i} allowed`],
        theme,
      )
    );
    Object.assign(root.dataset, { start: picture.answer[0], end: picture.answer[1] });
    countPaint(root);
  }
}

function mount({ data, parentElement }) {
  const root = parentElement.querySelector(".span");
  const view = (root.view ??= new SpanView(root));
  view.show(unpack(data), themeOf(root));
  return () => view.map.watcher.disconnect();
}
