// One layer in full: every vector that it computes for the token, in the order of computation.
const SHORTEST = 24; // px of a strip
class Vectors extends Rows {
  show(picture, theme) {
    Object.assign(this, { picture, theme });
    this.root.querySelector("h3").textContent = picture.oneTitle;
    this.root.querySelector(".firing").textContent = picture.firing;
    showExperts(this.root.querySelector(".experts"), picture.experts);
    const columns = ["length", "mean", "spread", "peak"], rows = picture.rows.map((row) => row.name);
    describe(this.svg, { name: `${picture.title}. ${picture.oneTitle}`, rows, columns, value: (r, c) => picture.rows[r][columns[c]] });
    this.fit();
  }

  draw(width) {
    const { rows } = this.picture, cell = Math.max(42, Math.min(80, width * 0.09)), wide = width >= 520;
    const name = Math.min(172 * this.scale, Math.max(130, width * 0.36)), numbers = ["length", "mean", "spread", ...(wide ? ["peak"] : [])];
    const strip = Math.max(SHORTEST, width - name - numbers.length * (cell + 4) - 2 * GAP),
      right = (i) => width - (numbers.length - 1 - i) * (cell + 4);
    this.begin(width, rows.length);
    this.head(0, "vector", name);
    this.head(name + GAP, "its numbers", strip);
    numbers.forEach((id, i) => this.head(right(i), { peak: "±" }[id] ?? id, cell, "end"));
    rows.forEach((row, line) => {
      const y = TOP_ROOM + line * this.line, strong = row.kind === "stream" || (row.kind === "normed" && row.name.endsWith("stream"));
      const values = this.picture.arrays[row.array];
      if (row.kind === "added" && line > 1) {
        this.put("line", { x1: 0, x2: width, y1: y, y2: y, stroke: this.theme.line, "stroke-dasharray": "2 3" });
      }
      this.write(2, y + this.line / 2, row.name, name, { bold: strong });
      this.strip(name + GAP, y, strip, values, this.picture.scales[row.array]);
      this.place(name + GAP, y, strip, (share) => {
        const i = Math.floor(share * values.length);
        return [`${row.name}, number ${i + 1} of ${values.length}`, values[i], row.kind, line, i];
      });
      numbers.forEach((id, i) => {
        this.write(right(i), y + this.line / 2, brief(row[id]), cell, { anchor: "end", quiet: id === "peak" });
        this.place(right(i) - cell, y, cell, () => [`${row.name}: ${{ peak: "largest number, by size" }[id] ?? id}`, row[id], id, line]);
      });
    });
  }
}
