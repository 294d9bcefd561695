// Puts the parts of a picture on the page (parts.js), and after a click shows what Python has drawn beforehand, or says which call draws it.
const main = document.querySelector("main"), roomOf = (part) => document.querySelector(`[data-part="${part}"]`) ?? main, call = document.querySelector(".call");

// In a notebook, the theme is dark if the text around the frame is light; a separate page follows the system.
function themeAround() {
  const outside = window.frameElement?.parentElement;
  if (!outside) return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const [r, g, b] = getComputedStyle(outside).color.match(/[\d.]+/g).map(Number);
  return 0.3 * r + 0.6 * g + 0.1 * b > 128 ? "dark" : "light";
}

const NAMED = /\{(\w+)\}/g;

function answer(from, event, value) {
  const fits = (one) => one.part === from && one.event === event
    && Object.entries(one.values).every(([name, v]) => value[name] === v)
    && [...one.code.matchAll(NAMED)].every(([, name]) => name in value);
  const matched = answers.find(fits);
  if (!matched) return;
  call.hidden = !matched.code;
  if (matched.code) return void say(matched, value);
  const part = parts[matched.shows], taken = Object.fromEntries(matched.takes.map((name) => [name, value[name]]));
  part.show(matched.payload ? arrays[matched.payload] : changed(part.payload, { ...matched.fields, ...taken }));
}

function say({ says, code }, value) {
  const filled = code.replace(NAMED, (_, name) => value[name]);
  call.replaceChildren(`${says} `, Object.assign(document.createElement("code"), { textContent: filled }));
}

// Parts that depend on the height of the window use the first height of the frame; otherwise each would make the other larger without end.
// By name: the least height, the height of everything else in the frame, and the largest height, as in head.css, mask_painter.css and difference.css.
function hold() {
  const parts = { head: [380, 285, 900], board: [250, 445, 400], difference: [170, 300, 480] };
  for (const [name, [least, beside, most]] of Object.entries(parts))
    document.documentElement.style.setProperty(`--attnscope-${name}`, `${Math.min(most, Math.max(least, window.innerHeight - beside))}px`);
}

// A frame in a notebook is as high as its content.
function fit() {
  const frame = window.frameElement;
  if (frame && parts.length) frame.style.height = `${Math.ceil(document.body.getBoundingClientRect().height)}px`;
}

function restyle() {
  const current = theme || themeAround();
  if (document.documentElement.dataset.theme === current) return;
  document.documentElement.dataset.theme = current;
  for (const part of parts) part.show();
}

if (window.frameElement) hold();
window.attnscope = {};
const { theme, title, about, answers, arrays, ...picture } = await unpacked(document.querySelector("#drawn")), parts = [];
main.replaceChildren();
main.classList.toggle("two", picture.parts.length > 1);
for (const [i, part] of picture.parts.entries()) {
  const script = document.createElement("script");       // runs where a page's policy allows neither eval nor blobs
  script.textContent = `attnscope.${part.name} = (() => {\n${part.files.js}\nreturn show;\n})();`;
  document.head.append(script);
  const mounted = new Part(part.name, part.files, part.name, roomOf(i), (event, value) => answer(i, event, value));
  mounted.payload = part.is_object ? parsed(arrays[part.payload]) : arrays[part.payload];
  parts.push(mounted);
}
document.title = title;
document.querySelector(".about").textContent = about;
restyle();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
if (window.frameElement) new MutationObserver(restyle).observe(window.parent.document.body, { attributes: true });
new ResizeObserver(fit).observe(document.body);
