// Light or dark: as chosen on this site, else as the system. In the head, so that no page flashes.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)"), root = document.documentElement, THEME = "attnscope theme";
  const read = () => {
    try {
      return localStorage.getItem(THEME);
    } catch {
      return null; // a browser may store nothing for a page from disk
    }
  };
  let chosen = read();
  const current = () => (["light", "dark"].includes(chosen) ? chosen : system.matches ? "dark" : "light");
  const apply = () => {
    root.dataset.theme = current();
    dispatchEvent(new Event("themechange"));
  };
  system.addEventListener("change", apply);
  apply();
  addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("button.theme");
    const name = () => (button.textContent = current() === "dark" ? "Light" : "Dark");
    addEventListener("themechange", name);
    name();
    button.hidden = false;
    button.onclick = () => {
      chosen = current() === "dark" ? "light" : "dark";
      try {
        localStorage.setItem(THEME, chosen);
      } catch { /* the choice is for this page only */ }
      apply();
    };
  });
})();
