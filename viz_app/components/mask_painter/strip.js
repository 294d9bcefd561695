// Every mask of the run as small matrices: each kind's layers, and the result of all of them. A click chooses the kind.
const SMALL = 40;

class Strip {
  constructor(root, on) {
    this.root = root;
    this.on = on;
    this.groups = [];
  }

  show(blocks, cells, kind, theme) {
    while (this.groups.length > blocks.length) this.groups.pop().remove();
    while (this.groups.length < blocks.length) this.add();
    blocks.forEach((block, i) => this.fill(this.groups[i], block, cells, block.kind === kind, theme));
  }

  add() {
    const group = put(this.root, "button", "group");
    group.type = "button";
    put(group, "span", "name");
    put(group, "span", "pictures");
    group.onclick = () => this.on.kind(group.dataset.kind);
    this.groups.push(group);
  }

  fill(group, block, cells, chosen, theme) {
    group.dataset.kind = block.kind;
    group.setAttribute("aria-pressed", chosen);
    group.querySelector(".name").textContent = block.title;
    const holder = group.querySelector(".pictures");
    holder.replaceChildren();
    block.pictures.forEach((picture, i) => {
      const last = i === block.pictures.length - 1;
      if (i) put(holder, "span", "sign", last ? "=" : "∧");
      const figure = put(holder, "span", last ? "picture whole" : "picture");
      this.draw(put(figure, "canvas"), block, cells.subarray(picture.offset, picture.offset + block.rows * block.cols), theme);
      put(figure, "span", "caption", picture.name);
      figure.title = `${picture.name}: ${picture.blocked} of ${picture.cells} cells blocked`;
      figure.dataset.blocked = picture.blocked;
    });
  }

  draw(canvas, { rows, cols }, allowed, theme) {
    canvas.setAttribute("aria-hidden", "true"); // the button around it has the name, the board its table
    const side = SMALL / Math.max(rows, cols);
    const [context, ratio] = sized(canvas, Math.max(6, side * cols), Math.max(6, side * rows));
    const codes = Uint8Array.from(allowed, (open) => (open ? 1 : 0));
    paintCodes(context, codes, rows, cols, 0, 0, canvas.width, canvas.height, { ...theme, packed: maskColours(theme) }, Math.round(4 * ratio));
  }
}

// Open cells are tinted, so that an open cell is neither a blocked one nor a weight of 0; more strongly on a dark page, where the lines of
// a blocked cell are bright.
const TINT = { light: 58, dark: 140 };

const tintOf = (theme) => (luminance(theme.paper) < 0.2 ? TINT.dark : TINT.light);

function maskColours(theme) {
  return (theme.maskColours ??= new Uint32Array(256).fill(pack32(theme.ramp[tintOf(theme)])));
}
