/** Tells an element when it comes near the screen and when it leaves. */

const MARGIN_PX = 80;
const callbacks = new WeakMap<Element, (visible: boolean) => void>();
let observer: IntersectionObserver | undefined;

function shared(): IntersectionObserver {
  return (observer ??= new IntersectionObserver(
    (entries) => {
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
  return () => {
    callbacks.delete(element);
    shared().unobserve(element);
  };
}
