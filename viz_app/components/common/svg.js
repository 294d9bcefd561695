// An element of a drawing, at the end of its parent; its text is set as text.
const SVG = "http://www.w3.org/2000/svg";

function putSvg(parent, tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}
