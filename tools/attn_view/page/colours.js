// Colours, and the theme: light or dark by preference, light on paper.
(function () {
  // Dark ink for much attention on light paper, and bright ink on a dark screen. Lightness alone tells values apart, so that
  // eyes that confuse hues, and prints in grey, keep the order.
  const light = ["f7fbff", "deebf7", "c6dbef", "9ecae1", "6baed6", "4292c6", "2171b5", "08519c", "08306b"];
  const dark = ["141d29", "16293f", "173755", "1c4c77", "2b639b", "4a80b5", "78a5cf", "aac9e6", "e3eff9"];
  const preference = matchMedia("(prefers-color-scheme: dark)");

  const numbers = (stops) => stops.map((stop) => [0, 2, 4].map((start) => parseInt(stop.slice(start, start + 2), 16)));
  const stopsOf = { light: numbers(light), dark: numbers(dark) };

  view.dark = () => preference.matches && !document.documentElement.hasAttribute("data-paper");

  // The colour [r, g, b] at t in [0, 1].
  view.rgb = function (t) {
    const stops = view.dark() ? stopsOf.dark : stopsOf.light;
    const place = Math.min(1, Math.max(0, t)) * (stops.length - 1);
    const first = Math.min(stops.length - 2, Math.floor(place));
    return stops[first].map((value, n) => Math.round(value + (place - first) * (stops[first + 1][n] - value)));
  };

  view.colour = (t) => `rgb(${view.rgb(t).join(",")})`;

  // Black or white, whichever has more contrast on the colour at t; the contrast is at least 4.5.
  view.inkOn = function (t) {
    const [r, g, b] = view.rgb(t).map((value) => {
      const x = value / 255;
      return x <= 0.04045 ? x / 12.92 : Math.pow((x + 0.055) / 1.055, 2.4);
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
  };

  // A colour of the style sheet, by the name of its variable.
  view.paint = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  // The place of a value on a scale from low to high, by logarithms or not.
  view.scale = function (low, high, logarithmic) {
    const turn = logarithmic ? (value) => Math.log10(Math.max(value, low)) : (value) => value;
    const span = turn(high) - turn(low) || 1;
    const place = (value) => Math.min(1, Math.max(0, (turn(value) - turn(low)) / span));
    return Object.assign(place, { low, high, logarithmic });
  };

  // The scale of the column sums of some arrays: at least two decades, and none below epsilon, where all is ignored.
  view.sumScale = function (arrays) {
    let low = Infinity;
    let high = 0;
    for (const array of arrays) {
      for (const value of array) {
        low = value > 0 ? Math.min(low, value) : low;
        high = Math.max(high, value);
      }
    }
    high = high || 1;
    low = Math.min(Math.max(low, Math.min(view.epsilon, high / 100)), high);
    const spare = Math.max(0, 2 - Math.log10(high / low)) / 2;
    return view.scale(low * Math.pow(10, -spare), high * Math.pow(10, spare), true);
  };

  view.watchTheme = function () {
    preference.addEventListener("change", view.redraw);
    addEventListener("beforeprint", () => {
      document.documentElement.setAttribute("data-paper", "");
      view.redraw();
    });
    addEventListener("afterprint", () => {
      document.documentElement.removeAttribute("data-paper");
      view.redraw();
    });
  };
})();
