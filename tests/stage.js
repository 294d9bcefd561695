// The page of tests/stage.py: shows components, and logs what is drawn on every canvas, in CSS pixels of the canvas.
(() => {
  const logs = new WeakMap();
  const log = (canvas) => logs.get(canvas) ?? (logs.set(canvas, []), logs.get(canvas));
  const context2d = CanvasRenderingContext2D.prototype;

  const ratioOf = ({ canvas }) => Number(canvas.dataset.ratio) || window.devicePixelRatio;
  const point = (context, x, y) => {
    const { a, b, c, d, e, f } = context.getTransform(), ratio = ratioOf(context);
    return [(a * x + c * y + e) / ratio, (b * x + d * y + f) / ratio];
  };
  const box = (context, x, y, w, h) => {
    const [left, top] = point(context, x, y), [right, bottom] = point(context, x + w, y + h);
    return { x: left, y: top, w: right - left, h: bottom - top };
  };
  const scale = (context) => context.getTransform().a / ratioOf(context);

  const notes = {
    fillText: (context, text, x, y) => {
      const [left, top] = point(context, x, y), { a, b } = context.getTransform();
      return {
        op: "text", text, x: left, y: top, colour: context.fillStyle, font: context.font, align: context.textAlign,
        baseline: context.textBaseline, angle: Math.atan2(b, a), wide: context.measureText(text).width,
      };
    },
    fillRect: (context, ...place) => ({ op: "rect", ...box(context, ...place), colour: context.fillStyle }),
    strokeRect: (context, ...place) => ({ op: "frame", ...box(context, ...place), colour: context.strokeStyle, line: context.lineWidth * scale(context) }),
    stroke: (context) => ({ op: "path", lines: context.lines ?? [], colour: context.strokeStyle, line: context.lineWidth * scale(context), clip: context.clipped }),
    putImageData: (context, image, x, y) => {
      const ratio = ratioOf(context);
      return { op: "image", x: x / ratio, y: y / ratio, w: image.width / ratio, h: image.height / ratio };
    },
    drawImage: (context, from, x, y, w = from.width, h = from.height) => ({ op: "copy", ...box(context, x, y, w, h), of: [...log(from)] }),
  };
  for (const [name, note] of Object.entries(notes)) {
    const own = context2d[name];
    context2d[name] = function (...all) {
      log(this.canvas).push(note(this, ...all));
      return own.apply(this, all);
    };
  }
  const also = (name, then) => {
    const own = context2d[name];
    context2d[name] = function (...all) {
      then(this, ...all);
      return own.apply(this, all);
    };
  };
  also("beginPath", (context) => (context.lines = []));
  also("moveTo", (context, x, y) => (context.from = point(context, x, y)));
  also("lineTo", (context, x, y) => {
    const to = point(context, x, y);
    (context.lines ??= []).push([...context.from, ...to]);
    context.from = to;
  });
  also("rect", (context, ...place) => (context.place = box(context, ...place)));
  also("clip", (context) => (context.clipped = context.place));
  also("restore", (context) => (context.clipped = undefined));
  also("reset", (context) => logs.set(context.canvas, []));
  also("clearRect", (context, ...place) => {
    const { x, y, w, h } = box(context, ...place), { width, height } = context.canvas, ratio = ratioOf(context);
    if (x <= 0 && y <= 0 && x + w >= width / ratio - 1 && y + h >= height / ratio - 1) logs.set(context.canvas, []);
  });
  for (const name of ["width", "height"]) {
    const own = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, name);
    Object.defineProperty(HTMLCanvasElement.prototype, name, {
      ...own, set(value) { logs.set(this, []); own.set.call(this, value); },
    });
  }

  const toBlob = HTMLCanvasElement.prototype.toBlob;
  let whole;
  HTMLCanvasElement.prototype.toBlob = function (...all) {
    whole = this;
    return toBlob.apply(this, all);
  };

  const base64 = (bytes) => {
    let text = "";
    for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
    return btoa(text);
  };

  let module, hand, end;
  const blobs = new Map(), address = URL.createObjectURL;
  URL.createObjectURL = (blob) => {
    const made = address.call(URL, blob);
    blobs.set(made, blob);
    return made;
  };
  HTMLAnchorElement.prototype.click = function () { hand?.(this); };

  // Timers that wait until a test ends them. Each mount starts with the browser's own timers.
  const { setTimeout, clearTimeout } = window, held = new Map();
  const timers = {
    release() {
      Object.assign(window, { setTimeout, clearTimeout });
      const left = [...held.values()];
      held.clear();
      return left;
    },
    hold() {
      let number = 2 ** 40;     // no timer of the browser has it
      window.setTimeout = (end, wait, ...values) => (held.set(++number, () => end(...values)), number);
      window.clearTimeout = (timer) => held.delete(timer) || clearTimeout(timer);
    },
  };

  window.stage = {
    holdTimers: timers.hold,
    endTimers: () => timers.release().forEach((end) => end()),
    log, saving: () => whole,
    async mount(parts, colours, width) {
      timers.release();
      end?.();
      end = undefined;
      document.body.innerHTML = "";
      delete window.attnscopePictures;
      await this.beside(parts, colours, width);
      this.sent = [];
    },
    async beside(parts, colours, width) {
      const host = document.createElement("div");
      host.style.width = `${width}px`;
      for (const [name, value] of Object.entries(colours)) host.style.setProperty(name, value);
      document.body.append(host);
      this.host = host;
      this.root = host.attachShadow({ mode: "open" });
      this.root.innerHTML = `<style>${parts.css}</style>${parts.html}`;
      const from = address.call(URL, new Blob([parts.js], { type: "text/javascript" }));
      module = await import(from);
      URL.revokeObjectURL(from);
    },
    show(data) {
      const { sent } = this;
      end = module.default({
        key: "not ours", data: typeof data === "string" ? Uint8Array.from(atob(data), (c) => c.charCodeAt(0)) : data,
        parentElement: this.root, setTriggerValue: (name, value) => sent.push([name, value]),
      });
    },
    // What happens when the component leaves the page.
    end() { this.host.remove(); end?.(); end = undefined; return new Promise((done) => setTimeout(done)); },
    endOf: () => end,
    // Runs of one colour, [length, red | green << 8 | blue << 16 …], because that is little to send.
    pixels(canvas) {
      const { width, height } = canvas, runs = [];
      const all = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, width, height).data.buffer);
      for (let i = 0, from = 0; i < all.length; i++) {
        if (i + 1 < all.length && all[i + 1] === all[i]) continue;
        runs.push(i + 1 - from, all[i]);
        from = i + 1;
      }
      return [width, height, base64(new Uint8Array(Uint32Array.from(runs).buffer))];
    },
    async saved(button) {
      const link = await new Promise((done, failed) => {
        hand = done;
        setTimeout(() => failed(new Error("no file")), 60_000);
        button.click();
      });
      const blob = blobs.get(link.href);
      return [link.download, blob.type, base64(new Uint8Array(await blob.arrayBuffer()))];
    },
    async decoded(raw) {
      const bytes = Uint8Array.from(atob(raw), (c) => c.charCodeAt(0)), canvas = document.createElement("canvas");
      const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
      Object.assign(canvas, { width: bitmap.width, height: bitmap.height });
      canvas.getContext("2d").drawImage(bitmap, 0, 0);
      return this.pixels(canvas);
    },
    async frames(n) {
      for (let i = 0; i < n; i++) await new Promise((done) => requestAnimationFrame(done));
    },
  };
})()
