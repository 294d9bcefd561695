// What a browser shows first is an outline of the app (style.css). It is replaced by the app once all parts of the page are present and at
// rest, so that nothing moves; or, where a model takes long to open, once the page shows that.
(() => {
  const STILL = 3, PATIENCE = 3_000, LONGEST = 20_000; // frames in which nothing moves; ms to wait for a model; ms in total
  const root = document.documentElement, find = (one) => document.querySelector(`[data-testid=${one}]`);
  let before = "", still = 0;
  const isThere = () => {
    const main = find("stMain"), isAtRest = find("stApp")?.dataset.testScriptState === "notRunning";
    const opens = document.querySelector(".st-key-opening") && performance.now() < PATIENCE;
    return isAtRest && !opens && main?.querySelector(".stElementContainer") && !main.querySelector("[data-testid=stSkeleton]");
  };
  const places = () =>
    [...document.querySelectorAll(".stElementContainer, [data-testid=stTopNav] a")].map((e) => {
      const { x, y, width, height } = e.getBoundingClientRect();
      return [x, y, width, height].map(Math.round).join(" ");
    }).join();
  const look = () => {
    const now = isThere() ? places() : "";
    still = now && now === before ? still + 1 : 0;
    before = now;
    if (still < STILL && performance.now() < LONGEST) return requestAnimationFrame(look);
    root.dataset.shown = "";
  };
  document.fonts.ready.then(look);

  // Charts are drawn on the server for one of these windows (drawing/screen.py). A cookie tells it before the first chart is drawn; a
  // later change fires `windowsize` for components/tools.
  const WINDOWS = { large: matchMedia("(min-width: 1800px) and (min-height: 1000px)"), phone: matchMedia("(max-width: 767px)") };
  const measure = () => {
    root.dataset.window = Object.keys(WINDOWS).find((name) => WINDOWS[name].matches) ?? "usual";
    document.cookie = `attnscope_window=${root.dataset.window}; Path=/; SameSite=Lax`;
    root.dispatchEvent(new Event("windowsize"));
  };
  for (const one of Object.values(WINDOWS)) one.addEventListener("change", measure);
  measure();
})();
