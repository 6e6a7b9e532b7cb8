// Follow one run: fetch new entries when the server announces them, and append them.
// Nothing is rendered again: where a person reads, selects or types, nothing moves.
"use strict";

const AGAIN_MS = 10000;
const AT_END_PIXELS = 120;
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

function since(iso, word) {
  const seconds = (Date.now() - Date.parse(iso)) / 1000;
  const size = Math.abs(seconds);
  const [unit, of] = UNITS.find(([, each]) => size >= each) || ["s", 1];
  const text = `${Math.round(size / of)} ${unit}`;
  if (seconds < 0) return `in ${text}`;
  return word ? `${word} ${text}` : `${text} ago`;
}

function tick() {
  for (const time of document.querySelectorAll("time[data-ago]")) {
    const text = since(time.dateTime, time.dataset.ago);
    if (time.textContent !== text) time.textContent = text;
  }
}

// The answer that the model is writing. `over` is the answer that is already in the log.
const writing = {
  key: "", turn: undefined, over: "",
  at(id) { return document.getElementById(id); },
  clear() {
    this.key = "";
    this.at("said").textContent = "";
    this.at("calls").replaceChildren();
    this.at("writing").hidden = true;
  },
  settle(key) {
    this.over = key || this.over;
    if (this.key === key) this.clear();
  },
  more(news) {
    if (news.key === this.over) return;
    if (news.key !== this.key) this.clear();
    Object.assign(this, { key: news.key, turn: news.turn });
    this.at("attempt").textContent = news.attempt > 1 ? ` (attempt ${news.attempt})` : "";
    if (news.whole !== undefined) this.at("said").textContent = news.whole;
    if (news.text) this.at("said").append((news.gap ? " … " : "") + news.text);
    if (news.calls) this.at("calls").replaceChildren(...news.calls.map((call) => {
      const line = document.createElement("li");
      line.textContent = call;
      return line;
    }));
    this.at("writing").hidden = false;
  },
};

function isAtEnd() {
  const page = document.documentElement;
  return page.scrollHeight > page.clientHeight
    && page.scrollHeight - page.clientHeight - window.scrollY < AT_END_PIXELS;
}

function following(change) {
  const follow = isAtEnd();
  change();
  if (follow) window.scrollTo(0, document.documentElement.scrollHeight);
}

function say(text) {
  const trouble = document.getElementById("trouble");
  if (trouble.textContent !== text) trouble.textContent = text;
  trouble.hidden = !text;
}

// The progress of a running call.
function tell({ call, text }) {
  for (const place of document.querySelectorAll("#now [data-call]")) {
    if (place.dataset.call !== call) continue;
    place.textContent = text;
    place.hidden = !text;
  }
}

function put(part) {
  const entries = document.getElementById("entries");
  const fresh = part.getElementById("entries");
  for (const id of ["now", "how", "more", "earlier"]) {
    const [old, made] = [document.getElementById(id), part.getElementById(id)];
    if (!old || !made) continue;
    // A remark for people stays one, although the run now waits for a message.
    const isRemark = old.querySelector("[value=people]:checked");
    if (id === "how" && (isRemark || old.innerHTML.trim() === made.innerHTML.trim())) continue;
    Idiomorph.morph(old, made.outerHTML, { morphStyle: "outerHTML" });
    if (id === "earlier") htmx.process(document.getElementById(id));
  }
  const lines = [...fresh.children].filter((line) => !line.id || !document.getElementById(line.id));
  // The log may show the end of another answer, which was never streamed.
  if (lines.some(({ dataset }) => dataset.turn && Number(dataset.turn) === writing.turn)) writing.settle(writing.key);
  if (lines.length) document.getElementById("none")?.remove();
  entries.append(...lines);
  Object.assign(entries.dataset, { last: fresh.dataset.last, more: fresh.dataset.more, answered: fresh.dataset.answered });
}

const news = {
  busy: false, again: false, over: "",
  async fetch(over = "") {
    this.over = over || this.over;
    this.again = true;
    if (this.busy) return;
    this.busy = true;
    try {
      while (this.again) await this.once();
    } finally {
      this.busy = false;
    }
  },
  async once() {
    const { here, last } = document.getElementById("entries").dataset;
    const { over } = this;
    this.again = false;
    this.over = "";
    try {
      const answer = await fetch(`${here}/news${last ? `?after=${last}` : ""}`, { headers: { accept: "text/html" } });
      const text = await answer.text();
      if (!answer.ok || answer.redirected) throw new Error("refused");
      const part = new DOMParser().parseFromString(text, "text/html");
      if (!part.getElementById("entries")) throw new Error("another page");
      following(() => {
        put(part);
        if (over) writing.settle(over);
      });
      say("");
    } catch {
      say("The update failed and is retried. If this message stays, reload the page.");
      this.over ||= over;
      setTimeout(() => this.fetch(), AGAIN_MS);
      return;
    }
    const { more, answered } = document.getElementById("entries").dataset;
    if (more) this.again = true;
    else if (!answered) setTimeout(() => this.fetch(), AGAIN_MS);
  },
};

let stream;

function listen() {
  const { here, place } = document.getElementById("entries").dataset;
  stream = new PageEvents(`${here}/changes?seen=${encodeURIComponent(place)}`);
  stream.onopen = () => {
    writing.clear();
    say("");
  };
  stream.addEventListener("changed", ({ data }) => news.fetch(JSON.parse(data).answered ? writing.key : ""));
  stream.addEventListener("token", (event) => following(() => writing.more(JSON.parse(event.data))));
  stream.addEventListener("update", (event) => tell(JSON.parse(event.data)));
  stream.addEventListener("trouble", (event) => say(JSON.parse(event.data).text));
  stream.addEventListener("over", () => {
    stream.close();
    writing.clear();
  });
  stream.onerror = () => {
    if (stream.readyState !== EventSource.CLOSED) return;
    writing.clear();
    say("The connection is lost and is retried. If this message stays, reload the page.");
    setTimeout(listen, AGAIN_MS);
  };
}

document.addEventListener("DOMContentLoaded", () => {
  const entries = document.getElementById("entries");
  tick();
  setInterval(tick, 1000);
  // What a person has unfolded stays open.
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name) => name !== "open";
  if (!entries?.dataset.newest) return;
  if (!entries.dataset.answered || entries.dataset.more) news.fetch();
  if (!entries.dataset.live) return;
  document.getElementById("still").hidden = true;
  listen();
});

// A second tap sends nothing. A later one, as after a stop of the browser, needs a confirmation.
const DOUBLE_MS = 1000;
document.addEventListener("submit", (event) => {
  const { dataset } = event.target;
  const isDouble = event.timeStamp - dataset.sent < DOUBLE_MS;
  if (isDouble || (dataset.sent && !confirm("This was sent already. Send it again?"))) event.preventDefault();
  else dataset.sent = event.timeStamp;
});
const clear = (form) => delete form?.dataset.sent;
for (const type of ["input", "change"]) document.addEventListener(type, ({ target }) => clear(target.form));
addEventListener("pageshow", () => document.querySelectorAll("[data-sent]").forEach(clear));

document.addEventListener("click", async ({ target }) => {
  const button = target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.firstChild.data = "Copied";
});
