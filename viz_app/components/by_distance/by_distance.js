// A number at each distance as a line; a band from the least to the largest where there are several, one distance marked. The picture
// has one height for any text, so that nothing moves while someone types; in a presentation, its letters are larger and it is slightly higher.
const ROOM = { left: 62, right: 12, top: 8, bottom: 42 }, HEIGHT = 280, POINT = 3, PLACE = 5.5; // px
const MARKED = HEAD_COLOURS[5];

class ByDistance extends Fitted {
  constructor(root) {
    super(root);
    this.svg = root.querySelector("svg");
    this.tip = root.querySelector(".tip");
    this.svg.onpointermove = (event) => this.point(event);
    this.svg.onpointerleave = () => this.leave();
    offer(root.querySelector(".files"), () => [this.svg, this.picture.title, this.picture, this.theme]);
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    const title = this.root.querySelector(".title");
    title.textContent = title.title = picture.title;
    const { distance, ...curves } = picture.arrays, columns = Object.keys(curves).filter((name) => curves[name]?.length === distance.length);
    const rows = Array.from(distance, (far) => `${picture.axes[0]}: ${far}`);
    describe(this.svg, { name: picture.title, rows, columns, value: (r, c) => curves[columns[c]][r] });
    this.tip.hidden = true;
    this.fit();
    countPaint(this.root);
  }

  draw(whole) {
    const scale = this.scale = scaleOf(), width = whole / scale, height = this.height = HEIGHT / Math.sqrt(scale);
    const { svg, theme, picture: { arrays: { distance, value, least, largest }, domain, marked } } = this, last = distance.length - 1;
    const ticks = rounds(...domain, 5),
      [low, high] = [ticks[0], ticks.at(-1)],
      wide = width - ROOM.left - ROOM.right,
      floor = height - ROOM.bottom;
    this.x = (i) => ROOM.left + (last ? i / last : 0.5) * wide;
    this.y = (v) => floor - ((v - low) / (high - low)) * (floor - ROOM.top);
    svg.setAttribute("height", height * scale);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    this.axes(ticks, wide, floor);
    const along = (values, order) => order.map((i) => `${this.x(i)} ${this.y(values[i])}`), forwards = [...distance.keys()];
    if (least) {
      const band = [...along(largest, forwards), ...along(least, [...forwards].reverse())].join("L");
      putSvg(svg, "path", {
        class: "band",
        d: `M${band}Z`,
        fill: theme.accent,
        "fill-opacity": 0.28,
        stroke: theme.accent,
        "stroke-opacity": 0.28,
      });
    }
    putSvg(svg, "path", { class: "line", d: `M${along(value, forwards).join("L")}`, fill: "none", stroke: theme.accent, "stroke-width": 2.2 });
    if (!last) putSvg(svg, "circle", { cx: this.x(0), cy: this.y(value[0]), r: POINT, fill: theme.accent });
    const place = distance.indexOf(marked);
    if (place >= 0) putSvg(svg, "circle", { class: "marked", cx: this.x(place), cy: this.y(value[place]), r: PLACE, fill: MARKED });
    this.rule = putSvg(svg, "line", { y1: ROOM.top, y2: floor, stroke: theme.text, "stroke-opacity": 0 });
  }

  axes(ticks, wide, floor) {
    const { svg, theme, picture: { axes, arrays: { distance } } } = this, [near, far] = [distance[0], distance.at(-1)];
    const write = (text, x, y, how) => putSvg(svg, "text", { x, y, fill: theme.text, "font-size": 12, ...how }, text);
    for (const tick of ticks) {
      putSvg(svg, "line", { x1: ROOM.left, x2: ROOM.left + wide, y1: this.y(tick), y2: this.y(tick), stroke: theme.line });
      write(String(Number(tick.toPrecision(6))), ROOM.left - 7, this.y(tick) + 4, { "text-anchor": "end", fill: theme.quiet });
    }
    for (const tick of rounds(near, far, wide / 70, 1).filter((tick) => near <= tick && tick <= far)) {
      write(String(tick), this.x(tick - near), floor + 17, { "text-anchor": "middle", fill: theme.quiet });
    }
    const room = widthIn(`12px ${theme.font}`);
    write(fit(axes[0], wide + ROOM.right, room), ROOM.left + wide / 2, this.height - 6, { "text-anchor": "middle" });
    write(axes[1], 0, 0, { "text-anchor": "middle", transform: `translate(12 ${(ROOM.top + floor) / 2}) rotate(-90)` });
  }

  point(event) {
    const { tip, picture: { arrays: { distance } } } = this,
      box = this.root.getBoundingClientRect(),
      wide = this.width / this.scale - ROOM.left - ROOM.right;
    const share = ((event.clientX - box.left) / this.scale - ROOM.left) / wide,
      i = Math.round(Math.min(1, Math.max(0, share)) * (distance.length - 1));
    this.rule.setAttribute("x1", this.x(i));
    this.rule.setAttribute("x2", this.x(i));
    this.rule.setAttribute("stroke-opacity", 0.35);
    tip.textContent = this.sentence(i);
    tip.hidden = false;
    placeTip(tip, this.root, event);
  }

  sentence(i) {
    const { marked, arrays: { distance, value, least, largest, pairs } } = this.picture, at = `distance ${distance[i]}: `;
    if (!least) return `${at}score ${exact(value[i])}${distance[i] === marked ? ", their distance in the text" : ""}`;
    return `${at}mean ${exact(value[i])}, least ${exact(least[i])}, largest ${exact(largest[i])} of ${pairs[i]} ${
      pairs[i] === 1 ? "pair" : "pairs"
    }`;
  }

  leave() {
    this.tip.hidden = true;
    this.rule?.setAttribute("stroke-opacity", 0);
  }
}

function mount({ data, parentElement }) {
  const root = parentElement.querySelector(".by-distance");
  const view = (root.view ??= new ByDistance(root));
  view.show(unpack(data), themeOf(root));
  return () => view.watcher.disconnect();
}
