// What every page has: copying a command, and times in the zone of the browser.
// @ts-check

import { localTimes } from "./time.js";

document.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
  if (!(button instanceof HTMLElement)) return;
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(button.dataset.copy ?? "");
    button.textContent = "copied";
  } catch {
    button.textContent = "select it by hand";
  }
  setTimeout(() => { button.textContent = before; }, 1500);
});

const FIELDS = "input, select, textarea, [contenteditable]";

/** Whether a refresh would take away what a person is at: a field, a dialog, marked text, a part of
 * the time that is being chosen (brush.js).
 * @param {Element} main */
function isInUse(main) {
  const active = document.activeElement;
  if (active !== null && main.contains(active) && active.matches(FIELDS)) return true;
  if (main.querySelector("dialog[open], rect.range") !== null) return true;
  const marked = document.getSelection();
  return marked !== null && !marked.isCollapsed && main.contains(marked.anchorNode);
}

/** What is the same element for a person, before a refresh and after it.
 * @param {Element} element */
function likeness(element) {
  return [element.tagName, element.getAttribute("href"), element.textContent].join(" ");
}

/** @param {Element} part @param {string} selector @param {Element} element */
function placeOf(part, selector, element) {
  const like = [...part.querySelectorAll(selector)].filter((e) => likeness(e) === likeness(element));
  return { selector, likeness: likeness(element), index: like.indexOf(element) };
}

/** @param {Element} part @param {ReturnType<typeof placeOf>} place */
function atPlace(part, place) {
  const all = [...part.querySelectorAll(place.selector)];
  return all.filter((element) => likeness(element) === place.likeness)[place.index];
}

/** What the part of the page that is about to be replaced had, and the new one shall have.
 * @type {{id: string, focus: ReturnType<typeof placeOf> | null, open: ReturnType<typeof placeOf>[]}} */
let kept = { id: "", focus: null, open: [] };

document.addEventListener("htmx:configRequest", (event) => {
  const { target } = event;
  if (!(event instanceof CustomEvent) || !(target instanceof Element) || target.id !== "main") return;
  if (isInUse(target)) event.preventDefault();
  // A filter may have changed the address since the page was made.
  event.detail.path = location.pathname + location.search;
});

document.addEventListener("htmx:beforeSwap", (event) => {
  const { target } = event;
  if (!(event instanceof CustomEvent) || !(target instanceof Element)) return;
  if (target.id === "main" && isInUse(target)) event.detail.shouldSwap = false;
  const active = document.activeElement;
  const inside = active !== null && active !== target && target.contains(active);
  const open = [...target.querySelectorAll("details[open] > summary")];
  kept = {
    id: target.id,
    focus: inside ? placeOf(target, "a, button, summary", active) : null,
    open: open.map((element) => placeOf(target, "summary", element)),
  };
});

document.addEventListener("htmx:afterSwap", () => {
  localTimes(document);
  const part = document.getElementById(kept.id);
  if (part === null) return;
  for (const place of kept.open) atPlace(part, place)?.parentElement?.setAttribute("open", "");
  const focused = kept.focus === null ? null : atPlace(part, kept.focus);
  if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
  kept = { id: "", focus: null, open: [] };
});
localTimes(document);
