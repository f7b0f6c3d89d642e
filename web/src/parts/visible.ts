/** Tells an element when it comes near the screen and when it leaves. */

const MARGIN_PX = 80;
const callbacks = new Map<Element, (visible: boolean) => void>();
let observer: IntersectionObserver | undefined;
/** Elements that are still taken for visible wherever they are; null: only those near the screen are. */
let room: number | null = null;
let beyond = false;

function shared(): IntersectionObserver {
  return (observer ??= new IntersectionObserver(
    (entries) => {
      if (room !== null) return;
      for (const entry of entries) callbacks.get(entry.target)?.(entry.isIntersecting);
    },
    { rootMargin: `${MARGIN_PX}px 0px` },
  ));
}

/** Whether an element is near the screen now; forces layout. */
export function isVisible(element: Element): boolean {
  const { top, bottom } = element.getBoundingClientRect();
  return bottom > -MARGIN_PX && top < innerHeight + MARGIN_PX;
}

export function whenVisible(element: Element, callback: (visible: boolean) => void): () => void {
  callbacks.set(element, callback);
  shared().observe(element);
  see(callback);
  return () => {
    callbacks.delete(element);
    shared().unobserve(element);
  };
}

/** Takes elements for visible wherever they are, also those to come, until that is taken back.
 *
 * @param most: So many, in the order in which they came.
 * @returns: Whether there were more, and what takes it back.
 */
export function seeAll(most: number): { more: () => boolean; end: () => void } {
  room = most;
  beyond = false;
  for (const callback of callbacks.values()) see(callback);
  const end = (): void => {
    room = null;
    for (const element of callbacks.keys()) {
      // Observed anew, each is told where it is.
      shared().unobserve(element);
      shared().observe(element);
    }
  };
  return { more: () => beyond, end };
}

function see(callback: (visible: boolean) => void): void {
  if (room === null) return;
  if (room === 0) beyond = true;
  else {
    room -= 1;
    callback(true);
  }
}
