// The keys that an element handles: { key: action }. An action returns false if it does not handle its key at the moment. All
// other keys, and every key together with Ctrl, Alt, Meta or Shift, are left to the browser: Tab leaves, F5 reloads.
function useKeys(element, actions) {
  element.onkeydown = (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey || !Object.hasOwn(actions, event.key)) return;
    if (actions[event.key](event) !== false) event.preventDefault();
  };
}

// The four arrows, as `move` takes them: rows down and columns to the right.
const arrows = (move) => ({
  ArrowLeft: () => move(0, -1),
  ArrowRight: () => move(0, 1),
  ArrowUp: () => move(-1, 0),
  ArrowDown: () => move(1, 0),
});
