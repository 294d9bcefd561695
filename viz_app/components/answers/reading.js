// The row of attention of a token that answers: the tokens it could read, shaded by weight, hatched where they are masked.
function paint(element, share, theme) {
  const code = weightCode(share);
  element.style.background = css(theme.ramp[code]);
  element.style.color = theme.on(code);
}

class ReadRow {
  // In a section with a heading, or in a new one at the end of `parent`.
  constructor(section) {
    this.heading = section.querySelector("h3") ?? put(section, "h3");
    this.keys = section.querySelector(".keys") ?? put(section, "div", "keys");
    this.note = section.querySelector(".note") ?? put(section, "p", "note quiet");
  }

  // As a part of the table behind a picture (common/behind.js); `name` where there is no title.
  part(name = this.shown.reading.title) {
    const { reading, weights, allowed, only } = this.shown, value = (r) => (allowed[only[r]] ? weights[only[r]] : "masked");
    return { name, rows: only.map((k) => reading.keys[k][0]), columns: ["weight"], value };
  }

  // The keys of `only` these places, or all.
  show(reading, weights, allowed, theme, only = reading.keys.map((_, k) => k)) {
    this.shown = { reading, weights, allowed, only };
    this.heading.textContent = this.heading.title = reading.title;
    this.note.textContent = reading.note;
    const boxes = children(this.keys, only.length, (parent) => {
      const box = put(parent, "span");
      put(box, "b");
      put(box, "small");
    });
    boxes.forEach((box, i) => {
      const k = only[i], label = reading.keys[k], weight = weights[k], open = allowed[k];
      box.className = `read${label[2] ? " special" : ""}${k === reading.own ? " reads" : ""}`;
      box.dataset.state = open ? "open" : "masked";
      box.dataset.weight = open ? exact(weight) : "";
      box.children[0].textContent = shorten(label[0], 18);
      box.children[1].textContent = open ? weight.toFixed(2) : "\u00a0";
      if (open) paint(box, weight, theme);
      else box.style.background = box.style.color = "";
      box.title = open
        ? `${label[0]}: weight ${exact(weight)}${label[1] ? `; ${label[1]}` : ""}`
        : `${label[0]}: masked (${reading.blocked[k].join(", ")})`;
    });
  }
}
