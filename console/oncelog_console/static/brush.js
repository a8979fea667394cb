// A part of the time is chosen by dragging over the lanes of events: the page shows that part then.
// The fields since and until do the same, by keyboard and without script.
// @ts-check

import { SVG, outputOf, placeAt, shareAt, timeAt, utc } from "./axis.js";

const LEAST_PX = 5;
/** The pointer has to go so far: a click is no part of the time. */

/** @typedef {{ lanes: SVGSVGElement, pointer: number, beganX: number, began: number, range: SVGRectElement }} Drag */

/** What is being dragged. While its rectangle is in the page, nothing is refreshed (page.js).
 * @type {Drag | null} */
let drag = null;

/** Whether a pointer is the one that drags. @param {PointerEvent} event */
function dragOf(event) {
  return drag !== null && drag.pointer === event.pointerId ? drag : null;
}

/** The part of the time between its begin and where the pointer is, as shares of the axis.
 * @param {Drag} drag @param {PointerEvent} event */
function partOf({ lanes, began }, event) {
  const now = shareAt(lanes, event.clientX);
  return { from: Math.min(began, now), to: Math.max(began, now) };
}

function end() {
  if (drag === null) return;
  const output = outputOf(drag.lanes);
  if (output) output.textContent = "";
  drag.range.remove();
  drag = null;
}

document.addEventListener("pointerdown", (event) => {
  const lanes = event.target instanceof Element ? event.target.closest("svg.lanes") : null;
  if (!(lanes instanceof SVGSVGElement) || !event.isPrimary || event.button !== 0) return;
  if (event.pointerType === "touch") return;  // A finger scrolls.
  end();
  const range = document.createElementNS(SVG, "rect");
  range.setAttribute("class", "range");
  range.setAttribute("y", lanes.dataset.top ?? "0");
  range.setAttribute("height", String(Number(lanes.dataset.bottom) - Number(lanes.dataset.top)));
  lanes.append(range);
  lanes.setPointerCapture(event.pointerId);
  const began = shareAt(lanes, event.clientX);
  drag = { lanes, pointer: event.pointerId, beganX: event.clientX, began, range };
});

document.addEventListener("pointermove", (event) => {
  const at = dragOf(event);
  if (at === null) return;
  const { from, to } = partOf(at, event);
  const left = placeAt(at.lanes, from);
  at.range.setAttribute("x", String(left));
  at.range.setAttribute("width", String(placeAt(at.lanes, to) - left));
  const output = outputOf(at.lanes);
  const said = `${utc(timeAt(at.lanes, from))} to ${utc(timeAt(at.lanes, to))}`;
  if (output) output.textContent = `${said}. Let go to see this part; Escape keeps what is shown.`;
});

document.addEventListener("pointerup", (event) => {
  const at = dragOf(event);
  if (at === null) return;
  const { from, to } = partOf(at, event);
  const address = new URL(location.href);
  address.searchParams.set("since", new Date(Math.floor(timeAt(at.lanes, from))).toISOString());
  address.searchParams.set("until", new Date(Math.ceil(timeAt(at.lanes, to))).toISOString());
  address.searchParams.delete("page");
  const far = Math.abs(event.clientX - at.beganX) >= LEAST_PX;
  end();
  if (far) location.assign(address);
});

document.addEventListener("pointercancel", (event) => {
  if (dragOf(event) !== null) end();
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") end();
});
