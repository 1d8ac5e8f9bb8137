// Elements of HTML and SVG, made without markup from text, and pictures saved as SVG.
(function () {
  const svgName = "http://www.w3.org/2000/svg";

  function fill(node, attributes, children) {
    for (const name of Object.keys(attributes)) {
      const value = attributes[name];
      if (typeof value === "function") {
        node.addEventListener(name, value);
      } else if (value !== false && value !== null && value !== undefined) {
        node.setAttribute(name, value === true ? "" : value);
      }
    }
    node.append(...children);
    return node;
  }

  // An element; an attribute that is a function listens to the event of that name.
  view.element = (tag, attributes, ...children) => fill(document.createElement(tag), attributes || {}, children);
  view.svg = (tag, attributes, ...children) => fill(document.createElementNS(svgName, tag), attributes || {}, children);

  // A number as `text`, with all of its digits behind it.
  view.data = function (value, text = view.number(value)) {
    const digits = value === null || value === undefined ? "" : String(value);
    return view.element("data", { value: digits, title: digits }, text);
  };

  // A picture of the given size with a title and, below it, a button that saves it.
  view.picture = function (width, height, label, ...children) {
    return view.svg("svg", {
      xmlns: svgName, viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label,
      "font-family": "system-ui, 'DejaVu Sans', sans-serif", "font-size": 12, fill: view.paint("ink"),
    }, ...children);
  };

  view.label = (x, y, text, attributes) => view.svg("text", Object.assign({ x, y }, attributes), text);

  function save(picture, name) {
    const copy = picture.cloneNode(true);
    copy.insertBefore(view.svg("rect", { width: "100%", height: "100%", fill: view.paint("paper") }), copy.firstChild);
    const text = new XMLSerializer().serializeToString(copy);
    const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    const link = view.element("a", { href: address, download: `${name.replace(/[^\w-]+/g, "-")}.svg` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  // `make` returns the picture at the time of the click.
  view.saveButton = function (what, make) {
    return view.element("button", { type: "button", class: "save", click: () => save(make(), what) }, "Save as SVG",
      view.element("span", { class: "unseen" }, `: ${what}`));
  };

  // A strip of colours with the values at its ends and between; `low` stands before the first.
  view.legend = function (scale, title, { low = "", show = view.number } = {}) {
    const width = 282;
    const bar = view.svg("g");
    for (let n = 0; n < 60; ++n) {
      bar.append(view.svg("rect", { x: 1 + (n * 280) / 60, y: 16, width: 280 / 60 + 0.5, height: 10, fill: view.colour(n / 59) }));
    }
    const at = (t) => (scale.logarithmic ? scale.low * Math.pow(scale.high / scale.low, t) : scale.low + t * (scale.high - scale.low));
    const ends = [0, 0.5, 1].map((t, n) => view.label(1 + 280 * t, 40, (n === 0 ? low : "") + show(at(t)),
      { "text-anchor": ["start", "middle", "end"][n], "font-size": 11 }));
    return view.picture(width, 46, `Scale of colours: ${title}, from ${show(scale.low)} to ${show(scale.high)}`,
      view.label(1, 11, title, { "font-size": 11 }), bar,
      view.svg("rect", { x: 1, y: 16, width: 280, height: 10, fill: "none", stroke: view.paint("line") }), ...ends);
  };

  // A labelled control.
  view.field = function (label, control) {
    return view.element("label", { class: "field" }, view.element("span", null, label), control);
  };

  // A list of [name, text] to choose from; the reader's choice is told, and choose(name) shows one.
  view.selection = function (label, options, told) {
    const control = view.element("select", { change: () => told(control.value) },
      ...options.map(([value, text]) => view.element("option", { value }, text)));
    const field = view.field(label, control);
    field.choose = (name) => {
      control.value = name;
    };
    return field;
  };

  view.replace = function (node, ...children) {
    node.textContent = "";
    node.append(...children);
  };

  // Arrow keys move the focus within a group of elements, of which one is in the order of Tab.
  view.rove = function (elements, current, event, columns) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
    const next = event.key === "Home" ? 0 : event.key === "End" ? elements.length - 1 : current + (steps[event.key] || NaN);
    if (!(next in elements)) {
      return;
    }
    event.preventDefault();
    elements[current].setAttribute("tabindex", -1);
    elements[next].setAttribute("tabindex", 0);
    elements[next].focus();
  };
})();
