// What every page has around its content: the theme's button and the dialog for the API key.

import { apiKey, forgetApiKey, onKeyNeeded, setApiKey } from "./fetching.js";

const THEMES = ["system", "light", "dark"];

function setUpTheme() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const shown = () => {
    button.textContent = `Theme: ${root.dataset.theme ?? "system"}`;
  };
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "system") + 1) % THEMES.length];
    if (next === "system") {
      delete root.dataset.theme;
      localStorage.removeItem("theme");
    } else {
      root.dataset.theme = next;
      localStorage.setItem("theme", next);
    }
    shown();
    document.dispatchEvent(new CustomEvent("themechange"));
  });
  shown();
}

function setUpKey() {
  const dialog = document.getElementById("key-dialog");
  if (dialog === null) return; // this service asks for none
  const input = document.getElementById("key");
  const open = () => {
    input.value = apiKey() ?? "";
    if (!dialog.open) dialog.showModal();
    input.select();
  };
  document.getElementById("key-open").addEventListener("click", open);
  document.getElementById("key-close").addEventListener("click", () => dialog.close());
  document.getElementById("key-forget").addEventListener("click", () => {
    forgetApiKey();
    dialog.close();
  });
  document.getElementById("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (input.value.trim()) setApiKey(input.value.trim());
    dialog.close();
    document.dispatchEvent(new CustomEvent("keychange")); // pages ask again what was refused
  });
  onKeyNeeded(open);
}

setUpTheme();
setUpKey();
