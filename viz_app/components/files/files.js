// Links to files. A hidden frame fetches one, so that the page stays; a sentence that the server sends instead of the file is shown.
function mount({ data, parentElement }) {
  const root = parentElement.querySelector(".downloads"), frame = root.querySelector("iframe"), note = root.querySelector("p");
  frame.onload = () => (note.textContent = frame.contentDocument?.body?.textContent ?? "");
  root.querySelector("ul").replaceChildren(...data.files.map(({ label, url }) => {
    const item = document.createElement("li"), link = put(item, "a", "", label);
    link.href = url;
    link.onclick = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      note.textContent = "";
      frame.contentWindow.location.replace(link.href);
    };
    return item;
  }));
}
