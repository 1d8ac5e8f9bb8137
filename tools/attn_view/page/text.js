// One head: its text, in which each token is shaded by its column sum, and a table of the tokens.
(function () {
  const verdicts = { ignored: "ignored", few: "too few queries to tell", masked: "masked: no query may attend to it", "": "" };

  const schemeName = (state) => (state.scheme === "hnas" ? `hnas with u = ${view.number(state.u)}` : state.scheme);

  // In one sequence the chosen token is both a key and a query.
  view.chooseKey = (key) => view.choose(view.head().oneSequence ? { key, query: key } : { key });
  view.chooseQuery = (query) => view.choose(view.head().oneSequence ? { key: query, query } : { query });

  view.show = function (head, key) {
    view.choose(view.heads[head].oneSequence ? { head, key, query: key } : { head, key });
    view.goTo("head");
  };

  // What the page has on screen for this head.
  let keys = null; // the list of tokens of the keys
  let queries = null; // the same list, or that of the queries
  let scale = null; // of the column sums
  let matches = []; // of the search

  function readout(head, state, key) {
    const sums = head.columnSums(state.scheme, state.u);
    const n = head.queriesOfKey()[key];
    const verdict = verdicts[head.verdict(key, sums)];
    return [view.element("b", null, view.element("bdi", null, view.keyWord(head, key))), 
      ` at position ${key}, under ${schemeName(state)}: c = `, view.data(sums[key]),
      `, n = ${n}, c/n = `, view.data(n ? sums[key] / n : null),
      ...(verdict ? [", ", view.element("b", null, verdict)] : [])];
  }

  function columnsOfTable(head, state) {
    const n = head.queriesOfKey();
    const word = (key) => view.keyWord(head, key);
    const columns = [
      { name: "position", title: "position", value: (key) => key, show: String },
      { name: "token", title: "token", words: true, value: (key) => view.plain(word(key)),
        show: (key) => view.rowButton(key, word(key), view.chooseKey) },
      { name: "n", title: "n", value: (key) => n[key], show: (key) => String(n[key]) }];
    for (const scheme of view.schemes) {
      const sums = head.columnSums(scheme, state.u);
      const mean = (key) => (n[key] ? sums[key] / n[key] : null);
      columns.push({ name: scheme, title: `c, ${scheme}`, value: (key) => sums[key], show: (key) => view.data(sums[key]) });
      columns.push({ name: `${scheme}.n`, title: `c/n, ${scheme}`, value: mean, show: (key) => view.data(mean(key)) });
    }
    const shown = head.columnSums(state.scheme, state.u);
    const verdict = (key) => verdicts[head.verdict(key, shown)] || "–";
    columns.push({ name: "verdict", title: `verdict under ${schemeName(state)}`, words: true, value: verdict, show: verdict });
    return columns;
  }

  // Shades the tokens; returns how many are ignored and how many do not count.
  function shade(head, state) {
    const sums = head.columnSums(state.scheme, state.u);
    const count = { ignored: 0, few: 0, masked: 0, "": 0 };
    keys.options.forEach((option, n) => {
      const verdict = head.verdict(n, sums);
      ++count[verdict];
      const t = scale(sums[n]);
      option.style.backgroundColor = verdict === "masked" ? "transparent" : view.colour(t);
      option.style.color = verdict === "masked" ? "" : view.inkOn(t);
      option.className = `token ${verdict}`;
      option[verdict ? "setAttribute" : "removeAttribute"]("aria-label", `${option.textContent}, ${verdicts[verdict]}`);
    });
    return count;
  }

  function explanation(head, state, { ignored, few, masked }) {
    const sample = (verdict, meaning) => [view.element("span", { class: `token ${verdict}` }, "word"), ` ${meaning} `];
    return [
      view.element("b", null, `${ignored ? view.count(ignored, "token") : "No token"} ignored under ${schemeName(state)}. `),
      ...(ignored ? sample("ignored", `is ignored: c < ${view.number(view.epsilon)}.`) : []),
      ...(few ? sample("few", `does not count: fewer than ${head.raw.min_queries} queries may attend to it.`) : []),
      ...(masked ? sample("masked", "is masked: no query may attend to it.") : []),
      "Point at a token to see its numbers; choose one to see its weights below."];
  }

  function select({ options }, token) {
    options.forEach((option, n) => {
      option.setAttribute("aria-selected", String(n === token));
      option.setAttribute("tabindex", n === token ? 0 : -1);
    });
  }

  function find(wanted) {
    const plain = view.plain(wanted.trim());
    matches = [];
    keys.options.forEach((option, n) => {
      const matched = plain !== "" && view.plain(option.textContent).includes(plain);
      option.toggleAttribute("data-found", matched);
      if (matched) {
        matches.push(n);
      }
    });
    return plain === "" ? "" : `${matches.length} found`;
  }

  function nextMatch() {
    const next = matches.find((token) => token > view.state.key);
    if (matches.length) {
      view.chooseKey(next === undefined ? matches[0] : next);
      keys.options[view.state.key].scrollIntoView({ block: "nearest" });
    }
  }

  function startSearch() {
    const found = view.element("span", { class: "quiet", "aria-live": "polite" });
    const search = view.element("input", { type: "search", size: 12,
      input: () => view.choose({ find: search.value }), keydown: (event) => event.key === "Enter" && nextMatch() });
    view.watch(["head", "find"], (state) => {
      if (search.value !== state.find) {
        search.value = state.find;
      }
      found.textContent = find(state.find);
    });
    return view.element("span", { class: "search" }, view.field("Search for a token", search),
      view.element("button", { type: "button", click: nextMatch }, "Next match"), found);
  }

  // The chosen token, and what is special about it.
  function chosen(head, { key }) {
    const least = head.verdict(key, head.columnSums("unas")) !== "few" && head.queriesOfKey()[key] > 0 && key === view.leastKey(head);
    return ["Chosen: ", view.element("b", null, view.element("bdi", null, view.keyWord(head, key))), ` at position ${key}`,
      least ? `, which has the least ${head.causal ? "c/n" : "c"} of this head under unas.` : "."];
  }

  function startControls(drawer) {
    const heads = view.selection("Head", view.heads.map((head) => [head.number, head.label]),
      (number) => view.choose({ head: Number(number) }));
    const schemes = view.selection("Column sums under",
      [["unas", "unas (softmax)"], ["hnas", "hnas (mixture)"], ["dnas", "dnas (doubly-normalised)"]], (scheme) => view.choose({ scheme }));
    view.watch(["head", "scheme"], (state) => {
      heads.choose(state.head);
      schemes.choose(state.scheme);
    });
    const slider = view.uSlider(["scheme"], (state) => state.scheme === "hnas" || drawer.open);
    drawer.addEventListener("toggle", () => slider.update(view.state));
    const step = (text, by) => view.element("button",
      { type: "button", click: () => view.choose({ head: (view.state.head + by + view.heads.length) % view.heads.length }) }, text);
    return view.element("div", { class: "controls" }, heads,
      view.element("span", null, step("Previous head", -1), " ", step("Next head", 1)), schemes,
      slider, startSearch());
  }

  view.startText = function () {
    const title = view.element("h2", { id: "head-title" });
    const numbers = view.element("p", { class: "readout", "aria-live": "polite" });
    const legend = view.element("div");
    const choice = view.element("p", { class: "chosen" });
    const meaning = view.element("p", { class: "quiet" });
    const texts = view.element("div");
    const drawer = view.drawer("Table of tokens");
    const tell = (key) => view.replace(numbers, ...readout(view.head(), view.state, key));

    view.watch(["head"], () => {
      const head = view.head();
      title.textContent = view.heads.length > 1 ? `One head: ${head.label}` : "The text";
      const words = (word, count) => Array.from({ length: count }, (_, n) => word(head, n));
      keys = view.tokens(head.oneSequence ? "Text" : "Keys", words(view.keyWord, head.keys), tell, view.chooseKey);
      queries = head.oneSequence ? keys : view.tokens("Queries", words(view.queryWord, head.queries), () => {}, view.chooseQuery);
      view.replace(texts, ...(head.oneSequence ? [keys.box]
        : [view.element("h3", null, "Keys"), keys.box, view.element("h3", null, "Queries"), queries.box]));
      scale = view.sumScale([head.columnSums("unas"), head.columnSums("dnas")]);
      view.replace(legend, view.legend(scale, "column sum c, logarithmic", { low: scale.low <= view.epsilon * 1.001 ? "≤ " : "" }));
    });
    view.watch(["head", "scheme", "u"], (state) => view.replace(meaning, ...explanation(view.head(), state, shade(view.head(), state))));
    view.watch(["head", "key", "query"], (state) => {
      select(keys, state.key);
      if (queries !== keys) {
        select(queries, state.query);
      }
    });
    view.watch(["head", "key", "scheme", "u"], (state) => tell(state.key));
    view.watch(["head", "key"], (state) => view.replace(choice, ...chosen(view.head(), state)));
    view.watch(["head", "tokens", "key", "u", "scheme"], (state) => drawer.fill(() => {
      const head = view.head();
      return view.table({ caption: `${view.count(head.keys, "token")} of ${head.label}`, columns: columnsOfTable(head, state),
        rows: Array.from({ length: head.keys }, (_, n) => n), sorted: state.tokens || "position",
        sort: (tokens) => view.choose({ tokens }), chosen: (token) => token === state.key });
    }));
    // The watchers of the controls come last: the search marks tokens that exist.
    view.replace(document.getElementById("head"), title, startControls(drawer), meaning, legend, choice, numbers, texts,
      drawer);
  };
})();
