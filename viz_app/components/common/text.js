// Numbers and tokens as text.

// The shortest decimal that names exactly this float32.
function exact(value) {
  if (value === 0 || value === 1) return String(value);
  for (let digits = 6; digits < 10; digits++) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === value) return text.includes("e") ? String(Number(text)) : text;
  }
  return value.toPrecision(9);
}

// Shortened in the middle to at most `limit` characters, whole characters only.
function shorten(text, limit) {
  const characters = [...text];
  if (characters.length <= limit) return text;
  const tail = Math.floor((limit - 1) / 2);
  return characters.slice(0, limit - 1 - tail).join("") + "…" + characters.slice(characters.length - tail).join("");
}

// Shortened in the middle until `measure(text)` is at most `room`.
function fit(text, room, measure) {
  let limit = [...text].length;
  let shown = text;
  while (limit > 2 && measure(shown) > room) shown = shorten(text, --limit);
  return shown;
}

// Measures text in a font.
function widthIn(font) {
  const context = (widthIn.context ??= document.createElement("canvas").getContext("2d"));
  context.font = font;
  return (text) => context.measureText(text).width;
}

function put(parent, tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}
