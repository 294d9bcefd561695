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

// Has a picture drawn for a file, takes it, and has it drawn for the page again; nothing is painted on the screen between.
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

// How much larger a picture stands on the page than its own lengths say: 1, and more while the page is presented (style.css).
const scaleOf = () => Number(getComputedStyle(document.documentElement).getPropertyValue("--attnscope-scale")) || 1;

// Gives a canvas its size, in CSS pixels or, at another `scale` than 1, in lengths that are so much larger on the page; empties it
// and returns [context, its pixels to each length].
function sized(canvas, width, height, scale = 1) {
  const ratio = pixelRatio() * scale, context = canvas.getContext("2d");
  const [wide, tall] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width === wide && canvas.height === tall) context.reset(); // costs less than new memory of the same size
  else Object.assign(canvas, { width: wide, height: tall });
  canvas.style.width = `${width * scale}px`;
  canvas.style.height = `${height * scale}px`;
  canvas.dataset.ratio = ratio / scale;
  return [context, ratio];
}
