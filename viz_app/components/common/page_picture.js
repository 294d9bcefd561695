// Parts of the page as a drawing: boxes, shades, lines and words at their positions. A part that scrolls is in it
// as a whole; what is only for the screen, such as buttons and hints, is not (data-screen-only).
const LEFT_OUT = "script, style, .files, .tip, .behind, .ghost, [data-screen-only]";
const COLOUR = /(?:rgba?|color|oklab|oklch|lab|lch|hsla?)\([^()]*\)/g;

// The menu of such a picture; `of` gives its title, its picture, its theme and the parts of its table (behind.js).
function offerPage(root, of) {
  offer(root.querySelector(".files"), () => {
    const [title, picture, theme, parts] = of();
    return [Object.assign(pageDrawing(root, title), { described: parts }), title, picture, theme];
  });
}

// The title is left out, because a file has its own line for it.
function pageDrawing(root, title) {
  const rollBack = unroll(root), svg = document.createElementNS(SVG, "svg"), sheet = new Sheet(svg);
  try {
    for (const child of root.children) sheet.draw(child, title);
  } finally {
    rollBack();
  }
  const { left, top, right, bottom } = sheet, width = Math.ceil(right - left + 2 * EDGE), height = Math.ceil(bottom - top + 2 * EDGE);
  sheet.drawing.setAttribute("transform", `translate(${EDGE - left} ${EDGE - top})`);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  return svg;
}

// Shows everything in a picture, and returns a function that undoes that; nothing is painted on the screen in between.
function unroll(root) {
  const undone = [];
  for (const e of root.querySelectorAll("*")) {
    const { overflowX, overflowY, position, textOverflow, flexWrap } = getComputedStyle(e), { scrollLeft, scrollTop } = e;
    const isCut = textOverflow === "ellipsis" && e.scrollWidth > e.clientWidth, sticks = position === "sticky";
    const [isWide, isTall] = [[overflowX, e.scrollWidth > e.clientWidth], [overflowY, e.scrollHeight > e.clientHeight]].map(([how, more]) =>
      more && (how === "auto" || how === "scroll")
    );
    if (!isWide && !isTall && !isCut && !sticks) continue;
    const style = {};
    if (isWide || isTall || isCut) Object.assign(style, { overflow: "visible", maxHeight: "none", height: "auto" });
    if (isWide && flexWrap === "nowrap") style.flexWrap = "wrap";
    if (isCut) style.whiteSpace = "normal";
    if (sticks) style.position = "static";
    undone.push([e, e.getAttribute("style"), { scrollLeft, scrollTop }]);
    Object.assign(e.style, style);
  }
  return () => {
    for (const [e, style] of undone) style === null ? e.removeAttribute("style") : e.setAttribute("style", style);
    for (const [e, , scrolled] of undone) Object.assign(e, scrolled);
  };
}

class Sheet {
  constructor(svg) {
    Object.assign(this, { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity, fills: new Map() });
    this.defs = putSvg(svg, "defs", {});
    this.drawing = putSvg(svg, "g", {});
  }

  draw(element, title, opacity = 1) {
    if (element.matches(LEFT_OUT) || element.textContent === title) return;
    const style = getComputedStyle(element), box = element.getBoundingClientRect(), shown = opacity * style.opacity;
    if (style.display === "none" || style.visibility !== "visible" || !shown) return;
    if (box.width && box.height) this.box(box, style, shown);
    if (element instanceof HTMLCanvasElement) {
      const { left: x, top: y, width, height } = this.reach(box);
      putSvg(this.drawing, "image", { x, y, width, height, preserveAspectRatio: "none", href: element.toDataURL("image/png") });
    }
    for (const child of element.childNodes) {
      if (child.nodeType === Node.TEXT_NODE) this.words(child, element, style, shown);
      else if (child instanceof HTMLElement) this.draw(child, title, shown);
    }
  }

  // The drawing grows to hold this box.
  reach(box) {
    this.left = Math.min(this.left, box.left);
    this.top = Math.min(this.top, box.top);
    this.right = Math.max(this.right, box.right);
    this.bottom = Math.max(this.bottom, box.bottom);
    return box;
  }

  rect(x, y, width, height, look) {
    if (width <= 0 || height <= 0) return;
    this.reach({ left: x, top: y, right: x + width, bottom: y + height });
    putSvg(this.drawing, "rect", { x, y, width, height, ...look });
  }

  box({ left, top, width, height }, style, opacity) {
    const rx = Math.min(parseFloat(style.borderTopLeftRadius) || 0, width / 2, height / 2);
    const fill = inked(style.backgroundColor, opacity, "fill");
    if (fill) this.rect(left, top, width, height, { rx, ...fill });
    if (style.backgroundImage !== "none") this.rect(left, top, width, height, { rx, fill: this.shade(style.backgroundImage), opacity });
    const sides = ["Top", "Right", "Bottom", "Left"].map((side) => ["Width", "Style", "Color"].map((of) => style[`border${side}${of}`]));
    if (new Set(sides.map(String)).size === 1) this.frame(left, top, width, height, rx, sides[0], -0.5, opacity);
    else {
      const [up, right, down, before] = sides.map(([size]) => parseFloat(size));
      const edges = [[left, top, width, up], [left + width - right, top, right, height], [left, top + height - down, width, down], [
        left,
        top,
        before,
        height,
      ]];
      edges.forEach((edge, i) => sides[i][1] !== "none" && this.rect(...edge, inked(sides[i][2], opacity, "fill")));
    }
    const off = parseFloat(style.outlineOffset) || 0, outline = [style.outlineWidth, style.outlineStyle, style.outlineColor];
    this.frame(left - off, top - off, width + 2 * off, height + 2 * off, rx, outline, 0.5, opacity);
    const [, inner] = /(-?[\d.]+)px 0px 0px inset/.exec(style.boxShadow) ?? [], line = Math.abs(inner ?? 0); // a line inside an edge
    if (line) {
      this.rect(left, inner < 0 ? top + height - line : top, width, line, inked(style.boxShadow.match(COLOUR)[0], opacity, "fill"));
    }
  }

  frame(x, y, width, height, rx, [size, how, colour], out, opacity) {
    const line = parseFloat(size), look = how === "none" || !line ? null : inked(colour, opacity, "stroke");
    if (!look) return;
    const dashes = how === "dashed" ? { "stroke-dasharray": `${3 * line} ${2 * line}` } : {}, by = out * line;
    this.rect(x - by, y - by, width + 2 * by, height + 2 * by, { rx, fill: "none", "stroke-width": line, ...look, ...dashes });
  }

  // A gradient or a hatch; the same for all boxes that have it.
  shade(image) {
    if (!this.fills.has(image)) {
      const id = `shade${this.fills.size}`, colours = image.match(COLOUR) ?? [];
      this.fills.set(image, `url(#${id})`);
      if (image.startsWith("repeating")) {
        const look = inked(colours.findLast((one) => inked(one, 1, "stroke")) ?? "gray", 1, "stroke");
        const hatch = putSvg(this.defs, "pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" });
        putSvg(hatch, "path", { d: "M-1.5 1.5 L1.5 -1.5 M0 6 L6 0 M4.5 7.5 L7.5 4.5", "stroke-width": 1, ...look });
      } else {
        const ramp = putSvg(this.defs, "linearGradient", { id });
        colours.forEach((one, i) => {
          const look = inked(one, 1, "stop") ?? { "stop-opacity": 0 };
          putSvg(ramp, "stop", { offset: i / (colours.length - 1), ...look });
        });
      }
    }
    return this.fills.get(image);
  }

  words(node, element, style, opacity) {
    const size = parseFloat(style.fontSize), look = inked(style.color, opacity, "fill"), cut = cutOf(element);
    if (!look || !node.data.trim()) return;
    const font = `${style.fontStyle} ${style.fontWeight} ${size}px ${style.fontFamily}`, measure = widthIn(font);
    const isUpright = style.writingMode.startsWith("vertical");
    for (const line of isUpright ? [wholeOf(node)] : linesOf(node)) {
      const room = cut && line.right > cut.right + 1 ? cut.right - line.left : Infinity, text = fit(line.text, room, measure);
      const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = widthIn.context.measureText(text);
      const foot = up + (line.bottom - line.top - up - down) / 2, turned = style.transform !== "none";
      const at = !isUpright
        ? `translate(${line.left} ${line.top + foot})`
        : turned
        ? `translate(${line.left + up} ${line.bottom}) rotate(-90)`
        : `translate(${line.right - up} ${line.top}) rotate(90)`;
      const wide = isUpright ? line.bottom - line.top : text === line.text ? line.right - line.left : measure(text);
      const lines = style.textDecorationLine === "none" ? {} : { "text-decoration": style.textDecorationLine };
      this.reach(line);
      putSvg(this.drawing, "text", {
        transform: at,
        ...{ "font-size": size, "font-family": style.fontFamily, "font-weight": style.fontWeight, "font-style": style.fontStyle },
        ...{ textLength: wide, lengthAdjust: "spacingAndGlyphs", ...look, ...lines },
      }, text);
    }
  }
}

// The box that cuts an element's words off, if there is one.
function cutOf(element) {
  const box = element.closest(".attnscope *");
  for (let e = box; e && !e.matches(".attnscope"); e = e.parentElement) {
    if (["hidden", "clip"].includes(getComputedStyle(e).overflowX)) return e.getBoundingClientRect();
  }
}

// The lines of a text as laid out on the page: {text, left, top, right, bottom}.
function linesOf(node) {
  const lines = [], range = document.createRange();
  let at = 0;
  for (const letter of node.data) {
    range.setStart(node, at);
    range.setEnd(node, at += letter.length);
    const box = range.getClientRects()[0], line = lines.at(-1), isSpace = !letter.trim();
    if (!box || (isSpace && !line)) continue;
    if (line && Math.abs(box.top - line.top) < box.height / 2) {
      line.text += letter;
      if (!isSpace) Object.assign(line, { left: Math.min(line.left, box.left), right: Math.max(line.right, box.right) });
    } else if (!isSpace) lines.push({ text: letter, left: box.left, top: box.top, right: box.right, bottom: box.bottom });
  }
  for (const line of lines) line.text = line.text.trimEnd();
  return lines;
}

function wholeOf(node) {
  const range = document.createRange();
  range.selectNodeContents(node);
  const { left, top, right, bottom } = range.getBoundingClientRect();
  return { text: node.data, left, top, right, bottom };
}

// A colour of the page as that of a drawing: {fill, "fill-opacity"}, or the same for another property; null where it is invisible.
function inked(colour, opacity, part) {
  const seen = (inked.seen ??= new Map());
  if (!seen.has(colour)) {
    const context = (inked.context ??= new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true }));
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    seen.set(colour, [...context.getImageData(0, 0, 1, 1).data]);
  }
  const [r, g, b, alpha] = seen.get(colour), left = (alpha / 255) * opacity;
  return alpha
    ? { [part === "stop" ? "stop-color" : part]: `rgb(${r}, ${g}, ${b})`, ...(left < 1 ? { [`${part}-opacity`]: left.toFixed(3) } : {}) }
    : null;
}
