// Where a place of the window lies on a picture's axis of time, and the other way round.
// @ts-check

export const SVG = "http://www.w3.org/2000/svg";

/** The figures that the server says about a picture, in its own measure; times in ms since 1970.
 * @param {SVGSVGElement} picture */
function axisOf({ dataset }) {
  const { since, until, left, right } = dataset;
  return { since: Number(since), until: Number(until), left: Number(left), right: Number(right) };
}

/** The share of the axis that lies before a place of the window, from 0 to 1.
 * @param {SVGSVGElement} picture @param {number} clientX */
export function shareAt(picture, clientX) {
  const { left, right } = axisOf(picture), box = picture.getBoundingClientRect();
  const scale = box.width / picture.viewBox.baseVal.width;
  return inside(((clientX - box.left) / scale - left) / (right - left));
}

/** A share that is on the axis. @param {number} share */
export function inside(share) {
  return Math.min(Math.max(share, 0), 1);
}

/** The time at a share of the axis. @param {SVGSVGElement} picture @param {number} share */
export function timeAt(picture, share) {
  const { since, until } = axisOf(picture);
  return since + (until - since) * share;
}

/** The place in the picture at a share of the axis. @param {SVGSVGElement} picture @param {number} share */
export function placeAt(picture, share) {
  const { left, right } = axisOf(picture);
  return left + (right - left) * share;
}

/** A time for people. @param {number} ms */
export function utc(ms) {
  return `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** Where what a picture says is written for people. @param {Element} picture */
export function outputOf(picture) {
  return picture.closest("figure")?.querySelector("output") ?? null;
}
