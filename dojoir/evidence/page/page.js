"use strict";
(() => {
  const by = (id) => document.getElementById(id);
  const { steps } = JSON.parse(by("data").textContent);
  const kernel = by("kernel"), source = by("source"), said = by("said"), find = by("find");
  const buttons = [...document.querySelectorAll("#moves button")];
  const machines = [...document.querySelectorAll(".machine")];
  const states = [...document.querySelectorAll("#states li")];
  const dots = [...document.querySelectorAll(".tree circle")];
  let at = steps.length - 1;

  const row = (text, kinds) => {
    const made = document.createElement("span");
    made.className = ["row", ...kinds].join(" ");
    made.textContent = text || " ";
    return made;
  };

  const light = (spans) => {
    const rows = [...source.children];
    rows.forEach((one, n) => one.classList.toggle("lit", spans.some(([a, b]) => a <= n && n <= b)));
    if (spans.length && rows[spans[0][0]]) {
      source.scrollTop = rows[spans[0][0]].offsetTop - source.offsetTop - 40;
    }
    steps[at].machine.forEach(([, of], n) => {
      const made = [...machines[n].children];
      made.forEach((one, line) => one.classList.toggle("lit", spans.some(([a, b]) => a <= of[line] && of[line] <= b)));
      const first = made.find((one) => one.classList.contains("lit"));
      if (first) machines[n].scrollTop = first.offsetTop - machines[n].offsetTop - 40;
    });
  };

  const show = (number) => {
    at = Math.max(0, Math.min(steps.length - 1, number));
    const step = steps[at];
    kernel.replaceChildren(...step.lines.map(([kind, text, spans]) => {
      const made = row(text, kind === "s" ? [] : [kind]);
      if (spans.length) {
        made.classList.add("has");
        made.tabIndex = 0;
        made.addEventListener("click", () => light(spans));
        made.addEventListener("keydown", (event) => { if (event.key === "Enter") light(spans); });
      }
      return made;
    }));
    const code = step.source ? step.source.split("\n") : ["(the code of this step is not kept)"];
    source.replaceChildren(...code.map((text) => row(text, [])));
    machines.forEach((one, n) => {
      const [text] = step.machine[n] || ["(of the last step alone)"];
      one.replaceChildren(...text.split("\n").map((line) => row(line, [])));
    });
    buttons.forEach((one, n) => {
      if (n === at) one.setAttribute("aria-current", "step"); else one.removeAttribute("aria-current");
    });
    const list = by("moves"), chosen = buttons[at];
    if (chosen) list.scrollTop = chosen.offsetTop - list.offsetTop - 60;
    said.textContent = `${at} of ${steps.length - 1} moves, ${step.hash}`;
    mark();
  };

  const mark = () => {
    const word = find.value.trim().toLowerCase();
    const has = (one) => word !== "" && one.textContent.toLowerCase().includes(word);
    let count = 0;
    for (const one of [...kernel.children, ...source.children, ...machines.flatMap((each) => [...each.children]), ...buttons]) {
      const hit = has(one);
      one.classList.toggle("hit", hit);
      count += hit;
    }
    states.forEach((one, n) => {
      const hit = has(one);
      one.hidden = word !== "" && !hit;
      if (dots[n]) dots[n].classList.toggle("hit", hit);
      count += hit;
    });
    if (word) {
      said.textContent = `${count} found`;
      const first = [...kernel.children].find((one) => one.classList.contains("hit"));
      if (first) kernel.scrollTop = first.offsetTop - kernel.offsetTop - 40;
    }
  };

  const turn = () => {
    const root = document.documentElement;
    const dark = root.classList.contains("dark")
      || (!root.classList.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches);
    root.classList.toggle("dark", !dark);
    root.classList.toggle("light", dark);
    by("theme").setAttribute("aria-pressed", String(!dark));
  };

  buttons.forEach((one, n) => one.addEventListener("click", () => show(n)));
  by("first").addEventListener("click", () => show(0));
  by("back").addEventListener("click", () => show(at - 1));
  by("on").addEventListener("click", () => show(at + 1));
  by("last").addEventListener("click", () => show(steps.length - 1));
  by("theme").addEventListener("click", turn);
  find.addEventListener("input", mark);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.target === find) {
      if (event.key === "Escape") { find.value = ""; mark(); find.blur(); }
      return;
    }
    const does = {
      ArrowLeft: () => show(at - 1), ArrowRight: () => show(at + 1), Home: () => show(0),
      End: () => show(steps.length - 1), "/": () => find.focus(), t: turn,
    }[event.key];
    if (does) { event.preventDefault(); does(); }
  });
  show(at);
})();
