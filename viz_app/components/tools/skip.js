// The first stop of the Tab key: past the pages and the controls, to the headline of the page.
class SkipLink {
  constructor() {
    this.link = document.createElement("a");
    Object.assign(this.link, { className: "skip", href: "#root", textContent: "Skip to the page" });
    this.link.onclick = (event) => {
      event.preventDefault();
      const headline = document.querySelector("[data-testid=stMain] h1") ?? document.querySelector("[data-testid=stMain]");
      headline.tabIndex = -1;
      headline.focus();
    };
  }

  start() {
    document.body.prepend(this.link);
  }

  end() {
    this.link.remove();
  }
}
