// Selected calls stay selected while the list updates, and are counted; a lost connection is shown.
"use strict";

Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) =>
  !(name === "checked" && node.type === "checkbox");

const lost = () => document.getElementById("lost");
document.addEventListener("htmx:sseError", () => { lost().hidden = false; });
document.addEventListener("htmx:sseOpen", () => {
  lost().hidden = true;
  document.querySelector("[sse-swap=trouble]").replaceChildren(); // it comes again if it remains
});

const ticked = () => [...document.querySelectorAll("#list input[name=chosen]:checked")];
const place = (one) => one.getBoundingClientRect();
// Whether all of a row is on the screen, above the bar.
const isSeen = (box) => {
  const row = place(box.closest(".row").querySelector(".what"));
  return row.top >= 0 && row.bottom <= Math.min(innerHeight, place(document.getElementById("bar")).top);
};
const money = (sum, currency) => new Intl.NumberFormat("en", { style: "currency", currency,
  currencyDisplay: ["EUR", "USD", "GBP", "JPY", "INR"].includes(currency) ? "symbol" : "code" }).format(sum);
const add = (map, key, value) => map.set(key, (map.get(key) ?? 0) + value);
// A screen reader reads the text again at each assignment.
const write = (one, text) => { if (one.textContent !== text) one.textContent = text; };

// The bar names what it will do: number, kinds, sum by currency; and what is shown again first.
const count = () => {
  const [summary, boxes, kinds, sums] = [document.getElementById("ticked"), ticked(), new Map(), new Map()];
  if (summary === null) return;
  for (const { title, amount } of boxes.map((box) => box.dataset)) {
    add(kinds, title, 1);
    if (amount) add(sums, amount.split(" ")[1], Number(amount.split(" ")[0]));
  }
  const total = [...sums].map(([currency, sum]) => money(sum, currency)).join(" + ");
  const unseen = boxes.filter((box) => !isSeen(box)).length;
  write(document.querySelector("#bar .main"), `Approve ${boxes.length}${total && `: ${total}`}`);
  write(summary, [...kinds].map(([title, n]) => (n > 1 ? `${n} × ${title}` : title)).join(", ")
    + (unseen ? ` (${unseen} not on the screen: shown again first)` : ""));
};
for (const event of ["change", "scroll", "htmx:afterSettle"]) document.addEventListener(event, count);
for (const event of ["pageshow", "resize"]) window.addEventListener(event, count);
// The form has the selected calls that are on the screen as it is sent.
document.addEventListener("formdata", ({ target, formData }) => {
  if (target.id === "list") ticked().filter(isSeen).forEach((box) => formData.append("seen", box.value));
});
