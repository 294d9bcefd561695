// Pictures as files. A `picture` has the file's name, a `caption` to stand under it and, `about` it, all that is known of its
// numbers (drawing/stamp.py).
const BAND = 30, EDGE = 8; // px: the title's line, the room beside words
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
  savePng(whole, picture);
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

// An empty picture as large as an element of the page, to paint on in its own pixels: [canvas, context, its place].
function blankAs(element, theme) {
  const box = element.getBoundingClientRect(), whole = document.createElement("canvas");
  const [context, ratio] = sized(whole, Math.ceil(box.width), Math.ceil(box.height));
  context.fillStyle = theme.background;
  context.fillRect(0, 0, whole.width, whole.height);
  context.scale(ratio, ratio);
  context.textBaseline = "top";
  return [whole, context, box];
}

// The buttons that take a drawing away in every form; `of` gives the SVG element, a title, its picture and its theme.
function offer(place, of) {
  const forms = {
    SVG: [saveSvg, "Download this picture as SVG"],
    PNG: [saveSvgAsPng, "Download this picture as PNG"],
    PDF: [printSvg, "Print this picture on a page of its size: choose “Save as PDF” there"],
  };
  for (const [name, [take, title]] of Object.entries(forms)) {
    const button = put(place, "button", `save ${name.toLowerCase()}`, name);
    Object.assign(button, { type: "button", title, onclick: () => take(...of()) });
  }
}

// An SVG element as a file of its own, with a line of title, as wide as that needs, and the page's background.
function saveSvg(svg, title, picture, theme) {
  const text = new XMLSerializer().serializeToString(drawingOf(svg, title, picture, theme));
  save(new Blob([text], { type: "image/svg+xml" }), `${picture.file}.svg`);
}

async function saveSvgAsPng(svg, title, picture, theme) {
  const image = new Image(), canvas = document.createElement("canvas"), drawing = drawingOf(svg, title, picture, theme);
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(drawing))}`;
  await image.decode();
  Object.assign(canvas, { width: image.width * SHARP, height: image.height * SHARP });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  savePng(canvas, picture);
}

// On a sheet that is as large as the drawing, through the browser's own dialog, which makes a PDF of lines and letters.
function printSvg(svg, title, picture, theme) {
  const drawing = drawingOf(svg, title, picture, theme), frame = document.createElement("iframe");
  frame.className = "attnscope-print";
  frame.style.cssText = "position: fixed; width: 0; height: 0; border: 0";
  frame.srcdoc = "<!doctype html>";
  frame.onload = () => {
    const { contentDocument: sheet, contentWindow: view } = frame,
      size = `${drawing.getAttribute("width")}px ${drawing.getAttribute("height")}px`;
    sheet.title = picture.file;
    put(sheet.head, "style", "", `@page { size: ${size}; margin: 0 } body { margin: 0; print-color-adjust: exact } svg { display: block }`);
    sheet.body.append(drawing);
    view.onafterprint = () => frame.remove();
    view.print();
  };
  document.body.append(frame);
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
