// All heads of one kind, a row for each, sorted by a measure; a heading sorts them by its measure, a tick draws a head's lines.
class Ranking {
  constructor(root, on) {
    Object.assign(this, { root, on, head: root.querySelector("thead tr"), body: root.querySelector("tbody") });
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    const { measures, measure, order } = picture, chosen = measures.find((one) => one.id === measure) ?? measures[0];
    this.headings(measures, chosen);
    const rows = children(this.body, order.length, (body) => put(body, "tr"));
    order.forEach((number, place) => this.row(rows[place], number, measures));
    const line = this.root.querySelector(".measure");
    line.querySelector("b").textContent = `${chosen.name}, ${chosen.unit}:`;
    setFormula(line.querySelector(".formula"), chosen.formula);
    line.querySelector(".says").textContent = chosen.there ? chosen.says : `${chosen.says} This text has nothing to measure.`;
  }

  headings(measures, chosen) {
    while (this.head.children.length > measures.length + 1) this.head.lastChild.remove();
    const name = this.head.children[0] ?? put(this.head, "th", "name");
    name.textContent = "layer.head";
    measures.forEach((measure, i) => {
      const cell = this.head.children[i + 1] ?? put(this.head, "th"), button = cell.firstChild ?? put(cell, "button");
      cell.toggleAttribute("aria-sort", false);
      if (measure === chosen) cell.setAttribute("aria-sort", measure.id === "entropy" ? "ascending" : "descending");
      Object.assign(button, {
        type: "button",
        title: `Sort the heads by: ${measure.name}. ${measure.says}`,
        onclick: () => this.on.measure(measure.id),
      });
      button.textContent = `${measure.name}${measure === chosen ? " ▾" : ""}`;
    });
  }

  row(row, number, measures) {
    const { heads, arrays, chosen, widest } = this.picture, { head, name } = heads[number];
    while (row.children.length > measures.length + 1) row.lastChild.remove();
    const cell = row.children[0] ?? put(row, "td", "name"), label = cell.firstChild ?? put(cell, "label");
    const box = label.children[0] ?? put(label, "input"),
      chip = label.children[1] ?? put(label, "span", "chip"),
      text = label.children[2] ?? put(label, "span");
    Object.assign(box, { type: "checkbox", checked: chosen.includes(number), onchange: () => this.on.head(number) });
    chip.style.background = headColour(head);
    text.textContent = name;
    row.dataset.head = number;
    measures.forEach(({ id }, i) => {
      const value = arrays[id]?.[number], place = row.children[i + 1] ?? put(row, "td");
      const code = value === undefined ? 0 : weightCode(id === "entropy" ? value / widest : value);
      place.textContent = value === undefined ? "–" : value.toFixed(2);
      place.title = value === undefined ? "" : exact(value);
      place.style.background = value === undefined ? "" : css(this.theme.ramp[code]);
      place.style.color = value === undefined ? "" : this.theme.on(code);
    });
  }
}
