// The most probable next tokens as bars from 0 to 1; where `force` is given, a click on one takes it instead.
class Bars {
  constructor(parent, force) {
    this.box = put(parent, "div", "bars");
    this.force = force;
    this.rows = [];
  }

  // rows: [{id, label, p, drawn, mark, rank}]; `mark` says why a row stands out ("given", "written", "forced" or "").
  show(rows) {
    this.shown = rows;
    while (this.rows.length > rows.length) this.rows.pop().remove();
    while (this.rows.length < rows.length) this.rows.push(this.row());
    rows.forEach((row, i) => this.fill(this.rows[i], row));
  }

  // As a part of the table behind a picture (common/behind.js).
  part(name) {
    const { shown } = this;
    return { name, rows: shown.map(({ label }) => label[0]), columns: ["probability"], value: (r) => shown[r].p };
  }

  row() {
    const row = put(this.box, this.force ? "button" : "div", "bar");
    if (this.force) row.type = "button";
    put(row, "span", "token");
    const track = put(row, "span", "track");
    put(track, "i");
    put(track, "u");
    put(row, "span", "number");
    put(row, "span", "mark");
    return row;
  }

  fill(element, { id, label, p, drawn, mark, rank, fixed }) {
    const [token, track, number, note] = element.children, [bar, frame] = track.children;
    token.textContent = shorten(label[0], 16);
    bar.style.width = `${100 * p}%`;
    frame.hidden = drawn === undefined;
    if (drawn !== undefined) frame.style.width = `${100 * drawn}%`;
    number.textContent = decimals(p);
    note.textContent = mark + (mark && rank > 1 ? `, rank ${rank}` : "");
    element.classList.toggle("taken", Boolean(mark));
    const detail = `probability ${exact(p)}${drawn === undefined ? "" : `, drawn with ${exact(drawn)}`}${label[1] ? `, ${label[1]}` : ""}`;
    Object.assign(element.dataset, { id, p: exact(p), mark });
    element.title = `${label[0]}: ${detail}`;
    if (!this.force) return;
    element.disabled = Boolean(fixed);
    element.title += mark === "forced" ? ". Click to let the model choose here again." : ". Click to force this token and continue from it.";
    element.onclick = () => this.force(id);
  }
}

// Three decimals; a value that would round to 0 or to 1 is shown as a bound.
const decimals = (p) => (p > 0 && p < 0.0005 ? "<.001" : p < 1 && p >= 0.9995 ? ">.999" : p.toFixed(3));
