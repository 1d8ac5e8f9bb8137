// All heads: maps of layers by heads, a table, and small pictures.
(function () {
  const [width, height, top] = [56, 28, 40]; // of a cell, and above the first

  const choose = (head) => view.choose({ head: head.number });

  // The rows and columns of the map; the names of the rows without the folders in which all of them are.
  function layout() {
    const rows = Array.from(new Set(view.heads.map((head) => head.row)));
    const columns = Array.from(new Set(view.heads.map((head) => head.column)));
    let prefix = rows.length > 1 ? rows[0] : "";
    while (prefix && !rows.every((row) => row.startsWith(prefix))) {
      prefix = prefix.slice(0, -1);
    }
    prefix = prefix.replace(/[^/]*$/, "");
    const names = rows.map((row) => row.slice(prefix.length).slice(-24));
    return { rows, columns, names, left: 12 + 7 * Math.max(...names.map((name) => name.length)) };
  }

  // The cell of a head: a button of the picture that shows its colour and its number.
  function cell(head, { statistic, scheme, scale }, x, y, chosen) {
    const value = statistic.of(head.raw, scheme);
    const known = value !== null;
    return view.svg("g", {
      role: "button", tabindex: chosen ? 0 : -1, "aria-pressed": String(chosen), class: "cell", "data-head": head.number,
      "aria-label": `${head.label}: ${statistic.title} under ${scheme} ${statistic.show(value)}`, click: () => choose(head) },
    view.svg("title", null, `${head.label}: ${known ? value : "not known"}`),
    view.svg("rect", { x: x + 1, y: y + 1, width: width - 2, height: height - 2, fill: known ? view.colour(scale(value)) : "none",
      stroke: view.paint(chosen ? "mark" : "line"), "stroke-width": chosen ? 3 : 1 }),
    view.label(x + width / 2, y + 18, statistic.show(value), { "text-anchor": "middle",
      "font-size": statistic.show(value).length > 6 ? 10 : 11, "font-weight": chosen ? "bold" : "normal",
      fill: known ? view.inkOn(scale(value)) : view.paint("ink") }));
  }

  function map(shown, current) {
    const { rows, columns, names, left } = layout();
    const title = `${shown.scheme}: ${shown.statistic.title}`;
    const cells = view.heads.map((head) => cell(head, shown, left + columns.indexOf(head.column) * width,
      top + rows.indexOf(head.row) * height, head.number === current));
    const picture = view.picture(left + Math.max(columns.length * width, 170) + 4, top + rows.length * height + 4, title,
      view.label(left, 12, title, { "font-weight": "bold" }),
      ...columns.map((column, n) => view.label(left + (n + 0.5) * width, 32, column,
        { "text-anchor": "middle", "font-size": 11 })),
      ...names.map((name, n) => view.label(left - 6, top + n * height + 18, name, { "text-anchor": "end" })), ...cells);
    picture.setAttribute("role", "group");
    picture.setAttribute("data-scheme", shown.scheme);
    cells.forEach((one, n) => one.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        choose(view.heads[n]);
      } else {
        view.rove(cells, n, event, columns.length);
      }
    }));
    return picture;
  }

  function columnsOfTable() {
    const columns = [{ name: "head", title: "head", words: true, value: (head) => head.number,
      show: (head) => view.rowButton(head.number, head.label, () => choose(head)) }];
    for (const statistic of view.statisticsHere()) {
      for (const scheme of view.schemesOf(statistic)) {
        const value = (head) => statistic.of(head.raw, scheme);
        columns.push({ name: `${statistic.name}.${scheme}`, title: statistic.ofSoftmax ? statistic.title : `${statistic.title}, ${scheme}`,
          value, show: (head) => view.data(value(head), statistic.show(value(head))) });
      }
    }
    const here = (head) => (head.hasWeights ? "yes" : "no");
    return columns.concat({ name: "weights", title: "weights here", value: here, show: here });
  }

  function startMaps(legend, place) {
    view.watch(["statistic", "head"], (state) => {
      const statistic = view.statisticOf(state);
      const scale = view.statisticScale(statistic);
      const focused = place.contains(document.activeElement) && document.activeElement.closest("svg");
      const scrolled = Array.from(place.querySelectorAll(".wide"), (frame) => frame.scrollLeft);
      view.replace(legend, view.legend(scale, statistic.title, { show: statistic.show }));
      view.replace(place, ...view.schemesOf(statistic).map((scheme) => {
        const picture = map({ statistic, scheme, scale }, state.head);
        const frame = view.element("div",
          { class: "wide", role: "region", tabindex: 0, "aria-label": `Map of heads under ${scheme}` }, picture);
        return view.element("figure", null, frame, view.saveButton(`heads ${scheme} ${statistic.title}`, () => picture));
      }));
      place.querySelectorAll(".wide").forEach((frame, n) => {
        frame.scrollLeft = scrolled[n] || 0;
      });
      if (focused) {
        place.querySelector(`[data-scheme="${focused.getAttribute("data-scheme")}"] [data-head="${state.head}"]`).focus();
      }
    });
  }

  function small(head) {
    const share = view.percent(head.raw.schemes.unas.share_ignored);
    return view.element("li", null, view.element("button", { type: "button", class: "small", "data-head": head.number,
      "aria-label": `${head.label}: softmax ignores ${share}`, click: () => choose(head) },
    view.element("span", null, head.label), view.curves([head], { width: 150, height: 70, schemes: ["unas", "dnas"] })));
  }

  function startSmalls(place) {
    view.watch(["order", "statistic"], (state) => {
      const statistic = view.statisticOf(state);
      const rank = (head) => {
        const value = statistic.of(head.raw, "unas");
        return value === null ? Number.MAX_VALUE : statistic.low ? value : -value;
      };
      const heads = state.order === "model" ? view.heads : view.heads.slice().sort((a, b) => rank(a) - rank(b) || a.number - b.number);
      view.replace(place, ...heads.map(small));
    });
    view.watch(["head", "order", "statistic"], (state) => {
      for (const button of place.querySelectorAll("button")) {
        button.setAttribute("aria-pressed", String(Number(button.getAttribute("data-head")) === state.head));
      }
    });
  }

  view.startOverview = function () {
    const statistics = view.selection("Statistic", view.statisticsHere().map(({ name, title }) => [name, title]),
      (statistic) => view.choose({ statistic }));
    const orders = view.selection("Order of the small pictures", [["model", "as in the model"], ["statistic", "the conspicuous first"]],
      (order) => view.choose({ order }));
    const help = view.element("p", { class: "quiet" });
    const legend = view.element("div");
    const maps = view.element("div", { class: "maps" });
    const drawer = view.drawer("Table of heads");
    const smalls = view.element("ul", { class: "smalls" });
    view.replace(document.getElementById("overview"), view.element("h2", { id: "overview-title" }, "All heads"),
      view.element("div", { class: "controls" }, statistics, orders), help, legend, maps, drawer,
      view.element("h3", null, "Column sums of each head"), view.curvesKey(["unas", "dnas"]), smalls);

    view.watch(["statistic", "order"], (state) => {
      statistics.choose(state.statistic);
      orders.choose(state.order);
      help.textContent = `${view.statisticOf(state).title}: ${view.statisticOf(state).help()}.`;
    });
    startMaps(legend, maps);
    startSmalls(smalls);
    view.watch(["heads", "head"], (state) => drawer.fill(() => view.table({
      caption: `${view.count(view.heads.length, "head")}${view.leftOut ? `; left out: ${view.leftOut}` : ""}`,
      columns: columnsOfTable(), rows: view.heads, sorted: state.heads || "head", sort: (heads) => view.choose({ heads }),
      chosen: (head) => head.number === state.head })));
  };
})();
