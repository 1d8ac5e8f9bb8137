// What the reader has chosen. It is kept in the address, so that a link shows the same view.
(function () {
  const start = {
    head: 0, // number of the head in the page; at first the most conspicuous
    statistic: "share_ignored", // of the overview
    order: "model", // of the small pictures: "model" or "statistic"
    scheme: "unas", // by which the text is shaded
    u: 0.1, // the share of dnas in hnas
    key: null, // the chosen token as a key
    query: null, // and as a query; both are the same token if queries and keys are one sequence
    find: "", // the text that is searched for
    heads: "", // by which column the table of heads is sorted: "column" or "-column" for the largest first
    tokens: "", // the same for the table of tokens
    out: "-unas", // the same for the table of keys that the chosen token attends to
    into: "-unas", // and for the table of queries that attend to it
    pool: "one", // the tokens of the distribution: of "one" head or of "all"
  };
  const watchers = [];
  let waiting; // the timer of an address that is not yet written

  view.state = {};

  function read() {
    const words = new URLSearchParams(location.hash.slice(1));
    const state = Object.assign({}, start);
    for (const name of Object.keys(start)) {
      if (words.has(name)) {
        const text = words.get(name);
        state[name] = typeof start[name] === "string" ? text : Number(text);
      }
    }
    return valid(state);
  }

  // The state with what an address may have wrong put right.
  function valid(state) {
    const whole = (value, end) => Number.isInteger(value) && value >= 0 && value < end;
    if (!whole(state.head, view.heads.length)) {
      state.head = start.head;
    }
    const head = view.heads[state.head];
    if (!view.schemes.includes(state.scheme)) {
      state.scheme = "unas";
    }
    if (!view.statistics.some((statistic) => statistic.name === state.statistic)) {
      state.statistic = start.statistic;
    }
    if (state.order !== "statistic") {
      state.order = "model";
    }
    if (state.pool !== "all") {
      state.pool = "one";
    }
    state.u = state.u >= 0 && state.u <= 1 ? state.u : start.u;
    if (!whole(state.key, head.keys)) {
      state.key = view.leastKey(head);
    }
    if (head.oneSequence || !whole(state.query, head.queries)) {
      state.query = head.oneSequence ? state.key : 0;
    }
    return state;
  }

  function draw(changed) {
    for (const watcher of watchers) {
      if (watcher.names.some((name) => changed.includes(name))) {
        watcher.act(view.state, changed);
      }
    }
  }

  function move(next) {
    const changed = Object.keys(start).filter((name) => next[name] !== view.state[name]);
    view.state = next;
    draw(changed);
  }

  // Calls act(state, changed) at the start and whenever one of the named parts changes.
  view.watch = function (names, act) {
    watchers.push({ names, act });
  };

  view.redraw = () => draw(Object.keys(start));

  // Changes parts of the state. A new head or token is a step that the browser's "back" undoes.
  view.choose = function (parts) {
    const next = Object.assign({}, view.state, parts);
    if ("head" in parts && !("key" in parts) && parts.head !== view.state.head) {
      next.key = next.query = null;
    }
    valid(next);
    const words = new URLSearchParams();
    for (const name of Object.keys(start)) {
      if (next[name] !== start[name]) {
        words.set(name, next[name]);
      }
    }
    const step = "head" in parts || "key" in parts || "query" in parts;
    const save = () => history[step ? "pushState" : "replaceState"](null, "", `#${words}`);
    clearTimeout(waiting);
    if (step) {
      save();
    } else {
      waiting = setTimeout(save, 150); // browsers refuse hundreds of changes in a few seconds, which a slider makes
    }
    move(next);
  };

  view.head = () => view.heads[view.state.head];

  view.start = function () {
    start.head = view.mostConspicuous().number;
    const shares = view.heads.map(({ raw }) => raw.schemes.unas.share_ignored);
    if (shares.includes(0) && !shares.some((share) => share > 0)) {
      start.statistic = "least_per_query"; // shares of 0 tell nothing
    }
    view.state = read();
    view.redraw();
    addEventListener("popstate", () => {
      clearTimeout(waiting);
      move(read());
    });
  };
})();
