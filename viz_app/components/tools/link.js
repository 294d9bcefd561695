// A link to the current view: the browser's address, with the texts in the boxes of the `fields`, which Streamlit
// may not know yet.
function linkOf(address, fields) {
  const link = new URL(address);
  for (const name of fields) {
    const box = document.querySelector(`.st-key-${CSS.escape(name)} textarea`);
    if (box?.value) link.searchParams.set(name, box.value);
    else if (box && link.searchParams.has(name)) link.searchParams.delete(name);
  }
  return link.href;
}

// Copies the text; returns whether it is on the clipboard. The second way needs no permission and no https, only a field that is selected.
async function copied(text, field) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    field.value = text;
    field.focus();
    field.select();
    return document.execCommand("copy");
  }
}
