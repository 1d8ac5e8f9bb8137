// The weights of the chosen token: whom it attends to and who attends to it, under unas, hnas and dnas side by side.
(function () {
  const needless = "u has an effect here once “Column sums under” is hnas or the table of tokens is open.";

  // The share u as a slider; all sliders of the page move together. It is disabled unless `used(state)`, which changes with `names`.
  view.uSlider = function (names = [], used = () => true) {
    const control = view.element("input", { type: "range", min: 0, max: 1, step: 0.01, "aria-label": "Share u of dnas in hnas",
      input: () => view.choose({ u: Number(control.value) }) });
    const shown = view.element("output", null);
    const field = view.element("span", { class: "field" }, view.element("span", null, "Share u of dnas in hnas: ", shown),
      view.element("span", { class: "slider" }, "unas ", control, " dnas"));
    field.update = function (state) {
      control.value = state.u;
      control.disabled = !used(state);
      shown.textContent = view.number(state.u);
      field.title = control.disabled ? needless : "";
    };
    view.watch(["u"].concat(names), field.update);
    return field;
  };

  const title = (scheme, state) => (scheme === "hnas" ? `hnas, u = ${view.number(state.u)}` : scheme);

  // The weights `out` of the chosen query and `into` the chosen key, under each scheme.
  function weightsOf(head, state) {
    const found = {};
    for (const scheme of view.schemes) {
      found[scheme] = { out: head.weights(scheme, state.u, "row", state.query), into: head.weights(scheme, state.u, "column", state.key) };
    }
    return found;
  }

  function bar(weight) {
    const cell = view.data(weight);
    cell.className = "bar";
    cell.style.backgroundSize = `calc(${weight.toFixed(4)} * var(--bar-width)) 100%`;
    return cell;
  }

  function weightsTable(head, state, weights, side) {
    const [caption, word, choose] = side === "out"
      ? [`Whom “${view.queryWord(head, state.query)}” attends to`, view.keyWord, view.chooseKey]
      : [`Who attends to “${view.keyWord(head, state.key)}”`, view.queryWord, view.chooseQuery];
    return view.table({
      caption, rows: Array.from(weights.unas[side].keys()), sorted: state[side], sort: (sorted) => view.choose({ [side]: sorted }),
      columns: [
        { name: "token", title: "token", words: true, value: (n) => view.plain(word(head, n)),
          show: (n) => view.rowButton(n, word(head, n), choose) },
        { name: "position", title: "position", value: (n) => n, show: String },
        ...view.schemes.map((scheme) => ({ name: scheme, title: scheme, value: (n) => weights[scheme][side][n],
          show: (n) => bar(weights[scheme][side][n]) }))] });
  }

  // Why weights of 0 can add up to a column sum above 0, or "" if none of them is rounded.
  function rounding(head, state, weights) {
    const n = head.queriesOfKey()[state.key];
    const rounded = ["unas", "dnas"].filter((scheme) => weights[scheme].into.filter((weight) => weight > 0).length < n);
    const sums = rounded.map((scheme) => `${scheme}: c = ${view.number(head.columnSums(scheme)[state.key])}`);
    return rounded.length ? "Weights below 3e-8 are shown as 0. " +
      `The column sum was computed before this rounding (${sums.join("; ")}).` : "";
  }

  // The weights of the chosen token: pictures of arcs and tables.
  function startToken(pictures, tables, note) {
    view.watch(["head", "key", "query", "u", "out", "into"], (state, changed) => {
      const head = view.head();
      if (!head.hasWeights) {
        return;
      }
      const weights = weightsOf(head, state);
      note.textContent = rounding(head, state, weights);
      note.hidden = note.textContent === "";
      for (const side of ["out", "into"]) {
        tables[side].fill(() => weightsTable(head, state, weights, side));
      }
      if (changed.every((name) => name === "out" || name === "into")) {
        return; // only the order of a table
      }
      const lines = view.arcLines(head, state, weights);
      view.replace(pictures, ...view.schemes.map((scheme) => {
        const picture = view.arcs(title(scheme, state), weights[scheme], lines);
        picture.setAttribute("data-scheme", scheme);
        return view.element("figure", null, picture, view.saveButton(`weights ${scheme}`, () => picture));
      }));
    });
  }

  // All weights of the head: maps, and a line that tells the weights under the pointer.
  function startMaps(legend, readout, place) {
    let maps = [];
    function tell(query, key) {
      const head = view.head();
      const values = view.schemes.map((scheme) => `${scheme} ${view.number(head.weights(scheme, view.state.u, "row", query)[key])}`);
      view.replace(readout, "From ", view.element("bdi", null, view.queryWord(head, query)), ` (${query}) to `,
        view.element("bdi", null, view.keyWord(head, key)), ` (${key}): ${values.join(", ")}`);
    }
    view.watch(["head", "u"], (state, changed) => {
      const head = view.head();
      if (!head.hasWeights) {
        return;
      }
      view.replace(legend, view.legend(view.weightScale, "weight, logarithmic", { low: "≤ " }));
      // The slider changes the map of hnas only.
      const same = maps.length && changed.every((name) => name === "u");
      maps = view.schemes.map((scheme, n) => (same && scheme !== "hnas" ? maps[n]
        : view.map(head, state, scheme, title(scheme, state), tell)));
      view.replace(place, ...maps.map((map, n) => view.element("figure", null,
        view.element("figcaption", null, title(view.schemes[n], state)), map,
        view.saveButton(`map ${view.schemes[n]}`, () => view.savedMap(map, title(view.schemes[n], state))))));
    });
    view.watch(["head", "key", "query", "u"], (state) => {
      if (view.head().hasWeights) {
        maps.forEach((map) => map.cross(state.query, state.key));
        tell(state.query, state.key);
      }
    });
  }

  view.startWeights = function () {
    const heading = view.element("h2", { id: "weights-title" });
    const missing = view.element("p", { class: "quiet" });
    const pictures = view.element("div", { class: "three" });
    const note = view.element("p", { class: "quiet" });
    const tables = { out: view.drawer("Table: whom it attends to", true), into: view.drawer("Table: who attends to it", true, note) };
    const legend = view.element("div");
    const readout = view.element("p", { class: "readout" });
    const maps = view.element("div", { class: "three" });
    const content = view.element("div", null, view.element("div", { class: "controls" }, view.uSlider()), pictures,
      view.element("div", { class: "two" }, tables.out, tables.into), view.element("h3", null, "All weights of the head"),
      view.element("p", { class: "quiet" }, "Each row is a query, each column a key. A cross marks the chosen token; a click ",
        "chooses a query. Weights below 3e-8 are stored as 0."), legend, readout, maps);
    view.replace(document.getElementById("weights"), heading, missing, content);

    view.watch(["head", "key", "query"], (state) => {
      const head = view.head();
      const [key, query] = [view.keyWord(head, state.key), view.queryWord(head, state.query)];
      heading.textContent = head.oneSequence ? `Weights of “${key}” at position ${state.key}`
        : `Weights of the query “${query}” and of the key “${key}”`;
      content.hidden = !head.hasWeights;
      missing.hidden = head.hasWeights;
      missing.textContent = `The page does not have the weights of this head. Left out: ${view.leftOut || "they are not in the data"}.`;
    });
    startToken(pictures, tables, note);
    startMaps(legend, readout, maps);
  };
})();
