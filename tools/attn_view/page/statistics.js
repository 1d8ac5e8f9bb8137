// The statistics of a head that the overview shows.
(function () {
  const stored = (name) => (raw, scheme) => raw.schemes[scheme][name];

  // of(raw, scheme) is the value, which may be null; `low` says that small values are the conspicuous ones.
  view.statistics = [
    { name: "share_ignored", title: "share ignored", of: stored("share_ignored"), show: view.percent,
      help: () => `of the tokens, those with c < ${view.number(view.epsilon)}` },
    { name: "least", title: "least c", of: stored("least"), show: view.number, low: true, logarithmic: true,
      help: () => "the least column sum of a token" },
    { name: "least_per_query", title: "least c/n", of: stored("least_per_query"), show: view.number, low: true, logarithmic: true,
      help: () => "the least mean weight of a token, over the n queries that may attend to it" },
    { name: "entropy", title: "entropy", of: stored("entropy"), show: view.number, low: true,
      help: () => "of a query's weights, in nats: 0 if each query attends to one key" },
    { name: "first_key_share", title: "first token", of: stored("first_key_share"), show: view.percent,
      help: () => "the share of the attention that the first token gets" },
    { name: "sink_share", title: "learned sink", of: stored("sink_share"), show: view.percent, unlessZero: true,
      help: () => "the share of the attention that the learned sink gets" },
    { name: "relative_deviation", title: "relative deviation", of: (raw) => raw.relative_deviation, show: view.percent, ofSoftmax: true,
      help: () => "how far softmax is from exact inference" },
  ];

  // The schemes that a statistic tells apart.
  view.schemesOf = (statistic) => (statistic.ofSoftmax ? ["unas"] : ["unas", "dnas"]);

  function values(statistic) {
    const all = view.schemesOf(statistic).map((scheme) => view.heads.map(({ raw }) => statistic.of(raw, scheme)));
    return [].concat(...all).filter((value) => value !== null);
  }

  // The statistics that the data has.
  view.statisticsHere = function () {
    const here = view.statistics.filter((statistic) => values(statistic).some((value) => !statistic.unlessZero || value > 0));
    return here.length ? here : view.statistics.slice(0, 1);
  };

  view.statisticOf = (state) => view.statistics.find((statistic) => statistic.name === state.statistic);

  // All maps have one scale, so that they can be compared.
  view.statisticScale = function (statistic) {
    const all = values(statistic).filter((value) => !statistic.logarithmic || value > 0);
    const low = statistic.low ? Math.min(...all) : 0;
    const high = Math.max(...all);
    if (high > low) {
      return view.scale(low, high, statistic.logarithmic);
    }
    const only = high > 0 ? high : 1;
    return view.scale(statistic.logarithmic ? only / 10 : 0, only, statistic.logarithmic);
  };
})();
