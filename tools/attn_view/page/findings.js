// The answer in words: which heads ignore which tokens.
(function () {
  const mostHeads = 8;
  const mostWords = 12;
  const mostPositions = 4; // of equal words

  // The counted keys by their attention, the least first: by c, or by c/n where n differs.
  function byAttention(head) {
    const sums = head.columnSums("unas");
    const n = head.queriesOfKey();
    const measure = head.causal ? (key) => sums[key] / n[key] : (key) => sums[key];
    return head.countedKeys().sort((a, b) => measure(a) - measure(b));
  }

  view.leastKey = (head) => (byAttention(head).concat(0))[0];

  function ignoredKeys(head, scheme) {
    const sums = head.columnSums(scheme);
    return head.countedKeys().filter((key) => sums[key] < view.epsilon);
  }

  // Heads in order of what softmax ignores: the largest share first, then the least c/n. Heads in which no token counts are left out.
  function conspicuous() {
    const of = (head) => head.raw.schemes.unas;
    return view.heads.filter((head) => of(head).share_ignored !== null)
      .sort((a, b) => of(b).share_ignored - of(a).share_ignored || of(a).least_per_query - of(b).least_per_query);
  }

  view.mostConspicuous = () => conspicuous()[0] || view.heads[0];

  function positions(keys) {
    const shown = keys.slice().sort((a, b) => a - b).slice(0, mostPositions);
    const rest = keys.length - shown.length;
    const last = rest ? `${rest} more` : shown.pop();
    return `at positions ${shown.join(", ")} and ${last}`;
  }

  const alike = (keys, sums) => keys.every((key) => view.number(sums[key]) === view.number(sums[keys[0]]));

  // Equal words once, with their positions, the least column sum, and a button that chooses this token.
  function words(head, keys, ignored) {
    const sums = head.columnSums("unas");
    const places = new Map();
    for (const key of keys) {
      const word = view.keyWord(head, key);
      places.set(word, (places.get(word) || []).concat(key));
    }
    const shown = Array.from(places).slice(0, mostWords).map(([word, found]) => view.element("li", null,
      view.element("button", { type: "button", class: ignored ? "word ignored" : "word", title: `position ${found.join(", ")}`,
        click: () => view.show(head.number, found[0]) }, view.element("bdi", null, head.keyTokens ? word : `token ${word}`)),
    view.element("span", { class: "quiet" }, found.length > 1 ? ` ${found.length} tokens, ${positions(found)}, ` : " ",
      alike(found, sums) ? "c = " : "least c = ", view.data(sums[found[0]]), found.length > 1 && alike(found, sums) ? " each" : "")));
    const rest = places.size - shown.length;
    return view.element("ul", { class: "words" }, ...shown, ...(rest > 0 ? [view.element("li", null, `and ${rest} more`)] : []));
  }

  function line(head) {
    const keys = byAttention(head);
    const ignored = new Set(ignoredKeys(head, "unas"));
    const found = keys.filter((key) => ignored.has(key));
    return view.element("li", null,
      view.element("button", { type: "button", class: "link", click: () => view.choose({ head: head.number }) }, head.label),
      found.length ? ` ignores ${found.length} of ${view.count(keys.length, "token")}: ` : " gives the least attention to ",
      words(head, found.length ? found : keys.slice(0, 3), found.length > 0));
  }

  function sentence(scheme, name) {
    let ignored = 0;
    let all = 0;
    let heads = 0;
    for (const head of view.heads) {
      const count = ignoredKeys(head, scheme).length;
      ignored += count;
      all += head.countedKeys().length;
      heads += count > 0 ? 1 : 0;
    }
    if (all === 0) {
      return "No token counts: too few queries may attend to each.";
    }
    return ignored ? `${name} ignores ${ignored} of ${view.count(all, "token")}, in ${heads} of ${view.count(view.heads.length, "head")}.`
      : `${name} ignores none.`;
  }

  const scheme = (name, meaning) => view.element("li", null, view.element("b", null, name), meaning);

  view.drawFindings = function () {
    const lines = conspicuous().filter((head) => ignoredKeys(head, "unas").length);
    const shown = (lines.length ? lines : conspicuous()).slice(0, mostHeads);
    const rest = lines.length - mostHeads;
    const few = view.heads.some((head) => head.countedKeys().length < head.queriesOfKey().filter((n) => n > 0).length);
    view.replace(document.getElementById("findings"),
      view.element("h2", { id: "findings-title" }, "Who is ignored"),
      view.element("p", { class: "finding" },
        ...new Set([sentence("unas", "Softmax (unas)"), " ", sentence("dnas", "Doubly-normalised attention (dnas)")])),
      view.element("ul", { class: "schemes quiet" },
        scheme("unas", " is softmax: the weights of each query add up to 1."),
        scheme("dnas", " is doubly-normalised: the weights of each key are first normalised over the queries, " +
          "then those of each query over the keys."),
        scheme("hnas", " is their mixture, u · dnas + (1 − u) · unas. " +
          "Move the slider of u to see from which u on a token is no longer ignored.")),
      view.element("ul", { class: "heads" }, ...shown.map(line)),
      ...(rest > 0 ? [view.element("p", { class: "quiet" }, `${rest} more heads ignore tokens; the table of heads lists them.`)] : []),
      view.element("p", { class: "quiet" },
        "The column sum c of a token is all the attention that it gets: its weights, summed over the queries. ",
        `A token is ignored if c < ${view.number(view.epsilon)}. `,
        "How little attention counts as none is a choice: the option --epsilon of attn-view sets another limit.",
        view.heads.length > 1 ? " The counts take each token once for each head." : "",
        few ? " Tokens to which too few queries may attend are left out." : ""));
  };
})();
