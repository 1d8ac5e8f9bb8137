// Tables that sort by their columns and show, of thousands of rows, those in view.
(function () {
  const rowHeight = 30; // pixels, as in the style sheet
  const spare = 10; // rows beyond the edges of the view

  // `table.columns` are {name, title, value(row), show(row), words}; a column with `words` holds text and sorts upwards first.
  // `sorted` is "name", or "-name" for the largest first; `sort(sorted)` is called when the reader chooses a column.
  // `chosen(row)` says whether a row is the current one.
  view.table = function ({ caption, columns, rows, sorted, sort, chosen = () => false }) {
    const descending = sorted.startsWith("-");
    const by = columns.find((column) => column.name === sorted.replace("-", ""));
    const order = rows.slice();
    if (by) {
      const values = new Map(order.map((row) => [row, by.value(row)]));
      const sign = descending ? -1 : 1;
      order.sort((a, b) => compare(values.get(a), values.get(b), sign));
    }

    const header = view.element("tr", null, ...columns.map((column) => {
      const current = by === column;
      const next = current ? (descending ? column.name : `-${column.name}`) : column.words ? column.name : `-${column.name}`;
      const arrow = current ? (descending ? " ▼" : " ▲") : "";
      const sorting = current ? (descending ? "descending" : "ascending") : "none";
      return view.element("th", { scope: "col", "aria-sort": sorting, class: column.words ? "name" : null },
        view.element("button", { type: "button", "data-column": column.name, click: () => sort(next) }, column.title,
          view.element("span", { "aria-hidden": "true" }, arrow)));
    }));
    const body = view.element("tbody");
    const table = view.element("table", { "aria-rowcount": rows.length + 1 }, view.element("caption", null, caption),
      view.element("thead", null, header), body);
    const frame = view.element("div", { class: "rows", tabindex: 0, role: "region", "aria-label": caption }, table);

    function line(row, index) {
      const cells = columns.map((column) => {
        const shown = column.show(row);
        return view.element(column.words ? "th" : "td", column.words ? { scope: "row" } : null, shown);
      });
      return view.element("tr", { "aria-rowindex": index + 2, "aria-current": chosen(row) ? "true" : null }, ...cells);
    }

    function gap(count) {
      const height = view.element("td", { colspan: columns.length });
      height.style.height = `${count * rowHeight}px`;
      return view.element("tr", { "aria-hidden": "true", class: "gap" }, height);
    }

    let first = -1;
    function show() {
      const start = Math.max(0, Math.floor(frame.scrollTop / rowHeight) - spare);
      const end = Math.min(order.length, start + 2 * spare + Math.ceil((frame.clientHeight || 330) / rowHeight));
      if (start === first) {
        return;
      }
      // A focused row must stay; its button moves with it.
      const focused = body.contains(document.activeElement) && document.activeElement.getAttribute("data-row");
      first = start;
      view.replace(body, ...(start ? [gap(start)] : []), ...order.slice(start, end).map((row, n) => line(row, start + n)),
        ...(end < order.length ? [gap(order.length - end)] : []));
      if (focused) {
        const again = body.querySelector(`[data-row="${focused}"]`);
        if (again) {
          again.focus({ preventScroll: true });
        }
      }
    }
    frame.addEventListener("scroll", () => requestAnimationFrame(show));
    show();
    return frame;
  };

  // Missing values come last in both directions.
  function compare(a, b, sign) {
    if (a === null || b === null) {
      return (a === null) - (b === null);
    }
    return sign * (a < b ? -1 : a > b ? 1 : 0);
  }

  // A button in a row that chooses what the row is about.
  view.rowButton = (row, word, choose) => view.element("button",
    { type: "button", class: "link", "data-row": row, click: () => choose(row) }, view.element("bdi", null, word));

  // A table in a drawer, made when it is first opened; the drawer stays open as the table is made anew.
  // `notes` stand above the table.
  view.drawer = function (title, open, ...notes) {
    const place = view.element("div");
    const drawer = view.element("details", { open: Boolean(open) }, view.element("summary", null, title), ...notes, place);
    let make = null;
    drawer.addEventListener("toggle", () => drawer.open && make && show());
    function show() {
      const focused = place.contains(document.activeElement) && document.activeElement.getAttribute("data-column");
      const scrolled = place.firstChild ? place.firstChild.scrollTop : 0;
      view.replace(place, make());
      place.firstChild.scrollTop = scrolled;
      if (focused) {
        place.querySelector(`[data-column="${focused}"]`).focus();
      }
    }
    drawer.fill = function (maker) {
      make = maker;
      if (drawer.open) {
        show();
      }
    };
    return drawer;
  };
})();
