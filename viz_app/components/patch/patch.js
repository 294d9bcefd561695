// One part of a run taken from another, tried for every part and both ways: on each side a grid of cells, position by layer, and a
// board of heads. A click or Enter takes a part; dragging it from the other side, whose run it comes from, takes it too.
const NUMBERED = 8; // columns of cells, and heads side by side, up to which numbers are written
const HEAD = { least: 17, number: 34, most: 42 }; // px of a head's cell; from `number` on it has room for its number
const FAR = 6; // px from which a press is a drag

// The numbers of one side as parts of the table behind a picture (common/behind.js).
function numbersOf({ title, grid, kinds }, unit) {
  const cells = grid && {
    name: `${title}. ${grid.title}, ${unit}`,
    rows: grid.layers,
    columns: positions(grid.tokens),
    value: (row, i) => (grid.aligned[i] ? grid.effects[row][i] ?? "" : "no counterpart"),
  };
  const named = kinds.map((kind) => ({ ...kind, title: `${title}. ${kind.title}` }));
  return [...(cells ? [cells] : []), ...headParts(named, unit, ({ effects }, row, head) => effects[row][head])];
}

// A board names its layers unless the board before it has the same ones.
const namesLayers = (kinds, i) => String(kinds[i - 1]?.layers) !== String(kinds[i].layers);

class Patch {
  constructor(root) {
    this.root = root;
    this.place = root.querySelector(".panels");
    offerPage(root, () => {
      const { picture, theme } = this, { measured, unit, panels } = picture;
      return [measured, picture, theme, panels.flatMap((panel) => numbersOf(panel, unit))];
    });
  }

  show(picture, theme) {
    const { root } = this, { measured, unit, largest, hint, is_tried: isTried, panels } = picture;
    Object.assign(this, { picture, theme, ramp: signedRamp(theme) });
    root.querySelector(".measured").textContent = measured;
    root.querySelector(".hint").textContent = hint;
    root.querySelector(".key").hidden = !isTried;
    root.querySelector(".least").textContent = isTried ? `${scaleEnd("−", largest)} ${unit}` : "";
    root.querySelector(".most").textContent = isTried ? `${scaleEnd("+", largest)} ${unit}` : "";
    root.querySelector(".key").style.background = `linear-gradient(to right, ${this.ramp.css.join(",")})`;
    const shape = JSON.stringify(
      panels.map(({ grid, kinds }) => [grid && [grid.names, grid.tokens.length], kinds.map(({ sites, heads }) => [sites, heads])]),
    );
    if (shape !== this.shape) this.build(panels);
    this.shape = shape;
    panels.forEach((panel, i) => this.fill(panel, this.parts[i]));
    countPaint(root);
  }

  build(panels) {
    this.place.replaceChildren();
    this.parts = panels.map(({ side, grid, kinds }) => {
      const box = put(this.place, "section", "panel");
      box.dataset.side = side;
      const part = { title: put(box, "h2"), means: put(box, "p", "means quiet"), sentence: put(box, "p", "sentence") };
      part.sentence.setAttribute("role", "status");
      if (grid) part.grid = this.grid(put(box, "div", "scroll"), side, grid);
      const boards = put(box, "div", "kinds"), cell = this.headCell(boards, kinds);
      this.wide = cell >= HEAD.number * Math.min(scaleOf(), 1.2);
      part.kinds = kinds.map((kind, i) => this.kind(boards, side, kind, cell, namesLayers(kinds, i)));
      return part;
    });
  }

  // The width of a head's cell at which the boards of all kinds of attention fit side by side, if one is wide enough.
  headCell(boards, kinds) {
    const heads = kinds.reduce((n, { heads }) => n + heads, 0), names = 64 * scaleOf();
    if (heads > NUMBERED) return HEAD.least;
    const room = (boards.clientWidth - names * kinds.filter((_, i) => namesLayers(kinds, i)).length - 8 * (kinds.length - 1)) / heads - 2;
    return Math.max(HEAD.least, Math.min(HEAD.most, Math.floor(room)));
  }

  grid(place, side, { names, layers, tokens }) {
    const table = put(place, "table", "cells"), head = put(put(table, "thead"), "tr"), body = put(table, "tbody");
    table.style.setProperty("--n", tokens.length);
    put(head, "th", "row", "Layer").scope = "col";
    const columns = tokens.map(() => {
      const column = put(head, "th");
      column.scope = "col";
      return put(column, "span");
    });
    const lines = names.map((name, row) => {
      const line = put(body, "tr");
      put(line, "th", "row", layers[row]).scope = "row";
      return tokens.map((_, i) => this.button(put(line, "td"), { side, what: "cell", name, number: i }));
    });
    this.walk(lines);
    return { table, columns, lines };
  }

  kind(place, side, { title, short, sites, layers, heads }, cell, isNamed) {
    const section = put(place, "section", "kind"), isNarrow = cell * heads < 200 * scaleOf();
    const name = put(section, "h3", "", isNarrow ? short : title), table = put(section, "table");
    section.style.setProperty("--cell", `${cell}px`);
    table.setAttribute("aria-label", title);
    name.title = title;
    const lines = sites.map((site, row) => {
      const line = put(table, "tr");
      if (isNamed || isPhone()) put(line, "th", "row", this.wide ? `Layer ${layers[row]}` : `L${layers[row]}`).scope = "row";
      return Array.from({ length: heads }, (_, head) => this.button(put(line, "td"), { side, what: "head", name: site, number: head }));
    });
    this.walk(lines);
    return lines;
  }

  button(place, part) {
    const button = put(place, "button");
    button.type = "button";
    Object.assign(button.dataset, part);
    button.onclick = () => (this.dragged ? (this.dragged = false) : this.take(part));
    button.onpointerdown = (event) => this.drag(button, part, event);
    return button;
  }

  // Each table is one stop of the Tab key; the arrows move within it.
  walk(lines) {
    lines.forEach((line, row) =>
      line.forEach((button, column) => {
        button.tabIndex = row || column ? -1 : 0;
        useKeys(
          button,
          arrows((down, right) => {
            const next = lines[row + down]?.[column + right];
            if (!next || next.hidden) return false;
            lines.flat().forEach((one) => (one.tabIndex = -1));
            next.tabIndex = 0;
            next.focus();
          }),
        );
      })
    );
  }

  fill({ side, title, means, text, sentence, grid, kinds }, part) {
    part.title.textContent = title;
    part.title.title = text;
    part.means.textContent = means;
    part.sentence.textContent = sentence;
    if (grid) this.fillGrid(side, grid, part.grid);
    kinds.forEach(({ title, layers, effects, taken }, k) =>
      part.kinds[k].forEach((line, row) =>
        line.forEach((button, head) => {
          const effect = effects[row][head];
          this.paint(button, effect, `${title}, layer ${layers[row]}, head ${head + 1}`, taken[row][head], 0, this.wide);
        })
      )
    );
  }

  fillGrid(side, { title, tokens, layers, effects, aligned, taken, moved }, { table, columns, lines }) {
    table.setAttribute("aria-label", title);
    table.classList.toggle("short", tokens.every(([name]) => name.length <= 2 || name.startsWith("[")) && tokens.length > NUMBERED);
    columns.forEach((column, i) => {
      column.textContent = table.matches(".short") && tokens[i][0].length > 2 ? "▪" : shorten(tokens[i][0], 8);
      column.title = tokens[i].slice(0, 2).filter(Boolean).join(", ");
    });
    lines.forEach((line, row) =>
      line.forEach((button, i) => {
        const about = `${layers[row]}, “${tokens[i][0]}”`;
        if (!aligned[i]) return this.apart(button, about);
        this.paint(button, effects[row][i], about, taken[row][i], moved[row][i], line.length <= NUMBERED);
      })
    );
  }

  apart(button, about) {
    button.className = "apart";
    button.textContent = "";
    Object.assign(button.style, { background: "", color: "" });
    button.disabled = true;
    button.title = `${about}: no counterpart in the other run`;
    button.setAttribute("aria-label", button.title);
    button.dataset.effect = "";
  }

  paint(button, effect, about, isTaken, moved, isNumbered) {
    const { css, inks } = this.ramp, { unit, largest } = this.picture;
    const code = effect === null ? SIGNED_STEPS : signedCode(effect, largest);
    const effectText = effect === null ? "" : `: ${plain(effect)} ${unit}`;
    const reached = moved ? `. The patch moves it by ${brief(100 * moved)} % of its length` : "";
    button.disabled = false;
    button.className = isTaken ? "taken" : moved ? "moved" : "";
    button.textContent = isTaken ? "✕" : effect === null || !isNumbered ? "" : brief(effect);
    Object.assign(button.style, { background: css[code], color: inks[code] });
    const how = this.picture.fixed ? "" : isTaken ? " Taken from the other run; click to undo." : " Click to take it from the other run.";
    button.title = `${about}${effectText}${reached}.${how}`;
    button.setAttribute("aria-label", `${about}${effectText}${reached}`);
    button.setAttribute("aria-pressed", isTaken);
    button.dataset.effect = effect === null ? "" : exact(effect);
    button.dataset.moved = exact(moved);
  }

  drag(button, part, start) {
    let ghost, target;
    const move = (event) => {
      if (!ghost && Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY) < FAR) return;
      this.dragged = true;
      ghost ??= put(this.root, "div", "ghost", button.getAttribute("aria-label").split(":")[0]);
      Object.assign(ghost.style, { left: `${event.clientX + 8}px`, top: `${event.clientY + 8}px` });
      const over = this.root.getRootNode().elementFromPoint(event.clientX, event.clientY)?.closest(".panel");
      target?.classList.remove("drop");
      target = over && over.dataset.side !== part.side ? over : undefined;
      target?.classList.add("drop");
    };
    const end = (event) => {
      button.removeEventListener("pointermove", move);
      ghost?.remove();
      target?.classList.remove("drop");
      if (event.type === "pointerup" && target) this.take({ ...part, side: target.dataset.side });
      if (ghost) setTimeout(() => (this.dragged = false));
    };
    this.dragged = false;
    button.setPointerCapture(start.pointerId);
    button.addEventListener("pointermove", move);
    button.addEventListener("pointerup", end, { once: true });
    button.addEventListener("pointercancel", end, { once: true });
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".patch");
  const view = (root.view ??= new Patch(root));
  view.take = (part) => setTriggerValue("pick", part);
  view.show(data, themeOf(root));
}
