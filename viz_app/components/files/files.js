// Links to files. A hidden frame of the document fetches the file, so that neither the page nor a download in progress is lost when the
// links are rebuilt; a sentence that the server sends instead of the file is shown. A link stays the same element while its page is
// redrawn: it keeps the keyboard, and no click between two runs is lost.
function mount({ data, parentElement }) {
  const root = parentElement.querySelector(".downloads"), note = root.querySelector("p"), frame = fetching();
  const list = root.querySelector("ul");
  const lines = children(list, data.files.length, () => put(put(list, "li"), "a"));
  data.files.forEach(({ label, url }, i) => {
    const link = lines[i].firstChild;
    if (link.textContent !== label) link.textContent = label;
    link.href = url;
    link.onclick = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      note.textContent = "";
      frame.onload = () => (note.textContent = frame.contentDocument?.body?.textContent ?? "");
      frame.contentWindow.location.replace(link.href);
    };
  });
}

function fetching() {
  if (window.attnscopeFetching) return window.attnscopeFetching;
  const frame = window.attnscopeFetching = put(document.body, "iframe");
  frame.title = "The file that is being sent";
  frame.hidden = true;
  return frame;
}
