// Records that come while one looks: what a search finds, or what is written to a topic now.
// Whatever a record holds becomes text, never HTML.
// @ts-check

import { localTimes } from "./time.js";

/**
 * @typedef {{partition: number, offset: number, iso: string, time: string, ms: string, zone: string,
 *   key: string | null, value: string | null, headers: number, state: string}} Row
 * @typedef {{rows: Row[], found: number, arrived: number, unread: number}} Tick
 * @typedef {{rows: Row[], progress: string}} News
 * @typedef {{state: string, failure: string}} Over
 */

const KEPT = 500; // rows of a tail
const SECOND_MS = 1000;
const AGAIN_MS = 2000;
const STREAMS_MAX = 4; // of one browser

const box = document.getElementById("stream");
const body = document.getElementById("rows");
const progress = document.getElementById("progress");
const over = document.getElementById("over");
const pause = document.getElementById("pause");
const number = new Intl.NumberFormat("en");

/** @param {string} tag @param {string} text @param {string} [name] */
function element(tag, text, name) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (name) made.className = name;
  return made;
}

/** @param {string | null} text @param {string} none */
function cell(text, none) {
  if (text !== null) return element("td", text, "mono");
  const made = element("td", "", "mono");
  made.append(element("span", none, "unknown"));
  return made;
}

/** @param {Row} row @param {string} topic */
function line(row, topic) {
  const made = document.createElement("tr");
  made.className = `state-${row.state.toLowerCase()}`;
  const link = document.createElement("a");
  link.href = `/topics/${encodeURIComponent(topic)}/${row.partition}/${row.offset}`;
  link.textContent = `${row.partition}@${number.format(row.offset)}`;
  const where = element("td", "", "n");
  where.append(link);
  const time = document.createElement("time");
  time.dateTime = row.iso;
  time.dataset.zone = row.zone;
  time.append(row.time, element("small", row.ms));
  const when = element("td", "", "nowrap");
  when.append(time);
  made.append(
    where,
    when,
    cell(row.key, "none"),
    cell(row.value, row.key === null ? "none" : "none: a tombstone"),
    element("td", row.state || "not known yet"),
    element("td", row.headers ? String(row.headers) : "", "n"),
  );
  localTimes(made);
  return made;
}

/** @param {Over} told */
function tellOver(told) {
  if (!over) return;
  const words = {
    end: "The whole range was searched.",
    rows: "These are as many as were asked for; there may be more.",
    stopped: `Stopped. ${told.failure}`,
    failed: told.failure,
  };
  over.textContent = words[/** @type {keyof typeof words} */ (told.state)] ?? told.state;
  over.className = told.state === "failed" ? "problem" : "quiet";
  const stop = document.getElementById("stop");
  if (stop) stop.hidden = true;
}

/**
 * Take one of the few streams that a browser may have open: it keeps six connections to a place, and
 * with all of them taken no page would load any more.
 * @returns {Promise<(() => void) | null>} what gives it back; null: none is left
 */
async function seat() {
  if (!("locks" in navigator)) return () => {};
  for (let place = 0; place < STREAMS_MAX; place += 1) {
    /** @type {(() => void) | null} */
    const leave = await new Promise((given) => {
      navigator.locks.request(`oncelog-stream-${place}`, { ifAvailable: true }, (lock) => {
        if (lock) return new Promise((done) => given(() => done(undefined)));
        given(null);
        return undefined;
      });
    });
    if (leave) return leave;
  }
  return null;
}

/**
 * Listen to a stream while the tab is to be seen.
 * @param {() => string} address
 * @param {Record<string, (told: any) => void>} handlers by event; after "over" nobody listens
 * @param {(shown: boolean) => void} turned
 */
function listen(address, handlers, turned) {
  /** @type {EventSource | null} */
  let source = null;
  /** @type {(() => void) | null} */
  let leave = null;
  let asking = false;
  let ended = false;
  const close = () => {
    source?.close();
    leave?.();
    source = leave = null;
    delete document.documentElement.dataset.stream;
  };
  const open = async () => {
    if (source || asking || ended || document.hidden) return;
    asking = true;
    const given = await seat();
    asking = false;
    if (!given) {
      if (over) {
        over.dataset.full = "yes";
        over.textContent = `${STREAMS_MAX} other windows follow something; hide or close one.`;
      }
      setTimeout(open, AGAIN_MS);
      return;
    }
    if (document.hidden) {
      given();
      return;
    }
    leave = given;
    if (over?.dataset.full) {
      delete over.dataset.full;
      over.textContent = "";
    }
    source = new EventSource(address());
    source.addEventListener("open", () => { document.documentElement.dataset.stream = "open"; });
    // By itself the browser would ask for what it has already.
    source.addEventListener("error", () => { close(); setTimeout(open, AGAIN_MS); });
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => handle(JSON.parse(event.data)));
    }
    source.addEventListener("over", (event) => {
      ended = true;
      close();
      tellOver(JSON.parse(event.data));
    });
  };
  document.addEventListener("visibilitychange", () => {
    if (ended) return;
    turned(!document.hidden);
    if (document.hidden) close();
    else open();
  });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", open);
  open();
}

/**
 * Show what a search finds behind the rows that the page has already.
 * @param {HTMLElement} box @param {HTMLElement} body
 */
function search(box, body) {
  let known = Number(box.dataset.known);
  /** @param {News} news */
  const found = (news) => {
    body.append(...news.rows.map((row) => line(row, box.dataset.topic ?? "")));
    known += news.rows.length;
    if (progress) progress.textContent = news.progress;
  };
  listen(() => `${box.dataset.address}&known=${known}`, { found }, () => {});
}

/**
 * Show what is written now; while the tab is hidden nobody asks.
 * @param {HTMLElement} box @param {HTMLElement} body @param {HTMLElement} pause
 */
function tail(box, body, pause) {
  const topic = box.dataset.topic ?? "";
  /** @type {Row[]} */
  let waiting = [];
  let paused = false;
  let dropped = 0;
  /** @type {{at: number, tick: Tick}[]} */
  let recent = [];
  let since = "";

  const show = () => {
    const rows = waiting.splice(0).reverse();
    body.prepend(...rows.map((row) => line(row, topic)));
    while (body.childElementCount > KEPT) body.lastElementChild?.remove();
    if (rows[0]) since = rows[0].iso;
  };
  const say = () => {
    if (!progress) return;
    const now = performance.now();
    recent = recent.filter((each) => now - each.at < SECOND_MS);
    /** @param {(tick: Tick) => number} count */
    const sum = (count) => recent.reduce((total, each) => total + count(each.tick), 0);
    const arrived = sum((tick) => tick.arrived);
    const found = sum((tick) => tick.found + tick.unread);
    const shown = sum((tick) => tick.rows.length);
    let text = arrived ? `${number.format(arrived)} a second` : "Nothing comes now.";
    if (shown < found) text = `a sample: ${number.format(shown)} of ${number.format(found)} a second`;
    if (found < arrived && shown >= found) text += `, ${number.format(found)} of them fit`;
    if (paused) text += `; paused, ${number.format(waiting.length)} wait`;
    if (dropped) text += `, ${number.format(dropped)} older ones were let go`;
    progress.textContent = text;
  };
  /** @param {Tick} news */
  const tick = (news) => {
    recent.push({ at: performance.now(), tick: news });
    waiting.push(...news.rows);
    if (waiting.length > KEPT) {
      dropped += waiting.length - KEPT;
      waiting = waiting.slice(-KEPT);
    }
    if (!paused) show();
    say();
  };
  /** @param {boolean} shown */
  const turned = (shown) => {
    if (!shown || !since || !over) return;
    const link = document.createElement("a");
    const from = encodeURIComponent(`time:${since}`);
    link.href = `/topics/${encodeURIComponent(topic)}/messages?from=${from}`;
    link.textContent = "Records that came meanwhile";
    over.replaceChildren("Nothing was followed while this tab was hidden. ", link);
  };
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "go on" : "pause";
    if (!paused) {
      show();
      dropped = 0;
    }
    say();
  });
  setInterval(say, SECOND_MS / 2);
  listen(() => box.dataset.address ?? "", { tick }, turned);
}

if (box && body) {
  if (box.dataset.state === "running") search(box, body);
  if (box.dataset.state === "follow" && pause) tail(box, body, pause);
}
