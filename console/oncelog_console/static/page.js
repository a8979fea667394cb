// What every page has: copying a command, and times in the zone of the browser.
// @ts-check

/** @param {ParentNode} root */
function localTimes(root) {
  for (const time of root.querySelectorAll("time[data-zone=browser]")) {
    const moment = new Date(time.getAttribute("datetime") ?? "");
    if (Number.isNaN(moment.getTime())) continue;
    /** @param {number} number @param {number} [digits] */
    const two = (number, digits = 2) => String(number).padStart(digits, "0");
    const day = [moment.getFullYear(), two(moment.getMonth() + 1), two(moment.getDate())].join("-");
    const clock = [moment.getHours(), moment.getMinutes(), moment.getSeconds()].map((n) => two(n)).join(":");
    time.textContent = `${day} ${clock}.${two(moment.getMilliseconds(), 3)}`;
  }
}

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

document.addEventListener("htmx:afterSwap", () => localTimes(document));
localTimes(document);
