// A component shows what Streamlit's reruns send, and while someone types what comes over the live socket (viz_app/session/live.py and live_route.py).
// Both come with their edition, [edit, rerun]; an older edition never replaces a newer one.
let themes = new WeakMap(); // element → its colours, until Streamlit remounts it, as it does when they change
// key → { edition, data, rerun, show } of each component on the page; `rerun` is the { edition, data } that the last rerun sent
const pictures = (window.attnscopePictures ??= new Map());

function show(component) {
  const { data, parentElement } = component, { key, edition } = stampOf(data);
  const current = pictures.get(key), picture = { edition, data, rerun: { edition, data } };
  if (current && older(edition, current.edition)) Object.assign(picture, { edition: current.edition, data: current.data });
  picture.show = () => {
    reachable(parentElement);
    return mount({ ...component, data: picture.data });
  };
  themes = new WeakMap();
  pictures.set(key, picture);
  const end = picture.show();
  // Streamlit also ends a rerun that another has followed closely. The view that both share stays active while it is on the page.
  return () => {
    if (pictures.get(key) === picture) pictures.delete(key);
    setTimeout(() => parentElement.isConnected || end?.());
  };
}

const older = (one, other) => one[0] < other[0] || (one[0] === other[0] && one[1] < other[1]);

// What `stamp_payload` of components/__init__.py has added: whose data it is, and its edition.
function stampOf(data) {
  if (!(data instanceof Uint8Array)) return data;
  const end = data.length - 12, view = new DataView(data.buffer, data.byteOffset + end, 12);
  const key = new TextDecoder().decode(data.subarray(end - view.getUint32(0, true), end));
  return { key, edition: [view.getUint32(4, true), view.getUint32(8, true)] };
}

// An element that scrolls and contains nothing focusable becomes focusable itself, once the picture is at rest.
function reachable(root) {
  clearTimeout(root.atRest);
  root.atRest = setTimeout(() => {
    for (const e of root.querySelectorAll(":not(svg *, .behind, .behind *)")) {
      const overflows = e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1;
      if (overflows === Boolean(e.dataset.reached) || !(overflows ? scrollsItself(e) : e.dataset.reached)) continue;
      if (overflows) e.tabIndex = 0;
      else e.removeAttribute("tabindex");
      e.dataset.reached = overflows ? "true" : "";
    }
  }, 300);
}

function scrollsItself(e) {
  const { overflowX, overflowY } = getComputedStyle(e), inner = "a[href], button, input, select, textarea, summary, [tabindex]";
  return [overflowX, overflowY].some((how) => how === "auto" || how === "scroll") && !e.hasAttribute("tabindex") && !e.querySelector(inner);
}
