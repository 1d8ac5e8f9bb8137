// A text as a list box of tokens.
(function () {
  const chunk = 256; // tokens; those of long texts are drawn only when they come into view

  // The direction of the whole text, and of each token. A token without letters takes the direction that its neighbours share.
  function directions(words) {
    const letters = words.map(view.direction);
    const count = (direction) => letters.filter((one) => one === direction).length;
    const whole = count("rtl") > count("ltr") ? "rtl" : "ltr";
    const last = (list) => {
      let found = whole;
      return list.map((one) => (found = one || found));
    };
    const before = last(letters);
    const after = last(letters.slice().reverse()).reverse();
    return { whole, each: before.map((direction, n) => (direction === after[n] ? direction : whole)) };
  }

  // A list box of tokens. Runs of right-to-left tokens are set from right to left, each token apart from its neighbours.
  // `focus(n)` is called for a token that is pointed at or has the focus, `choose(n)` for one that is clicked or entered.
  view.tokens = function (label, words, focus, choose) {
    const { whole, each } = directions(words);
    const options = words.map((word, n) => view.element("span",
      { role: "option", class: "token", tabindex: -1, "data-token": n, "aria-selected": "false" }, view.element("bdi", null, word)));
    const box = view.element("div",
      { role: "listbox", class: words.length > 8 * chunk ? "text long" : "text", "aria-label": label, tabindex: -1, dir: whole });
    for (let start = 0; start < words.length; start += chunk) {
      const end = Math.min(words.length, start + chunk);
      const part = view.element("div", { role: "group", class: "chunk", "aria-label": `tokens ${start} to ${end - 1}` });
      let run = null;
      for (let n = start; n < end; ++n) {
        if (!run || run.dir !== each[n]) {
          run = view.element("span", { role: "presentation", class: "run", dir: each[n] });
          part.append(run, " ");
        }
        run.append(options[n], " ");
      }
      box.append(part);
    }

    listen(box, options, focus, choose);
    return { box, options };
  };

  function listen(box, options, focus, choose) {
    const tokenOf = (target) => (target.closest ? target.closest("[data-token]") : null);
    const index = (token) => Number(token.getAttribute("data-token"));
    const on = (name, act) => box.addEventListener(name, (event) => tokenOf(event.target) && act(index(tokenOf(event.target)), event));
    on("click", choose);
    on("mouseover", focus);
    on("focusin", (n) => {
      options.forEach((option) => option.tabIndex === 0 && option.setAttribute("tabindex", -1));
      options[n].setAttribute("tabindex", 0);
      focus(n);
    });
    on("keydown", (n, event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        choose(n);
      } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        options[beside(options, n, event.key === "ArrowDown" ? 1 : -1)].focus();
      } else {
        const swapped = options[n].parentNode.dir === "rtl" ? { ArrowLeft: "ArrowRight", ArrowRight: "ArrowLeft" }[event.key] : null;
        view.rove(options, n, { key: swapped || event.key, preventDefault: () => event.preventDefault() }, 1);
      }
    });
  }

  // The token of the next line in this direction that is nearest to token n.
  function beside(options, n, step) {
    const at = options[n].getBoundingClientRect();
    const far = (box) => Math.abs(box.left + box.right - at.left - at.right);
    let found = n;
    let line = null;
    let distance = Infinity;
    for (let other = n + step; other in options; other += step) {
      const box = options[other].getBoundingClientRect();
      const away = step * (box.top - at.top) > box.height / 2;
      if (away && line === null) {
        line = box.top;
      }
      if (line !== null && Math.abs(box.top - line) > box.height / 2) {
        break;
      }
      if (away && far(box) < distance) {
        [found, distance] = [other, far(box)];
      }
    }
    return found;
  }
})();
