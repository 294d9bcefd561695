// Signed numbers: one colour below 0, the page's background at 0, the accent above; even steps in OKLab, safe for
// colour-blind eyes. A scale is the largest absolute value among the numbers that are compared with each other.
const SIGNED_STEPS = 127;

function signedRamp(theme) {
  if (theme.signed) return theme.signed;
  const dark = luminance(theme.paper) < 0.2, below = toOklab(dark ? [255, 150, 84] : [178, 70, 8]);
  const middle = toOklab(theme.paper), above = toOklab(theme.ramp[255]);
  const colours = [];
  for (let i = -SIGNED_STEPS; i <= SIGNED_STEPS; i++) {
    const end = i < 0 ? below : above, share = Math.abs(i) / SIGNED_STEPS;
    colours.push(fromOklab(middle.map((x, n) => x + (end[n] - x) * share)));
  }
  const inks = colours.map((c) => inkOn(c, [theme.paper, theme.ink]));
  return (theme.signed = { colours, css: colours.map(css), inks, packed: Uint32Array.from(colours, pack32) });
}

const signedCode = (value, scale) => SIGNED_STEPS + Math.round(SIGNED_STEPS * Math.max(-1, Math.min(1, scale ? value / scale : 0)));

// The key to signed colours, whose ends are ±`most`; without it the picture shows them elsewhere.
const signedKey = (theme, says, most = "") => ({ colours: signedRamp(theme).css, least: `−${most}`, most: `+${most}`, says });

// The value with the largest size among values[start … end).
function strongest(values, start, end, stride = 1) {
  let best = values[start];
  for (let i = start + stride; i < end; i += stride) if (Math.abs(values[i]) > Math.abs(best)) best = values[i];
  return best;
}

const plain = (value) => (value === -Infinity ? "−∞" : String(exact(value)).replace("-", "−"));
const brief = (value) => {
  if (value === -Infinity) return "−∞";
  const text = value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2);
  return Number(text) ? text.replace("-", "−") : text.replace("-", "");
};

// An end of a scale: "−0.25", or "−0.003" instead of a rounded 0; 0 has no sign.
const scaleEnd = (sign, limit) => {
  if (!limit) return "0";
  return sign + (limit < 0.01 ? String(Number(limit.toPrecision(1))).replace("-", "−") : brief(limit));
};

// "W^{Q}a^{i}" with its low and high parts as elements.
function setFormula(element, formula) {
  element.replaceChildren();
  element.dataset.formula = formula;
  for (const [, mark, inner, text] of formula.matchAll(/([_^])\{([^}]*)\}|([^_^]+|[_^])/g)) {
    if (mark) put(element, mark === "_" ? "sub" : "sup", "", inner);
    else element.append(text);
  }
}
