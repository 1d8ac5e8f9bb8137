// All weights of a head as a map: a row for each query, a column for each key.
(function () {
  const pixels = 720; // at most, on a side

  view.weightScale = view.scale(1e-4, 1, true);

  // Each pixel has the largest weight that falls on it.
  function image(head, state, scheme) {
    const [width, height] = [Math.min(pixels, head.keys), Math.min(pixels, head.queries)];
    const largest = new Float32Array(width * height);
    const columns = Uint16Array.from({ length: head.keys }, (_, key) => Math.floor((key * width) / head.keys));
    for (let query = 0; query < head.queries; ++query) {
      const start = Math.floor((query * height) / head.queries) * width;
      const row = head.weights(scheme, state.u, "row", query);
      for (let key = 0; key < row.length; ++key) {
        const place = start + columns[key];
        largest[place] = Math.max(largest[place], row[key]);
      }
    }
    const colours = Array.from({ length: 256 }, (_, n) => view.rgb(n / 255));
    const canvas = view.element("canvas", { width, height });
    const context = canvas.getContext("2d");
    const data = context.createImageData(width, height);
    largest.forEach((weight, n) => {
      data.data.set(colours[Math.round(255 * view.weightScale(weight))], 4 * n);
      data.data[4 * n + 3] = 255;
    });
    context.putImageData(data, 0, 0);
    return canvas;
  }

  // The map of a scheme. Its method cross(query, key) draws it with lines through the chosen token; `tell(query, key)` hears where
  // the pointer is. A click chooses a query.
  view.map = function (head, state, scheme, title, tell) {
    const height = Math.max(40, Math.round(pixels * Math.min(1, head.queries / head.keys)));
    const canvas = view.element("canvas", { width: pixels, height, role: "img", class: "map",
      "aria-label": `All weights under ${title}: a row for each query, a column for each key. Tables list those of the chosen token.` });
    const source = image(head, state, scheme);
    const context = canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    canvas.cross = function (query, key) {
      context.drawImage(source, 0, 0, pixels, height);
      context.fillStyle = view.paint("mark");
      context.fillRect(0, ((query + 0.5) * height) / head.queries - 1, pixels, 2);
      context.fillRect(((key + 0.5) * pixels) / head.keys - 1, 0, 2, height);
    };
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      const place = (share, count) => Math.min(count - 1, Math.max(0, Math.floor(share * count)));
      return [place((event.clientY - box.top) / box.height, head.queries), place((event.clientX - box.left) / box.width, head.keys)];
    };
    canvas.addEventListener("mousemove", (event) => tell(...at(event)));
    canvas.addEventListener("click", (event) => view.chooseQuery(at(event)[0]));
    return canvas;
  };

  view.savedMap = function (canvas, title) {
    const height = (344 * canvas.height) / canvas.width;
    return view.picture(360, height + 52, canvas.getAttribute("aria-label"), view.label(8, 16, title, { "font-weight": "bold" }),
      view.svg("image", { x: 8, y: 24, width: 344, height, href: canvas.toDataURL(), preserveAspectRatio: "none" }),
      view.label(8, height + 42, "rows: queries, from the top; columns: keys, from the left", { "font-size": 11 }));
  };
})();
