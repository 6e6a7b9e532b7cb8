// The page of a call: the button that approves the original arguments never drops changes, and
// times are shown in the reader's time zone too.
"use strict";

const differs = (one) =>
  one.options ? [...one.options].some((each) => each.selected !== each.defaultSelected)
    : /^(text|pick|meant|key):/.test(one.name) && one.value !== one.defaultValue;

function look() {
  const [form, button] = [document.getElementById("edit"), document.getElementById("approve-button")];
  const note = document.getElementById("changed-below");
  if (!form || !button || !note) return;
  const changed = [...form.elements].filter((one) => one.name).some(differs);
  button.disabled = changed;
  note.hidden = !changed;
}

for (const event of ["input", "change"]) document.addEventListener(event, look);
document.addEventListener("reset", () => setTimeout(look));
// The browser restores the input when a person comes back to the page.
addEventListener("pageshow", () => setTimeout(look));

function local() {
  for (const time of document.querySelectorAll("time[data-local]")) {
    const at = new Date(time.dateTime);
    delete time.dataset.local;
    if (isNaN(at) || !at.getTimezoneOffset()) continue;
    const sameDay = new Date(at - at.getTimezoneOffset() * 60000).getUTCDate() === at.getUTCDate();
    const how = sameDay ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" };
    time.after(`, ${at.toLocaleString("en-GB", how)} local time`);
  }
}

local();
document.addEventListener("htmx:sseMessage", local);
