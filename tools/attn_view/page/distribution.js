// The distribution of column sums by scheme, of one head or of all.
(function () {
  // Powers of ten, and epsilon.
  function thresholds() {
    const [low, high] = [view.curvesScale().low, view.curvesScale().high].map((value) => Math.round(Math.log10(value)));
    const decades = Array.from({ length: high - low + 1 }, (_, n) => Number(`1e${low + n}`));
    return Array.from(new Set(decades.concat(view.epsilon))).sort((a, b) => a - b);
  }

  function table(heads, name, u) {
    const columns = view.schemes.map((scheme) => {
      const sums = view.sortedSums(heads, scheme, u);
      const share = (c) => sums.filter((value) => value < c).length / (sums.length || 1);
      return { name: scheme, title: scheme, value: share, show: (c) => view.data(share(c), view.percent(share(c))) };
    });
    return view.table({ caption: `Share of the tokens of ${name} with a column sum below c`, rows: thresholds(), sorted: "", sort: () => {},
      columns: [{ name: "c", title: "c", value: (c) => c, show: (c) => view.data(c, view.power(c)) }, ...columns] });
  }

  view.startDistribution = function () {
    const place = view.element("div");
    const drawer = view.drawer("Table of shares");
    const pool = view.selection("Tokens of", [["one", "the chosen head"], ["all", "all heads"]], (name) => view.choose({ pool: name }));
    view.replace(document.getElementById("distribution"), view.element("h2", { id: "distribution-title" }, "Distribution of column sums"),
      view.element("div", { class: "controls" }, pool, view.uSlider()), view.curvesKey(view.schemes), place, drawer);

    function draw(state) {
      const all = state.pool === "all";
      const heads = all ? view.heads : [view.head()];
      const name = all ? "all heads" : view.head().label;
      const width = Math.max(280, Math.min(760, place.clientWidth));
      const picture = view.curves(heads, { width, height: 300, schemes: view.schemes, u: state.u, large: true });
      pool.choose(state.pool);
      view.replace(place, picture, view.saveButton(`column sums of ${name}`, () => picture));
      drawer.fill(() => table(heads, name, state.u));
    }
    view.watch(["head", "u", "pool"], draw);
    addEventListener("resize", () => draw(view.state));
  };
})();
