/** Tells an element when it comes near the screen and when it leaves. */

const MARGIN = "80px 0px";
const callbacks = new WeakMap<Element, (visible: boolean) => void>();
let observer: IntersectionObserver | undefined;

function shared(): IntersectionObserver {
  return (observer ??= new IntersectionObserver(
    (entries) => {
      for (const entry of entries) callbacks.get(entry.target)?.(entry.isIntersecting);
    },
    { rootMargin: MARGIN },
  ));
}

export function whenVisible(element: Element, callback: (visible: boolean) => void): () => void {
  callbacks.set(element, callback);
  shared().observe(element);
  return () => {
    callbacks.delete(element);
    shared().unobserve(element);
  };
}
