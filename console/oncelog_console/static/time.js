// Times that pages show in the zone of the browser.
// @ts-check

/**
 * Write times anew whose zone is the browser's; the server has written them in UTC.
 * @param {ParentNode} root
 */
export function localTimes(root) {
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
