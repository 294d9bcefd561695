// Text from outside, as text: every row is set with textContent, so no markup in it has any effect.
function mount({ data, parentElement }) {
  const box = parentElement.querySelector(".plain");
  box.className = `plain ${data.look}`;
  if (data.look.includes("bad")) box.setAttribute("role", "alert");
  else box.removeAttribute("role");
  box.replaceChildren(...data.rows.map(([look, text]) => {
    const row = document.createElement("p");
    row.className = look;
    row.dir = "auto";
    row.textContent = text;
    return row;
  }));
  if (parentElement.host) refused(box, data, parentElement.host);
  if (data.look.startsWith("written")) whole(box);
  else requestAnimationFrame(() => scrolls(box));
}

// A text that cannot be read: style.css dims the page below, whose pictures are of the text before. A text that is too long has a button
// that keeps only its start, and beside it what would be cut.
function refused(box, { look, stale = false, keep, offer, rest }, host) {
  host.toggleAttribute("data-bad", look.includes("bad"));
  host.toggleAttribute("data-stale-picture", stale);
  if (!stale) return;
  box.style.setProperty("--attnscope-to-edge", `${Math.round(innerWidth - host.getBoundingClientRect().left)}px`);
  if (keep === undefined) return;
  const button = document.createElement("button"), cut = document.createElement("p");
  Object.assign(button, { type: "button", className: "keep", textContent: offer });
  button.onclick = () => leave(host.closest("[class*=st-key-bar-]")?.querySelector("textarea"), keep);
  Object.assign(cut, { className: "rest", dir: "auto", textContent: `Cut: ${rest}`, title: rest });
  box.append(button, cut);
}

// Keeps only the first characters of a text box, as if the others had been deleted by hand; they come back with Ctrl+Z.
function leave(box, keep) {
  if (!box) return;
  box.focus();
  box.setSelectionRange([...box.value].slice(0, keep).join("").length, box.value.length);
  document.execCommand("delete");
}

// Text that does not fit can be scrolled, with the keys too.
function scrolls(box) {
  if (box.scrollHeight > box.clientHeight + 1 && getComputedStyle(box).overflowY === "auto") box.tabIndex = 0;
  else box.removeAttribute("tabindex");
}

// Both texts have two lines, so that nothing moves while one types; if that is too little, a button shows all of it over the page.
function whole(box) {
  const texts = [...box.querySelectorAll(".source, .output")], open = box.dataset.open === "true";
  box.classList.toggle("open", open);
  const button = box.querySelector("button") ?? document.createElement("button");
  Object.assign(button, { type: "button", textContent: open ? "show less" : "show all", hidden: !open });
  button.onclick = () => {
    box.dataset.open = !open;
    whole(box);
  };
  box.append(button);
  if (open) {
    for (const text of texts) text.classList.remove("cut");
    return;
  }
  // when the page is laid out anyway: to ask earlier would cost a layout at every key
  requestAnimationFrame(() => {
    for (const text of texts) {
      const isCut = text.scrollHeight > text.clientHeight + 2;
      text.classList.toggle("cut", isCut);
      if (isCut) text.tabIndex = 0; // scrolled with the keys, too
      else text.removeAttribute("tabindex");
    }
    button.hidden = !texts.some((text) => text.classList.contains("cut"));
  });
}
