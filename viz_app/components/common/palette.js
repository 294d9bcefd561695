// Colours with one meaning everywhere: a weight goes from the page's background (0) to the accent (1), evenly in OKLab.
const HEAD_COLOURS = [
  "#0072B2",
  "#E69F00",
  "#009E73",
  "#CC79A7",
  "#56B4E9",
  "#D55E00",
  "#8C6BB1",
  "#999933",
  "#882255",
  "#44AA99",
  "#AA4499",
  "#117733",
];
const headColour = (head) => HEAD_COLOURS[head % HEAD_COLOURS.length];

// The colours of the page around an element.
function themeOf(element) {
  if (!themes.has(element)) themes.set(element, readTheme(element));
  return themes.get(element);
}

function readTheme(element) {
  const style = getComputedStyle(element);
  const read = (name, otherwise) => rgb(style.getPropertyValue(name).trim() || otherwise);
  const background = read("--st-background-color", "#ffffff");
  const accent = read("--st-primary-color", "#1f3fc4");
  const text = read("--st-text-color", "#20242c");
  const ramp = rampOf(background, accent);
  const mix = (share) => css(background.map((b, i) => b + (text[i] - b) * share));
  return {
    ramp,
    background: css(background),
    accent: css(accent),
    text: css(text),
    quiet: mix(0.62),
    line: mix(0.18),
    hatch: background.map((b, i) => Math.round(b + (text[i] - b) * 0.38)),
    paper: background,
    ink: text,
    font: style.getPropertyValue("--st-font").trim() || "sans-serif",
    on: (code) => inkOn(ramp[code], [background, text]),
  };
}

// The ink that is most legible on a colour: the first of the page's inks that is legible enough, else black or white.
const LEGIBLE = 4.5; // contrast that WCAG 2.2 AA asks of small text

function inkOn(colour, inks) {
  const best = (some) => some.reduce((one, other) => (contrast(colour, other) > contrast(colour, one) ? other : one));
  const own = best(inks);
  return css(contrast(colour, own) >= LEGIBLE ? own : best([own, [0, 0, 0], [255, 255, 255]]));
}

function rgb(colour) {
  const context = (rgb.context ??= document.createElement("canvas").getContext("2d"));
  context.fillStyle = "#000";
  context.fillStyle = colour;
  const hex = context.fillStyle;
  if (hex[0] === "#") return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  return hex.match(/[\d.]+/g).slice(0, 3).map(Number);
}

const css = (c) => `rgb(${c.map(Math.round).join(" ")})`;

// Codes as in drawing/overview.py: 0 = masked, 1 … 255 = weight 0 … 1. ramp[code] is [r, g, b].
function rampOf(background, accent) {
  const from = toOklab(background), to = toOklab(accent);
  const ramp = [background];
  for (let code = 1; code < 256; code++) {
    const share = (code - 1) / 254;
    ramp.push(fromOklab(from.map((x, i) => x + (to[i] - x) * share)));
  }
  return ramp;
}

// The code of a weight, or of another share between 0 and 1.
const weightCode = (share) => 1 + Math.round(254 * Math.min(1, Math.max(0, share)));

const rampGradient = ({ ramp }) => `linear-gradient(to right, ${ramp.filter((_, i) => i % 32 === 1).concat([ramp[255]]).map(css)})`;

const linear = (v) => (v <= 10.31475 ? v / 3294.6 : ((v / 255 + 0.055) / 1.055) ** 2.4);
const encoded = (v) => 255 * Math.min(1, Math.max(0, v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055));

function toOklab(colour) {
  const [r, g, b] = colour.map(linear);
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function fromOklab([L, a, b]) {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map(encoded);
}

const luminance = (c) => c.map(linear).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);

function contrast(a, b) {
  const [x, y] = [luminance(a), luminance(b)];
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}
