// What a person has ticked stays ticked while the list is renewed, and a page that has lost its
// connection says so.
"use strict";

Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) =>
  !(name === "checked" && node.type === "checkbox");

const lost = () => document.getElementById("lost");
document.addEventListener("htmx:sseError", () => { lost().hidden = false; });
document.addEventListener("htmx:sseOpen", () => { lost().hidden = true; });
