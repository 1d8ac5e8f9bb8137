// Tokens and numbers as text: every character visible, and nothing that changes its surroundings.
(function () {
  const visible = { "\n": "⏎", "\u010a": "⏎", "\r": "␍", "\t": "⇥", "\u0109": "⇥", " ": "␣" };
  // Controls, marks of direction, spaces of other widths and characters without width: they show as their code.
  const hidden = new RegExp("[\\u0000-\\u001f\\u007f-\\u00a0\\u00ad\\u061c\\u115f\\u1160\\u1680\\u180e\\u2000-\\u200b\\u200e\\u200f" +
    "\\u2028-\\u202f\\u205f-\\u206f\\u3000\\u3164\\ufeff\\ufff9-\\ufffb\\u{e0000}-\\u{e007f}" +
    "\\ud800-\\udfff]", "gu"); // the last range: half of a pair
  const joiners = /^[\u200c\u200d]+$/; // within a word they shape its letters; alone they are invisible
  const rightToLeft = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]|[\u{10800}-\u{10fff}]|[\u{1e800}-\u{1efff}]/u;
  const leftToRight = /\p{Letter}/u;

  function code(character) {
    return `[${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`;
  }

  view.word = function (tokens, index) {
    if (!tokens) {
      return String(index);
    }
    const token = tokens[index];
    if (token === "") {
      return "[empty]";
    }
    const shown = token.replace(/[\n\r\t \u0109\u010a]/g, (character) => visible[character]).replace(hidden, code);
    if (joiners.test(shown)) {
      return Array.from(shown, code).join("");
    }
    return /^\p{Mark}/u.test(shown) ? `◌${shown}` : shown; // a circle carries marks that have no letter
  };

  // "rtl", "ltr", or "" for a token without letters.
  view.direction = function (word) {
    return rightToLeft.test(word) ? "rtl" : leftToRight.test(word) ? "ltr" : "";
  };

  // The token without the marks of blanks, for the search.
  view.plain = function (word) {
    return word.replace(/[▁Ġ␣]/g, "").toLowerCase();
  };

  view.keyWord = (head, key) => view.word(head.keyTokens, key);
  view.queryWord = (head, query) => view.word(head.queryTokens, query);

  // Three digits, as in 0.123, or two, as in 1.2e-10.
  view.number = function (value) {
    if (value === null || value === undefined) {
      return "–";
    }
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-2 || size >= 1e5)) {
      return value.toExponential(1).replace(".0e", "e");
    }
    return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(3)));
  };

  // One digit behind the point; what this would round to 0 or to 100% is told from them.
  view.percent = function (value) {
    if (value === null || value === undefined) {
      return "–";
    }
    if (value === 0 || value === 1) {
      return value ? "100%" : "0%";
    }
    return value > 0 && value < 5e-4 ? "<0.1%" : value < 1 && value >= 0.9995 ? ">99.9%" : `${(100 * value).toFixed(1)}%`;
  };

  // A power of ten, as axes have it.
  view.power = (value) => value.toExponential().replace("+", "");

  view.count = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;
})();
