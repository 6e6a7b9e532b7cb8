// Keys for the list and the page of a call. They move the focus and open pages; none decides.
"use strict";

{
  const dialog = document.getElementById("keys");
  const use = document.getElementById("keys-on");
  const isOn = () => localStorage.getItem("keys") !== "off";
  // A button that is in sight, since it sticks to the bottom, must not scroll the page.
  const focusOn = (key) => {
    const button = document.querySelector({ a: "#bar .main, .choices .yes", d: "#bar .deny, .choices .no" }[key]);
    const place = button?.getBoundingClientRect();
    button?.focus({ preventScroll: place.top >= 0 && place.bottom <= innerHeight });
  };

  const move = (step) => {
    const titles = [...document.querySelectorAll(".row a.title")];
    const row = document.activeElement.closest(".row");
    const now = titles.indexOf(row?.querySelector("a.title"));
    const next = titles[now < 0 ? 0 : Math.min(Math.max(now + step, 0), titles.length - 1)];
    next?.focus();
    next?.closest(".row").scrollIntoView({ block: "nearest" });
  };
  const decide = (key) => {
    const title = document.activeElement.closest(".row")?.querySelector("a.title");
    if (title && !document.querySelector("input[name=chosen]:checked")) location.href = `${title.href}#key-${key}`;
    else focusOn(key);
  };
  const open = () => { use.checked = isOn(); dialog.showModal(); };
  const actions = {
    j: () => move(1),
    k: () => move(-1),
    x: () => document.activeElement.closest(".row")?.querySelector("input[name=chosen]")?.click(),
    a: () => decide("a"),
    d: () => decide("d"),
    "/": () => document.getElementById("q")?.focus(),
    "?": open,
  };

  document.addEventListener("keydown", (event) => {
    const at = document.activeElement;
    const types = at.matches("input:not([type=checkbox]):not([type=radio]), textarea, select") || at.isContentEditable;
    const isHere = at === document.body || at.closest("main") !== null;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || dialog.open) return;
    if (types || !isHere || !Object.hasOwn(actions, event.key) || !(isOn() || event.key === "?")) return;
    event.preventDefault();
    actions[event.key]();
  });
  document.getElementById("keys-open").addEventListener("click", open);
  use.addEventListener("change", () => localStorage.setItem("keys", use.checked ? "on" : "off"));
  // A key in the list has opened this page at a decision.
  if (location.hash.startsWith("#key-")) focusOn(location.hash.slice(5));
}
