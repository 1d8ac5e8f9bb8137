// Column sums as curves: which share of the tokens gets less than a given column sum.
(function () {
  const looks = { unas: { dashes: null, width: 2.5 }, hnas: { dashes: "2 3", width: 2 }, dnas: { dashes: "7 4", width: 2 } };
  const mostCrosses = 500; // of ignored tokens in one curve

  const looksOf = (scheme, width) => ({ stroke: view.paint(scheme), "stroke-width": width || looks[scheme].width,
    "stroke-dasharray": looks[scheme].dashes });

  // The column sums of the counted tokens of some heads, the least first.
  view.sortedSums = function (heads, scheme, u) {
    const sums = [].concat(...heads.map((head) => {
      const all = head.columnSums(scheme, u);
      return head.countedKeys().map((key) => all[key]);
    }));
    return Float64Array.from(sums).sort();
  };

  // One scale for all heads, in whole decades. It begins three decades below epsilon at the most.
  let range = null;
  view.curvesScale = function () {
    if (!range) {
      const ends = [].concat(...view.heads.map((head) => ["unas", "dnas"].map((scheme) => view.sortedSums([head], scheme))));
      const high = Math.max(...ends.map((sums) => sums[sums.length - 1] || 0)) || 1;
      const least = Math.min(...ends.map((sums) => sums.find((value) => value > 0) || high));
      const low = Math.min(Math.max(least, view.epsilon / 1000), high / 10);
      range = view.scale(Math.pow(10, Math.floor(Math.log10(low))), Math.pow(10, Math.ceil(Math.log10(high))), true);
    }
    return range;
  };

  function curve(sums, x, y) {
    let steps = `M ${x(0)} ${y(0)}`;
    let last = -1;
    sums.forEach((value, n) => {
      // Points of one pixel are one step.
      if (n === sums.length - 1 || x(sums[n + 1]) - last >= 0.5) {
        last = x(value);
        steps += ` H ${last.toFixed(1)} V ${y((n + 1) / sums.length).toFixed(1)}`;
      }
    });
    return `${steps} H ${x(Infinity)}`;
  }

  const round = (value) => view.power(Number(value.toPrecision(3))); // a power of ten that was computed

  const cross = (x, y, size) => `M ${x - size} ${y - size} l ${2 * size} ${2 * size} m 0 ${-2 * size} l ${-2 * size} ${2 * size}`;

  function axes(picture, line, x, y, { width, height, left, right }) {
    const { low, high } = view.curvesScale();
    const decades = Math.round(Math.log10(high / low));
    for (let n = 0; n <= decades; n += Math.ceil((decades * 52) / (width - left - right))) {
      const value = low * Math.pow(10, n);
      line(x(value), y(0), x(value), y(1), { "stroke-opacity": 0.4 });
      picture.append(view.label(x(value), height - 26, round(value), { "text-anchor": "middle", "font-size": 11 }));
    }
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      line(left, y(share), width - right, y(share), { "stroke-opacity": 0.4 });
      picture.append(view.label(left - 6, y(share) + 4, `${100 * share}%`, { "text-anchor": "end", "font-size": 11 }));
    }
    picture.append(view.label((left + width - right) / 2, height - 6, "column sum c, logarithmic",
      { "text-anchor": "middle", "font-size": 11 }));
  }

  // The curves of some heads under some schemes: small without numbers, or `large` with axes.
  view.curves = function (heads, { width, height, schemes, u, large }) {
    const scale = view.curvesScale();
    const [left, right, top, bottom] = large ? [48, 12, 12, 44] : [3, 3, 3, 3];
    const x = (value) => left + (width - left - right) * scale(value);
    const y = (share) => height - bottom - (height - top - bottom) * share;
    const picture = view.picture(width, height, `Share of tokens by column sum under ${schemes.join(", ")}`);
    const line = (x1, y1, x2, y2, more) => picture.append(
      view.svg("line", Object.assign({ x1, y1, x2, y2, stroke: view.paint("line") }, more)));
    line(left, y(0), width - right, y(0));
    line(left, y(0), left, y(1));
    if (large) {
      axes(picture, line, x, y, { width, height, left, right });
    } else {
      picture.setAttribute("aria-hidden", "true"); // the button around it says what it shows
    }
    if (view.epsilon > scale.low && view.epsilon < scale.high) {
      line(x(view.epsilon), y(0), x(view.epsilon), y(1), { stroke: view.paint("ink"), "stroke-dasharray": "3 2" });
      picture.append(...(large ? [view.label(x(view.epsilon) - 4, top + 10, "ignored", { "text-anchor": "end", "font-size": 11 })] : []));
    }
    // hnas comes first: where it equals another scheme, that one is seen.
    for (const scheme of schemes.slice().sort((a, b) => (b === "hnas") - (a === "hnas"))) {
      const sums = view.sortedSums(heads, scheme, u);
      picture.append(view.svg("path", Object.assign({ d: curve(sums, x, y), fill: "none" }, looksOf(scheme, large ? null : 1.5))));
      const ignored = sums.slice(0, mostCrosses).filter((value) => value < view.epsilon);
      ignored.forEach((value, n) => picture.append(view.svg("path", { d: cross(x(value), y((n + 1) / sums.length), large ? 4 : 2.5),
        stroke: view.paint(scheme), "stroke-width": 1.5 })));
    }
    return picture;
  };

  // What the lines, crosses and axes mean.
  view.curvesKey = function (schemes) {
    const key = view.element("p", { class: "key" });
    const ends = () => [view.curvesScale().low, view.curvesScale().high].map(round).join(" to ");
    const words = (...children) => view.element("span", null, ...children);
    const sample = (scheme) => view.svg("svg", { width: 34, height: 10, "aria-hidden": "true" },
      view.svg("line", Object.assign({ x1: 0, x2: 34, y1: 5, y2: 5 }, looksOf(scheme))));
    view.watch(["u"], (state) => view.replace(key,
      ...schemes.map((scheme) => words(sample(scheme), scheme === "hnas" ? ` hnas, u = ${view.number(state.u)}` : ` ${scheme}`)),
      words("× an ignored token"), words(`across: the column sum c, from ${ends()}, logarithmic`),
      words("up: the share of tokens with a smaller column sum"),
      ...(view.epsilon > view.curvesScale().low ? [words(`upright broken line: c = ${view.number(view.epsilon)}`)] : [])));
    return key;
  };
})();
