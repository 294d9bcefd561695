// Paints a matrix of codes (0 = masked, 1 … 255 = weight 0 … 1) onto a rectangle of device pixels. Where a pixel covers
// several cells it shows the largest, so that one bright cell is never lost; masked cells are hatched, not blank.
function paintCodes(context, codes, rows, cols, x0, y0, width, height, theme, period = 6) {
  const image = context.createImageData(width, height);
  const out = new Uint32Array(image.data.buffer);
  const ramp = (theme.packed ??= Uint32Array.from(theme.ramp, pack32));
  const paper = pack32(theme.paper), hatch = pack32(theme.hatch);
  const [tops, lefts] = [spans(rows, height), spans(cols, width)], line = new Uint8Array(width);
  for (let y = 0; y < height; y++) {
    if (!y || tops[2 * y] !== tops[2 * y - 2] || tops[2 * y + 1] !== tops[2 * y - 1]) { // else as the line above
      for (let x = 0; x < width; x++) {
        let code = 0;
        for (let r = tops[2 * y]; r < tops[2 * y + 1]; r++) {
          for (let c = lefts[2 * x]; c < lefts[2 * x + 1]; c++) code = Math.max(code, codes[r * cols + c]);
        }
        line[x] = code;
      }
    }
    for (let x = 0; x < width; x++) out[y * width + x] = line[x] ? ramp[line[x]] : (x + y) % period === 0 ? hatch : paper;
  }
  context.putImageData(image, x0, y0);
}

// For each of `pixels` pixels, the half-open range of the `cells` cells that it shows.
function spans(cells, pixels) {
  const ends = new Int32Array(2 * pixels);
  for (let p = 0; p < pixels; p++) {
    const first = Math.floor((p * cells) / pixels);
    ends[2 * p] = first;
    ends[2 * p + 1] = Math.max(first + 1, Math.floor(((p + 1) * cells) / pixels));
  }
  return ends;
}

const pack32 = ([r, g, b]) => ((255 << 24) | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r)) >>> 0;

// Pixels of a canvas to each CSS pixel: the screen's, or SHARP while a file is made.
const SHARP = 3;
let making = false;
const pixelRatio = () => (making ? SHARP : window.devicePixelRatio || 1);

// Draws a picture for a file, takes it, and draws it for the page again; nothing is painted on the screen in between.
function sharply(draw, take) {
  making = true;
  try {
    draw();
    take();
  } finally {
    making = false;
    draw();
  }
}

// How much larger a picture is on the page than its own lengths: 1, or more in a presentation (style.css).
const scaleOf = () => Number(getComputedStyle(document.documentElement).getPropertyValue("--attnscope-scale")) || 1;

// Gives a canvas its size, in CSS pixels or, at another `scale` than 1, in lengths that are that much larger on the page; clears it
// and returns [context, its pixels to each length].
function sized(canvas, width, height, scale = 1) {
  const ratio = pixelRatio() * scale, context = canvas.getContext("2d");
  const [wide, tall] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width === wide && canvas.height === tall) context.reset(); // costs less than new memory of the same size
  else Object.assign(canvas, { width: wide, height: tall });
  context.textRendering = "geometricPrecision"; // spaces letters evenly at any scale
  if (making) listen(context);
  else deafen(context);
  canvas.style.width = `${width * scale}px`;
  canvas.style.height = `${height * scale}px`;
  canvas.dataset.ratio = ratio / scale;
  return [context, ratio];
}

// While a file is made, each canvas keeps the words on it, so that the file may hold them as words: {text, x, y, size, wide, angle,
// font, colour} in pixels of the canvas, y at the foot of the letters; and `words.painted` is false where only the rest is to be painted.
const lettersOn = new WeakMap();
const words = { painted: true };

function listen(context) {
  const { canvas } = context, plain = CanvasRenderingContext2D.prototype, letters = [];
  lettersOn.set(canvas, letters);
  context.fillText = (text, x, y, ...most) => {
    if (words.painted) plain.fillText.call(context, text, x, y, ...most);
    letters.push(...placed(context, String(text), x, y));
  };
  context.drawImage = (image, ...to) => {
    plain.drawImage.call(context, image, ...to);
    const [x, y, wide = image.width] = to, own = lettersOn.get(image) ?? [], map = context.getTransform(), by = wide / image.width;
    const grown = by * Math.hypot(map.a, map.b);
    for (const one of own) {
      const at = map.transformPoint({ x: x + one.x * by, y: y + one.y * by });
      letters.push({ ...one, x: at.x, y: at.y, size: one.size * grown, wide: one.wide * grown });
    }
  };
}

function deafen(context) {
  delete context.fillText;
  delete context.drawImage;
}

function placed(context, text, x, y) {
  if (!text.trim()) return [];
  const map = context.getTransform(), by = Math.hypot(map.a, map.b), wide = context.measureText(text).width;
  const size = parseFloat(/([\d.]+)px/.exec(context.font)?.[1] ?? 12);
  const before = { center: 0.5, right: 1, end: 1 }[context.textAlign] ?? 0;
  const above = { middle: 0.35, top: 0.8, hanging: 0.8, bottom: -0.2, ideographic: -0.2 }[context.textBaseline] ?? 0;
  const at = map.transformPoint({ x: x - before * wide, y: y + above * size }), angle = Math.atan2(map.b, map.a);
  return [{ text, x: at.x, y: at.y, size: size * by, wide: wide * by, angle, font: context.font, colour: context.fillStyle }];
}
