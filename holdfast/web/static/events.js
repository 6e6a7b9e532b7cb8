// The events of a page. A hidden page holds no connection: a browser has six for all pages.
// A further connection continues after the last event that the page has received.
"use strict";

class PageEvents extends EventTarget {
  static #seen = "";
  #source = null;
  #types = new Set();
  #url;

  constructor(url) {
    super();
    this.#url = new URL(url, location);
    document.addEventListener("visibilitychange", this);
    this.#look();
  }

  get readyState() { return this.#source?.readyState ?? EventSource.CONNECTING; }

  addEventListener(type, ...listener) {
    super.addEventListener(type, ...listener);
    this.#types.add(type);
    this.#source?.addEventListener(type, this);
  }

  close() {
    document.removeEventListener("visibilitychange", this);
    this.#source?.close();
  }

  handleEvent(event) {
    if (event.type === "visibilitychange") return this.#look();
    PageEvents.#seen = event.lastEventId || PageEvents.#seen;
    this.dispatchEvent(new MessageEvent(event.type, event));
  }

  #look() {
    if (document.hidden) {
      this.#source?.close();
      this.#source = null;
    } else if (!this.#source) {
      if (PageEvents.#seen) this.#url.searchParams.set("seen", PageEvents.#seen);
      this.#source = new EventSource(this.#url);
      this.#source.onopen = (event) => this.onopen(event);
      this.#source.onerror = (event) => {
        if (this.readyState === EventSource.CLOSED) this.close();
        this.onerror(event);
      };
      for (const type of this.#types) this.#source.addEventListener(type, this);
    }
  }
}

htmx.createEventSource = (url) => new PageEvents(url);
