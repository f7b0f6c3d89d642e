/** The whole of a text that has no room, as its tooltip: one mechanism for every cell, name and title of the page. */

const DEPTH = 4;

/** Gives the element that is pointed at, or focused, its text as a title if that is cut. */
export function explainCut({ target }: Event): void {
  let element = target instanceof HTMLElement ? target : null;
  for (let up = 0; element && up < DEPTH; up += 1, element = element.parentElement) {
    if (element.title) return;
    if (element.scrollWidth <= element.clientWidth || getComputedStyle(element).textOverflow !== "ellipsis")
      continue;
    element.title = element.innerText;
    // The text may change, or have room again, before it is pointed at next.
    element.addEventListener("pointerleave", () => element?.removeAttribute("title"), { once: true });
    return;
  }
}
