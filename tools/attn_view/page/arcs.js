// The largest weights of the chosen token as arcs between the words, in the order of the text.
(function () {
  const most = 5; // partners in the picture, for each direction and each stored scheme
  const [width, step, top] = [344, 19, 40]; // of the picture, of a line, and above the first line

  // The places of the largest weights under unas and under dnas, so that the slider changes no lines.
  function partners(weights, side) {
    const places = new Set();
    for (const scheme of ["unas", "dnas"]) {
      const values = weights[scheme][side];
      const positive = Array.from(values.keys()).filter((n) => values[n] > 0);
      positive.sort((a, b) => values[b] - values[a]).slice(0, most).forEach((n) => places.add(n));
    }
    return places;
  }

  // The lines, in the order of the text: the word, the places of its weights `out` of the chosen query and `into` the chosen key or
  // null, and whether it `asks` (is the chosen query) or is `asked` (is the chosen key).
  view.arcLines = function (head, state, weights) {
    const [out, into] = [partners(weights, "out"), partners(weights, "into")];
    const ordered = (places) => Array.from(places).sort((a, b) => a - b);
    if (head.oneSequence) {
      return ordered(new Set([...out, ...into, state.key])).map((n) => ({ word: view.keyWord(head, n),
        out: out.has(n) ? n : null, into: into.has(n) ? n : null, asks: n === state.key, asked: n === state.key }));
    }
    return [{ word: view.queryWord(head, state.query), out: null, into: null, asks: true },
      ...ordered(out).map((n) => ({ word: view.keyWord(head, n), out: n, into: null })),
      { word: view.keyWord(head, state.key), out: null, into: null, asked: true },
      ...ordered(into).map((n) => ({ word: view.queryWord(head, n), out: null, into: n }))];
  };

  function cut(word) {
    const letters = Array.from(word);
    return letters.length > 12 ? `${letters.slice(0, 11).join("")}…` : word;
  }

  const middle = (n) => top + (n + 0.5) * step;

  // The arc between two lines, whose words end at x = near; it bends up to x = far. From a line to itself it is a dot.
  function arc(weight, start, n, { near, far, colour, dashes }) {
    if (n === start) {
      return view.svg("circle", { cx: near, cy: middle(n), r: 1 + 5 * Math.sqrt(weight), fill: colour });
    }
    const bend = near + (far - near) * Math.min(1, 0.35 + Math.abs(n - start) / 12);
    return view.svg("path", {
      d: `M ${near} ${middle(start)} C ${bend} ${middle(start)} ${bend} ${middle(n)} ${near} ${middle(n)}`, fill: "none", stroke: colour,
      "stroke-width": 0.7 + 6 * weight, "stroke-opacity": 0.5 + 0.5 * Math.sqrt(weight), "stroke-dasharray": dashes });
  }

  // The picture of one scheme; `weights` are its weights {out, into}.
  view.arcs = function (title, weights, lines) {
    const sides = {
      out: { from: "asks", near: 228, far: 296, colour: view.paint("out"), dashes: null, edge: width - 4, anchor: "end" },
      into: { from: "asked", near: 116, far: 48, colour: view.paint("into"), dashes: "5 2", edge: 4, anchor: "start" },
    };
    const picture = view.picture(width, top + lines.length * step + 6, `The largest weights under ${title}; the tables below list all`,
      view.label(width / 2, 13, title, { "text-anchor": "middle", "font-weight": "bold" }),
      view.label(sides.into.edge, 31, "← attends to it", { fill: sides.into.colour, "font-size": 11 }),
      view.label(sides.out.edge, 31, "it attends to →", { fill: sides.out.colour, "text-anchor": "end", "font-size": 11 }));
    for (const side of ["out", "into"]) {
      const { from, edge, anchor } = sides[side];
      const start = lines.findIndex((line) => line[from]);
      lines.forEach((line, n) => {
        if (line[side] !== null) {
          const weight = weights[side][line[side]];
          picture.append(...(weight > 0 ? [arc(weight, start, n, sides[side])] : []),
            view.label(edge, middle(n) + 4, view.number(weight),
              { "text-anchor": anchor, "font-size": 11, "data-place": line[side] }));
        }
      });
    }
    lines.forEach((line, n) => {
      const chosen = line.asks || line.asked;
      picture.append(view.label(width / 2, middle(n) + 4, cut(line.word), { "text-anchor": "middle", "unicode-bidi": "isolate",
        "font-weight": chosen ? "bold" : "normal", "text-decoration": chosen ? "underline" : null }));
    });
    return picture;
  };
})();
