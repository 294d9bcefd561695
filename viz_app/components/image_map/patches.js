// An image under the weights of its patches: pale and grey, so that a colour is a weight alone.
const PALE = 0.5, COVER = 0.88, PERIOD = 6; // how far towards the paper's colour; how much of the image the strongest weight hides; px of the hatching

// The image as a canvas of its own pixels: in its colours, and pale.
function imageOf({ arrays, size }, theme) {
  const [tall, wide] = size,
    canvases = [false, true].map((isPale) => {
      const canvas = document.createElement("canvas");
      Object.assign(canvas, { width: wide, height: tall });
      const context = canvas.getContext("2d"), image = context.createImageData(wide, tall), { pixels } = arrays;
      for (let i = 0; i < wide * tall; i++) {
        const colour = [0, 1, 2].map((c) => pixels[3 * i + c]);
        const grey = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2];
        for (let c = 0; c < 3; c++) image.data[4 * i + c] = isPale ? grey + (theme.paper[c] - grey) * PALE : colour[c];
        image.data[4 * i + 3] = 255;
      }
      context.putImageData(image, 0, 0);
      return canvas;
    });
  return { plain: canvases[0], pale: canvases[1] };
}

// Strengths 0 … 1 of a row under the picture's scale, −1 where a mask blocks the cell; the same functions as for a head's matrix.
function strengthsOfRow(weights, blocked, scale) {
  const most = weights.reduce((one, other) => Math.max(one, other), 0), { of } = SCALES[scale];
  return Array.from(weights, (w, i) => (blocked[i] ? -1 : of(w, most)));
}

// The pale image with a colour over each patch; `strengths` are those of the patches only, row by row.
function paintPatches(canvas, pale, strengths, { rows, columns }, wide, tall, theme, scale) {
  const [context, ratio] = sized(canvas, wide, tall, scale), width = canvas.width, height = canvas.height;
  context.drawImage(pale, 0, 0, width, height);
  strengths.forEach((strength, i) => {
    const [r, c] = [Math.floor(i / columns), i % columns];
    const [x, y] = [Math.round((c * width) / columns), Math.round((r * height) / rows)];
    const [w, h] = [Math.round(((c + 1) * width) / columns) - x, Math.round(((r + 1) * height) / rows) - y];
    if (strength < 0) return hatchPatch(context, x, y, w, h, PERIOD * ratio, theme);
    context.globalAlpha = COVER * strength;
    context.fillStyle = theme.accent;
    context.fillRect(x, y, w, h);
    context.globalAlpha = 1;
  });
  return [context, ratio];
}

function hatchPatch(context, x, y, w, h, period, theme) {
  context.save();
  context.beginPath();
  context.rect(x, y, w, h);
  context.clip();
  context.strokeStyle = theme.quiet;
  context.beginPath();
  for (let at = x - h; at < x + w; at += period) {
    context.moveTo(at, y + h);
    context.lineTo(at + h, y);
  }
  context.stroke();
  context.restore();
}

// A line around a patch, visible on any image: light within dark.
function ring(context, { rows, columns }, patch, width, height, ratio) {
  const [r, c] = [Math.floor(patch / columns), patch % columns],
    box = [c * width / columns, r * height / rows, width / columns, height / rows];
  for (const [colour, line] of [["#000", 4], ["#fff", 2]]) {
    context.strokeStyle = colour;
    context.lineWidth = line * ratio;
    context.strokeRect(...box);
  }
}
