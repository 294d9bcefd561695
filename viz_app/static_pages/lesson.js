// The pictures of a lesson, each in its place; a click that needs the model shows a message.
const { names, kept, says, objects, arrays } = await unpacked(document.querySelector("#drawn")), parts = [];

function mount(i) {
  const place = document.querySelector(`[data-part="${i}"]`), name = names[i];
  const part = new Part(name, attnscope.files[name], `${name}-${i}`, place, (trigger, value) => answer(i, trigger, value));
  parts[i]?.place.remove();
  parts[i] = part;
  part.show(objects.includes(i) ? parsed(arrays[`p${i}`]) : arrays[`p${i}`]);
}

function answer(i, trigger, value) {
  notice.hidden = true;
  if (isKept(kept, names[i], trigger, value)) return;
  tell(says.unavailable);
  mount(i); // as it was before the click
}

names.forEach((_, i) => mount(i));
addEventListener("themechange", () => parts.forEach((part) => part.show()));
