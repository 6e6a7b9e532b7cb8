// Selected calls stay selected while the list updates, and are counted; a lost connection is shown.
"use strict";

Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) =>
  !(name === "checked" && node.type === "checkbox");

const lost = () => document.getElementById("lost");
document.addEventListener("htmx:sseError", () => { lost().hidden = false; });
document.addEventListener("htmx:sseOpen", () => { lost().hidden = true; });

const count = () => {
  const ticked = document.querySelectorAll("#list input[name=chosen]:checked").length;
  const told = document.getElementById("ticked");
  if (told !== null) told.textContent = `${ticked} selected:`;
};
document.addEventListener("change", count);
document.addEventListener("htmx:afterSettle", count);
window.addEventListener("pageshow", count);
