// The tokens of a matrix whose cells are `wide` × `tall` and begin at (left, top): queries down its side, keys over it, every
// n-th where there is no room for all; keys are turned where they would touch. A label is [text, note, special].
function nameTokens(context, queries, keys, { left, top, wide, tall, theme, largest = 13 }) {
  const measure = (text) => context.measureText(text).width;
  const ink = (label) => (context.fillStyle = label[2] ? theme.quiet : theme.text);
  const size = (room) => Math.max(9, Math.min(largest, room * 0.8)), every = (room) => Math.ceil((size(room) + 1) / room);
  context.textBaseline = "middle";
  context.font = `${size(tall)}px ${theme.font}`;
  context.textAlign = "right";
  queries.forEach((label, q) => {
    if (q % every(tall)) return;
    ink(label);
    context.fillText(fit(label[0], left - 22, measure), left - 6, top + (q + 0.5) * tall);
  });
  context.font = `${size(wide)}px ${theme.font}`;
  const flat = keys.every((label) => measure(label[0]) < wide - 4), across = flat ? wide : wide * Math.SQRT1_2;    // from line to line
  const letters = flat ? size(wide) : Math.max(9, Math.min(size(wide), across)), each = Math.ceil((letters - 0.5) / across);
  context.font = `${letters}px ${theme.font}`;
  context.textAlign = flat ? "center" : "left";
  keys.forEach((label, k) => {
    if (k % each) return;
    ink(label);
    context.save();
    context.translate(left + (k + 0.5) * wide, top - (flat ? 9 : 5));
    if (!flat) context.rotate(-Math.PI / 4);
    context.fillText(fit(label[0], (top - 24) * 1.4, measure), 0, 0);
    context.restore();
  });
}
