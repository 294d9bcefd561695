// Hands a picture to the user as a file.
function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// A canvas as PNG, with a line of title above it.
function saveCanvas(canvas, title, name, theme) {
  const ratio = window.devicePixelRatio || 1, band = Math.round(30 * ratio);
  const whole = document.createElement("canvas");
  const context = whole.getContext("2d");
  context.font = `600 ${13 * ratio}px ${theme.font}`;
  whole.width = Math.max(canvas.width, Math.ceil(context.measureText(title).width) + 2 * band);
  whole.height = canvas.height + band;
  context.fillStyle = theme.background;
  context.fillRect(0, 0, whole.width, whole.height);
  context.fillStyle = theme.text;
  context.font = `600 ${13 * ratio}px ${theme.font}`;
  context.textBaseline = "middle";
  context.fillText(title, band / 2, band / 2);
  context.drawImage(canvas, 0, band);
  whole.toBlob((blob) => save(blob, `${name}.png`), "image/png");
}

// An empty picture as large as an element of the page, to paint on in its own pixels: [canvas, context, its place].
function blankAs(element, theme) {
  const ratio = window.devicePixelRatio || 1, box = element.getBoundingClientRect(), whole = document.createElement("canvas");
  whole.width = Math.ceil(box.width * ratio);
  whole.height = Math.ceil(box.height * ratio);
  const context = whole.getContext("2d");
  context.fillStyle = theme.background;
  context.fillRect(0, 0, whole.width, whole.height);
  context.scale(ratio, ratio);
  context.textBaseline = "top";
  return [whole, context, box];
}

// An SVG element as a file of its own, with a line of title, as wide as that needs, and the page's background.
function saveSvg(svg, title, name, theme) {
  save(new Blob([drawingOf(svg, title, theme)], { type: "image/svg+xml" }), `${name}.svg`);
}

// The same as PNG, SHARP pixels to each of the page's.
const SHARP = 3;

async function saveSvgAsPng(svg, title, name, theme) {
  const image = new Image(), canvas = document.createElement("canvas");
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(drawingOf(svg, title, theme))}`;
  await image.decode();
  Object.assign(canvas, { width: image.width * SHARP, height: image.height * SHARP });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => save(blob, `${name}.png`), "image/png");
}

function drawingOf(svg, title, theme) {
  const copy = svg.cloneNode(true);
  const wide = Math.ceil(widthIn("600 13px sans-serif")(title)) + 16;
  const width = Math.max(svg.clientWidth, wide), height = svg.clientHeight;
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("viewBox", `0 -30 ${width} ${height + 30}`);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height + 30);
  copy.setAttribute("style", `font-family: sans-serif; color: ${theme.text}`);
  const heading = putSvg(copy, "text", { x: 8, y: -11, "font-size": 13, "font-weight": 600, fill: theme.text }, title);
  copy.prepend(putSvg(copy, "rect", { x: 0, y: -30, width, height: height + 30, fill: theme.background }), heading);
  return new XMLSerializer().serializeToString(copy);
}
