// Pictures as files. A `picture` has the file's name, a `caption` for below it and, in `about`, all facts about its
// numbers (drawing/stamp.py).
const BAND = 30, EDGE = 8; // px: the title's line, the space beside words
const NOTE = { size: 12, line: 17 }, KEY = { wide: 120, tall: 10, line: 22 };

// Hands a file to the user.
function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function savePng(canvas, picture) {
  canvas.toBlob(async (blob) => save(await described(blob, picture.about), `${picture.file}.png`), "image/png");
}

// A canvas as PNG: a title over it, the keys to its colours and the caption under it. To be called by `sharply`.
function saveCanvas(canvas, title, picture, theme, keys = []) {
  const whole = document.createElement("canvas"), ratio = pixelRatio(), [wide, tall] = [canvas.width / ratio, canvas.height / ratio];
  const fonts = { title: `600 13px ${theme.font}`, note: `${NOTE.size}px ${theme.font}` };
  const width = Math.max(wide, Math.ceil(widthIn(fonts.title)(title)) + 2 * BAND, ...keys.map((key) => widthOfKey(key, fonts.note)));
  const lines = wrapped(picture.caption, width - 2 * EDGE, widthIn(fonts.note)), foot = BAND + tall + keys.length * KEY.line;
  const [context] = sized(whole, width, foot + (lines.length ? lines.length * NOTE.line + EDGE : 0));
  context.fillStyle = theme.background;
  context.fillRect(0, 0, whole.width, whole.height);
  context.scale(ratio, ratio);
  Object.assign(context, { font: fonts.title, fillStyle: theme.text, textBaseline: "middle" });
  context.fillText(title, BAND / 2, BAND / 2);
  context.drawImage(canvas, 0, BAND, wide, tall);
  context.font = fonts.note;
  keys.forEach((key, i) => colourKey(context, key, EDGE, BAND + tall + (i + 0.5) * KEY.line, theme));
  context.fillStyle = theme.text;
  lines.forEach((line, i) => context.fillText(line, EDGE, foot + (i + 0.5) * NOTE.line));
  TAKEN[taking.form](whole, picture, title);
}

// The format in which a canvas is saved: the one whose button was pressed last.
const taking = { form: "png" };
const TAKEN = { png: savePng, pdf: (whole, picture, title) => savePdf(whole, lettersOn.get(whole), picture, title), svg: saveCanvasSvg };

// A canvas as SVG: its words as words, everything else as an image under them.
function saveCanvasSvg(whole, picture) {
  const [width, height] = [whole.width / SHARP, whole.height / SHARP], drawing = document.createElementNS(SVG, "svg");
  for (const [name, value] of Object.entries({ xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` })) {
    drawing.setAttribute(name, value);
  }
  putSvg(drawing, "image", { width, height, href: whole.toDataURL("image/png") });
  for (const { text, x, y, size, wide, angle, font, colour } of lettersOn.get(whole)) {
    const at = `translate(${(x / SHARP).toFixed(2)} ${(y / SHARP).toFixed(2)}) rotate(${((angle * 180) / Math.PI).toFixed(2)})`;
    const family = font.replace(/^.*?px\s*(\/\S+\s*)?/, ""), weight = /\b(bold|[5-9]00)\b/.exec(font)?.[1] ?? "normal";
    const look = { "font-size": (size / SHARP).toFixed(2), "font-family": family, "font-weight": weight, fill: colour };
    putSvg(drawing, "text", { transform: at, ...look, textLength: (wide / SHARP).toFixed(2), lengthAdjust: "spacingAndGlyphs" }, text);
  }
  putSvg(drawing, "metadata", {}, picture.about);
  save(new Blob([new XMLSerializer().serializeToString(drawing)], { type: "image/svg+xml" }), `${picture.file}.svg`);
}

async function savePdf(canvas, letters, picture, title) {
  save(await pdfOf(canvas, letters, { title, about: picture.about }), `${picture.file}.pdf`);
}

// What the colours of a picture mean: {colours from the least to the most, least, most, says}.
const weightKey = (theme, says = "weight") => ({ colours: theme.ramp.slice(1).map(css), least: "0", most: "1", says });

function widthOfKey({ least, most, says }, font) {
  const measure = widthIn(font);
  return Math.ceil(measure(least) + measure(`${most} ${says}`) + KEY.wide + 4 * EDGE);
}

function colourKey(context, { colours, least, most, says }, x, y, theme) {
  const left = x + context.measureText(least).width + 6, top = y - KEY.tall / 2;
  context.fillStyle = theme.text;
  context.fillText(least, x, y);
  context.fillText(`${most} ${says}`, left + KEY.wide + 6, y);
  for (let i = 0; i < KEY.wide; i++) {
    context.fillStyle = colours[Math.round((i / (KEY.wide - 1)) * (colours.length - 1))];
    context.fillRect(left + i, top, 1.2, KEY.tall);
  }
  context.strokeStyle = theme.line;
  context.strokeRect(left, top, KEY.wide, KEY.tall);
}

// An empty picture as large as an element of the page and as wide as these parts of it, to paint on in its own pixels:
// [canvas, context, its place].
function blankAs(element, theme, parts = []) {
  const { left, top, width, height } = element.getBoundingClientRect(), whole = document.createElement("canvas");
  const box = { left: left - element.scrollLeft, top: top - element.scrollTop }; // of all of it, including what is scrolled out of view
  const ends = [...parts].map((part) => part.getBoundingClientRect().right - box.left);
  const wide = Math.ceil(Math.max(width, element.scrollWidth, ...ends)), tall = Math.ceil(Math.max(height, element.scrollHeight));
  const [context, ratio] = sized(whole, wide, tall);
  context.fillStyle = theme.background;
  context.fillRect(0, 0, whole.width, whole.height);
  context.scale(ratio, ratio);
  context.textBaseline = "top";
  return [whole, context, box];
}

// An SVG element as a file of its own, with a line of title, as wide as that needs, and the page's background.
function saveSvg(svg, title, picture, theme) {
  const text = new XMLSerializer().serializeToString(drawingOf(svg, title, picture, theme));
  save(new Blob([text], { type: "image/svg+xml" }), `${picture.file}.svg`);
}

async function saveSvgAsPng(svg, title, picture, theme) {
  savePng(await painted(drawingOf(svg, title, picture, theme)), picture);
}

async function saveSvgAsPdf(svg, title, picture, theme) {
  const drawing = drawingOf(svg, title, picture, theme), letters = lettersOf(drawing, svg.parentNode ?? document.body);
  await savePdf(await painted(drawing), letters, picture, title);
}

async function painted(drawing) {
  const image = new Image(), canvas = document.createElement("canvas");
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(drawing))}`;
  await image.decode();
  Object.assign(canvas, { width: image.width * SHARP, height: image.height * SHARP });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas;
}

// The words of a drawing and their places, as lettersOn of raster.js; for that it is on the page for a moment, invisible.
function lettersOf(drawing, place) {
  const box = document.createElement("div");
  box.style.cssText = "position: fixed; left: 0; top: 0; visibility: hidden";
  box.append(drawing);
  place.append(box);
  const from = drawing.getBoundingClientRect(), words = [];
  for (const element of drawing.querySelectorAll("text")) {
    const text = element.textContent, n = element.getNumberOfChars();
    if (!text.trim() || !n || getComputedStyle(element).display === "none") continue;
    const start = element.getStartPositionOfChar(0), map = element.getScreenCTM(), by = Math.hypot(map.a, map.b) * SHARP;
    const at = new DOMPoint(start.x, start.y).matrixTransform(map),
      angle = Math.atan2(map.b, map.a) + (element.getRotationOfChar(0) * Math.PI) / 180;
    const size = parseFloat(getComputedStyle(element).fontSize) * by, wide = element.getComputedTextLength() * by;
    words.push({ text, x: (at.x - from.left) * SHARP, y: (at.y - from.top) * SHARP, size, wide, angle });
  }
  box.remove();
  return words;
}

function drawingOf(svg, title, picture, theme) {
  const copy = svg.cloneNode(true), own = svg.viewBox.baseVal, wide = Math.ceil(widthIn("600 13px sans-serif")(title)) + 2 * EDGE;
  const width = Math.max(Math.round(own?.width ?? 0) || svg.clientWidth, wide), tall = Math.round(own?.height ?? 0) || svg.clientHeight;
  const lines = wrapped(picture.caption, width - 2 * EDGE, widthIn(`${NOTE.size}px sans-serif`));
  const height = tall + BAND + (lines.length ? lines.length * NOTE.line + EDGE : 0);
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("viewBox", `0 ${-BAND} ${width} ${height}`);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.setAttribute("style", `font-family: sans-serif; color: ${theme.text}`);
  const heading = putSvg(copy, "text", { x: EDGE, y: -11, "font-size": 13, "font-weight": 600, fill: theme.text }, title);
  copy.prepend(putSvg(copy, "rect", { x: 0, y: -BAND, width, height, fill: theme.background }), heading);
  const note = putSvg(copy, "g", { class: "caption", "font-size": NOTE.size, fill: theme.text });
  lines.forEach((line, i) => putSvg(note, "text", { x: EDGE, y: tall + (i + 1) * NOTE.line, style: "unicode-bidi: plaintext" }, line));
  putSvg(copy, "metadata", {}, picture.about);
  return copy;
}
