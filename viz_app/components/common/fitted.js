// A window as narrow as a phone's, where secondary parts are shown only on request.
const isPhone = () => window.innerWidth <= 700;

// A view that is drawn for the width of its element: again when it has another picture, and when it gets another width.
class Fitted {
  constructor(root) {
    this.root = root;
    this.watcher = new ResizeObserver(() => this.resized());
    this.watcher.observe(root);
  }

  resized() {
    const width = this.root.clientWidth;
    if (this.picture && width && width !== this.width) this.fit(width);
  }

  // With the width that is known, because asking for it costs a layout.
  fit(width = this.width || this.root.clientWidth) {
    if (!width) return;
    const other = width !== this.width;
    this.width = width;
    this.draw(width, other);
  }
}
