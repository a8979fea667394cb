// The figures of a chart are read off where the pointer is, or by the arrow keys: a line, and a text below.
// @ts-check

import { SVG, inside, outputOf, placeAt, shareAt, timeAt, utc } from "./axis.js";

/** @typedef {{ name: string, times: number[], values: number[], joined: boolean[] }} Series */

/** @param {SVGSVGElement} chart @returns {Series[]} */
function seriesOf(chart) {
  return [...chart.querySelectorAll("g.series")].map((group) => ({
    name: group.querySelector("title")?.textContent ?? "",
    times: numbers(group, "data-times"),
    values: numbers(group, "data-values"),
    joined: (group.getAttribute("data-joined") ?? "").split(" ").map((each) => each === "1"),
  }));
}

/** @param {Element} element @param {string} name */
function numbers(element, name) {
  return (element.getAttribute(name) ?? "").split(" ").filter(Boolean).map(Number);
}

/** The value of a series at a time; null in a gap, and outside. @param {Series} series @param {number} at */
function valueAt(series, at) {
  const { times, values, joined } = series;
  const after = times.findIndex((time) => time >= at);
  if (after < 0) return null;
  if (times[after] === at) return values[after];
  if (after === 0 || !joined[after]) return null;
  const share = (at - times[after - 1]) / (times[after] - times[after - 1]);
  return values[after - 1] + share * (values[after] - values[after - 1]);
}

/** @param {SVGSVGElement} chart @param {number} share of the time that the chart shows */
function show(chart, share) {
  const held = inside(share), at = timeAt(chart, held);
  let line = chart.querySelector("line.hover");
  if (!line) {
    line = document.createElementNS(SVG, "line");
    line.setAttribute("class", "hover");
    line.setAttribute("y1", chart.dataset.top ?? "0");
    line.setAttribute("y2", chart.dataset.bottom ?? "0");
    chart.append(line);
  }
  const x = String(placeAt(chart, held));
  line.setAttribute("x1", x);
  line.setAttribute("x2", x);
  const figures = seriesOf(chart).map((series) => {
    const value = valueAt(series, at);
    return `${series.name} ${value === null ? "–" : value.toLocaleString("en", { maximumFractionDigits: 1 })}`;
  });
  const output = outputOf(chart);
  if (output) output.textContent = `${utc(at)}: ${figures.join(", ")}`;
  chart.dataset.share = String(held);
}

document.addEventListener("pointermove", (event) => {
  const chart = event.target instanceof Element ? event.target.closest("svg.chart") : null;
  if (!(chart instanceof SVGSVGElement)) return;
  show(chart, shareAt(chart, event.clientX));
});

document.addEventListener("keydown", (event) => {
  const chart = event.target instanceof Element ? event.target.closest("svg.chart") : null;
  const step = { ArrowLeft: -0.01, ArrowRight: 0.01 }[event.key];
  if (!(chart instanceof SVGSVGElement) || step === undefined) return;
  event.preventDefault();
  show(chart, Number(chart.dataset.share ?? "1") + step);
});
