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

// A share in percent, as models/percent.py writes it: what would round to 0 or to 100 gets more digits, and at last a bound, so that
// "0 %" and "100 %" are written only for exactly 0 and 1.
const MOST_DIGITS = 2;

function percent(share, digits = 0) {
  if (share === 0 || share === 1) return `${100 * share} %`;
  for (let more = digits; more <= MOST_DIGITS; more++) {
    const text = (100 * share).toFixed(more);
    if (Number(text) !== 0 && Number(text) !== 100) return `${text} %`;
  }
  const end = 0.1 ** MOST_DIGITS;
  return share < 0.5 ? `<${end.toFixed(MOST_DIGITS)} %` : `>${(100 - end).toFixed(MOST_DIGITS)} %`;
}

// Shortened in the middle to at most `limit` characters, whole characters only.
function shorten(text, limit) {
  const characters = [...text];
  if (characters.length <= limit) return text;
  const tail = Math.floor((limit - 1) / 2);
  return characters.slice(0, limit - 1 - tail).join("") + "…" + characters.slice(characters.length - tail).join("");
}

const ARROW = " → "; // of drawing/labels.py: between what a row has read and what it writes

// Shortened in the middle until `measure(text)` is at most `room`; in a step, the longer of its two tokens, so that both stay.
function fit(text, room, measure) {
  const parts = text.split(ARROW), limits = parts.map((part) => [...part].length);
  let shown = text;
  while (measure(shown) > room && Math.max(...limits) > 2) {
    limits[limits.indexOf(Math.max(...limits))]--;
    shown = parts.map((part, i) => shorten(part, limits[i])).join(ARROW);
  }
  return shown;
}

// What an axis is, written with its arrow: all of it, or where there is no space for that, only the part before its colon.
function fitAxis(axis, withArrow, room, measure) {
  const whole = withArrow(axis);
  return measure(whole) <= room ? whole : fit(withArrow(axis.split(": ")[0]), room, measure);
}

// The text in lines of at most `room`, broken between words, and within one that is longer than a line; none for no text.
function wrapped(text, room, measure) {
  const lines = [];
  let line = "";
  for (const word of text.split(" ").filter(Boolean)) {
    if (line && measure(`${line} ${word}`) > room) lines.push(line), (line = "");
    line = line ? `${line} ${word}` : word;
    while (measure(line) > room && [...line].length > 1) {
      const letters = [...line];
      let n = letters.length - 1;
      while (n > 1 && measure(letters.slice(0, n).join("")) > room) n--;
      lines.push(letters.slice(0, n).join(""));
      line = letters.slice(n).join("");
    }
  }
  return line ? [...lines, line] : lines;
}

// Measures text in a font.
function widthIn(font) {
  const context = (widthIn.context ??= document.createElement("canvas").getContext("2d"));
  Object.assign(context, { font, textRendering: "geometricPrecision" }); // as raster.js draws
  return (text) => context.measureText(text).width;
}
