// Each head at its exact effect and at the effect estimated from gradients, on both sides; on the
// diagonal both are the same. A click or Enter takes the head; the arrows move from head to head in
// the order of their effects.
const ROOM = { left: 52, right: 10, top: 8, bottom: 44 }, SIZE = 4.5; // px, at the normal letter size
const SHAPES = { "●": "circle", "■": "square", "▲": "triangle", "◆": "diamond" };

// The path of a mark around (x, y).
function mark(kind, x, y, r) {
  const signs = Object.keys(SHAPES), shape = SHAPES[signs[kind % signs.length]];
  if (shape === "square") return `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}Z`;
  if (shape === "triangle") return `M${x} ${y - 1.2 * r}L${x + 1.2 * r} ${y + r}H${x - 1.2 * r}Z`;
  if (shape === "diamond") return `M${x} ${y - 1.3 * r}L${x + 1.3 * r} ${y}L${x} ${y + 1.3 * r}L${x - 1.3 * r} ${y}Z`;
  return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
}

class Scatter extends Fitted {
  show(picture, theme) {
    Object.assign(this, { picture, theme });
    const { root } = this, place = root.querySelector(".panels");
    root.querySelector(".hint").textContent = picture.hint;
    if (!this.parts) {
      this.parts = picture.panels.map(({ side }) => {
        const box = put(place, "section", "panel");
        box.dataset.side = side;
        const headed = put(box, "div", "headed");
        const part = {
          title: put(headed, "h2"),
          files: put(headed, "span", "files"),
          sentence: put(box, "p", "sentence"),
          svg: box.appendChild(document.createElementNS(SVG, "svg")),
        };
        part.svg.setAttribute("role", "group");
        part.told = put(box, "p", "told quiet");
        part.sentence.setAttribute("role", "status");
        offer(part.files, () => [part.svg, part.title.textContent, this.picture, this.theme]);
        return part;
      });
    }
    picture.panels.forEach((panel, i) => {
      const { title, sentence, svg, told } = this.parts[i];
      title.textContent = panel.title;
      sentence.textContent = panel.sentence;
      svg.setAttribute("aria-label", `${panel.title}: ${picture.axes.join(" and ")}`);
      told.textContent = panel.kinds.map((name, kind) => `${Object.keys(SHAPES)[kind % 4]} ${name}`).join("  ");
      const { points } = panel;
      describe(svg, {
        name: panel.title,
        rows: points.map(({ label }) => label),
        columns: picture.axes,
        value: (r, c) => [points[r].exact, points[r].guess][c],
      });
    });
    this.fit();
    countPaint(root);
  }

  // Its height follows the window's.
  resized() {
    if (this.parts && this.parts[0].svg.clientHeight !== this.tall) this.width = 0;
    super.resized();
  }

  draw() {
    this.tall = this.parts[0].svg.clientHeight;
    this.picture.panels.forEach((panel, i) => this.plot(panel, this.parts[i]));
  }

  plot({ side, points }, part) {
    const { svg } = part, { theme, picture: { axes, unit } } = this, scale = scaleOf();
    if (!svg.clientWidth) return;
    const wide = svg.clientWidth / scale, floor = this.tall / scale - ROOM.bottom;
    const values = points.flatMap(({ exact, guess }) => [exact, guess]);
    const ticks = rounds(Math.min(0, ...values), Math.max(0, ...values), 4), [low, high] = [ticks[0], ticks.at(-1)];
    const along = (v) => (v - low) / (high - low || 1);
    const x = (v) => ROOM.left + along(v) * (wide - ROOM.left - ROOM.right), y = (v) => floor - along(v) * (floor - ROOM.top);
    const focused = svg.querySelector(":focus")?.getAttribute("aria-label")?.split(":")[0];
    svg.setAttribute("viewBox", `0 0 ${wide} ${floor + ROOM.bottom}`);
    svg.replaceChildren();
    const write = (text, at, to, how) => putSvg(svg, "text", { x: at, y: to, fill: theme.text, "font-size": 12, ...how }, text);
    for (const tick of ticks) {
      const name = String(Number(tick.toPrecision(6))).replace("-", "−"), stroke = tick ? theme.line : theme.quiet;
      putSvg(svg, "line", { x1: x(low), x2: x(high), y1: y(tick), y2: y(tick), stroke });
      putSvg(svg, "line", { x1: x(tick), x2: x(tick), y1: y(low), y2: y(high), stroke });
      write(name, ROOM.left - 5, y(tick) + 4, { "text-anchor": "end", fill: theme.quiet });
      write(name, x(tick), floor + 17, { "text-anchor": "middle", fill: theme.quiet });
    }
    putSvg(svg, "line", { x1: x(low), y1: y(low), x2: x(high), y2: y(high), stroke: theme.quiet, "stroke-dasharray": "4 3" });
    const room = widthIn(`12px ${theme.font}`), named = fit(`${axes[0]}, ${unit}`, wide - ROOM.left, room);
    write(named, (ROOM.left + wide) / 2, floor + 38, { "text-anchor": "middle" });
    const turned = `translate(12 ${(ROOM.top + floor) / 2}) rotate(-90)`;
    write(axes[1], 0, 0, { "text-anchor": "middle", transform: turned });
    const heads = [...points].sort((a, b) => a.exact - b.exact).map((point) => this.head(side, part, point, x(point.exact), y(point.guess)));
    heads.forEach((head, i) => {
      head.tabIndex = -1;
      const step = (by) => heads[i + by] ? this.go(heads, heads[i + by]) : false;
      useKeys(head, {
        ArrowRight: () => step(1),
        ArrowUp: () => step(1),
        ArrowLeft: () => step(-1),
        ArrowDown: () => step(-1),
        Enter: () => head.onclick(),
        " ": () => head.onclick(),
      });
    });
    const refocused = heads.find((head) => head.getAttribute("aria-label").split(":")[0] === focused);
    if (refocused) this.go(heads, refocused);
    else if (heads.length) heads[0].tabIndex = 0;
  }

  go(heads, head) {
    heads.forEach((one) => (one.tabIndex = -1));
    head.tabIndex = 0;
    head.focus();
  }

  head(side, part, { site, head, label, kind, exact: value, guess, taken }, x, y) {
    const { theme, picture: { unit } } = this, about = `${label}: exact ${plain(value)}, guess ${plain(guess)} ${unit}`;
    const drawn = putSvg(part.svg, "path", {
      class: "head",
      d: mark(kind, x, y, SIZE),
      fill: taken ? theme.text : theme.accent,
      "fill-opacity": taken ? 1 : 0.6,
      stroke: theme.text,
      "stroke-width": taken ? 2 : 0.5,
      role: "button",
      "aria-label": about,
      "aria-pressed": taken,
    }); // deno-fmt-ignore
    Object.assign(drawn.dataset, { name: site, number: head, exact: exact(value), guess: exact(guess) });
    drawn.onclick = () => this.take({ side, name: site, number: head });
    const kinds = part.told.textContent;
    drawn.onpointerenter = drawn.onfocus = () => (part.told.textContent = about);
    drawn.onpointerleave = drawn.onblur = () => (part.told.textContent = kinds);
    return drawn;
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".scatter");
  const view = (root.view ??= new Scatter(root));
  view.take = (head) => setTriggerValue("pick", head);
  view.show(data, themeOf(root));
  return () => view.watcher.disconnect();
}
