// The tokens of a matrix whose cells are `wide` × `tall` and begin at (left, top): queries down its side, keys over it, every
// n-th where there is no room for all, or, where the names of every second row are `aside`, all of them in two columns; keys of several letters are turned where they would touch. A label is [text, note, special].
const LEAST_LETTERS = 12; // px

function nameTokens(context, queries, keys, { left, top, wide, tall, theme, largest = 13, aside = 0, steep = false }) {
  const measure = (text) => context.measureText(text).width;
  const ink = (label) => (context.fillStyle = label[2] ? theme.quiet : theme.text);
  const size = (room) => Math.max(LEAST_LETTERS, Math.min(largest, room * 0.8)), every = (letters, room) => Math.ceil((letters - 0.5) / room);
  context.textBaseline = "middle";
  context.font = `${size(tall)}px ${theme.font}`;
  context.textAlign = "right";
  const nth = every(size(tall), tall);
  queries.forEach((label, q) => {
    const away = nth === 2 && q % 2 ? aside : 0, y = top + (q + 0.5) * tall;
    if (q % nth && !away) return;
    if (away) {
      context.fillStyle = theme.line;
      context.fillRect(left - away - 4, y - 0.5, away + 2, 1);
    }
    ink(label);
    context.fillText(fit(label[0], left - 22 - away, measure), left - 6 - away, y);
  });
  context.font = `${size(wide)}px ${theme.font}`;
  const flat = keys.every((label) => measure(label[0]) < wide - 4), slant = !steep && wide * Math.SQRT1_2 >= LEAST_LETTERS - 0.5;
  const upright = (label) => flat || [...label[0]].length === 1, single = keys.every((label) => label[2] || upright(label));
  const turn = flat ? 0 : slant ? Math.PI / 4 : Math.PI / 2, across = flat ? wide : wide * Math.sin(turn); // from line to line
  const letters = flat ? size(wide) : Math.max(LEAST_LETTERS, Math.min(size(wide), across));
  context.font = `${letters}px ${theme.font}`;
  const step = single ? Math.ceil((letters * 0.7) / wide) : every(letters, across);
  keys.forEach((label, k) => {
    if (k % step) return;
    ink(label);
    context.textAlign = upright(label) ? "center" : "left";
    context.save();
    context.translate(left + (k + 0.5) * wide, top - (upright(label) ? 9 : 5));
    context.rotate(upright(label) ? 0 : -turn);
    context.fillText(fit(label[0], flat ? wide : (top - 24) / Math.sin(turn), measure), 0, 0);
    context.restore();
  });
}
