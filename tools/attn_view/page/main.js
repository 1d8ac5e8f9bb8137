// Starts the page.
(function () {
  view.goTo = function (id) {
    const section = document.getElementById(id);
    section.scrollIntoView();
    section.focus({ preventScroll: true });
  };

  view.load(JSON.parse(document.getElementById("data").textContent));
  document.title = `${view.title}: attention`;
  document.getElementById("title").textContent = `Attention in ${view.title}`;
  const facts = Object.keys(view.about).map((name) => `${name}: ${view.about[name]}`);
  document.getElementById("about").textContent = facts.concat(view.leftOut ? `left out: ${view.leftOut}` : []).join(" · ");
  // The address holds the state, so links to sections leave it alone.
  for (const link of document.querySelectorAll("a[href^='#']")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      view.goTo(link.getAttribute("href").slice(1));
    });
  }
  view.drawFindings();
  view.startOverview();
  view.startText();
  view.startWeights();
  view.startDistribution();
  view.watchTheme();
  view.start();
})();
