// One canvas with these beside each other, each below its caption.
function besideEachOther(canvases, captions, theme) {
  const ratio = pixelRatio(),
    band = 22,
    whole = document.createElement("canvas"),
    [context] = sized(
      whole,
      canvases.reduce((sum, canvas) => sum + canvas.width / ratio + band, 0),
      band + Math.max(...canvases.map((canvas) => canvas.height / ratio)),
    );
  context.fillStyle = theme.background;
  context.fillRect(0, 0, whole.width, whole.height);
  context.scale(ratio, ratio);
  Object.assign(context, { font: `12px ${theme.font}`, fillStyle: theme.text });
  let x = 0;
  canvases.forEach((canvas, n) => {
    context.fillText(captions[n], x + 4, 14);
    context.drawImage(canvas, x, band, canvas.width / ratio, canvas.height / ratio);
    x += canvas.width / ratio + band;
  });
  return whole;
}
