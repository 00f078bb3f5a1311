// Elements without HTML text: nothing that came from anywhere can become markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, of] of Object.entries(value)) node.style.setProperty(key, of);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** el("p", { class: "hint" }, "text", el("b", {}, "bold")): `on…` are listeners, `style` an object of properties. */
export const el = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);

/** The same in SVG. */
export const svg = (name, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, name), attributes, children);

/** The element with this id, which the page must have. */
export const byId = (id) => document.getElementById(id);

/** Show an error in one line: `node` is an element with role="alert" that is hidden while there is none. */
export function showProblem(node, error) {
  const { message } = error;
  const plain = /^[a-z]+ /.test(message); // names of files and fields stay as they are written
  node.textContent = plain ? message.charAt(0).toUpperCase() + message.slice(1) : message;
  node.hidden = false;
}

/** Take the error away. */
export function clearProblem(node) {
  node.hidden = true;
  node.textContent = "";
}
