// Elements of the page.

function put(parent, tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

// The `n` children of an element. Missing ones are added by `make(parent)`; one that stays keeps the keyboard.
function children(parent, n, make) {
  while (parent.children.length > n) parent.lastChild.remove();
  while (parent.children.length < n) make(parent);
  return [...parent.children];
}

// Puts a tooltip beside the pointer, inside the component.
function placeTip(tip, root, event) {
  const { left, top } = root.getBoundingClientRect();
  tip.style.left = `${Math.max(0, Math.min(event.clientX - left + 16, root.clientWidth - tip.offsetWidth))}px`;
  tip.style.top = `${event.clientY - top + 18}px`;
}

// Counts in data-painted how often a component was drawn.
function countPaint(root) {
  root.dataset.painted = (Number(root.dataset.painted) || 0) + 1;
}
