// Puts the parts of a picture on the page (parts.js), and after a click shows what Python has drawn beforehand, or says which call draws it.
const main = document.querySelector("main"), roomOf = (part) => document.querySelector(`[data-part="${part}"]`) ?? main, call = document.querySelector(".call");

// In a notebook the one whose letters are light is dark, whatever it is made of; a page of its own follows the system.
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
  const found = answers.find(fits);
  if (!found) return;
  call.hidden = !found.code;
  if (found.code) return void say(found, value);
  const part = parts[found.shows], taken = Object.fromEntries(found.takes.map((name) => [name, value[name]]));
  part.show(found.payload ? arrays[found.payload] : changed(part.payload, { ...found.fields, ...taken }));
}

function say({ says, code }, value) {
  const filled = code.replace(NAMED, (_, name) => value[name]);
  call.replaceChildren(`${says} `, Object.assign(document.createElement("code"), { textContent: filled }));
}

// What fits itself to the height of a window fits itself to the frame as it is at first: one that grew with it would never end.
// By name: the least height, that of everything else in the frame, and the most, as in head.css, mask_painter.css and difference.css.
function hold() {
  const parts = { head: [380, 285, 900], board: [250, 445, 400], difference: [170, 300, 480] };
  for (const [name, [least, beside, most]] of Object.entries(parts))
    document.documentElement.style.setProperty(`--attnscope-${name}`, `${Math.min(most, Math.max(least, window.innerHeight - beside))}px`);
}

// A frame in a notebook is as high as what it holds.
function fit() {
  const frame = window.frameElement;
  if (frame && parts.length) frame.style.height = `${Math.ceil(document.body.getBoundingClientRect().height)}px`;
}

function restyle() {
  const found = theme || themeAround();
  if (document.documentElement.dataset.theme === found) return;
  document.documentElement.dataset.theme = found;
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
