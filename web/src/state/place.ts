/**
 * The address of the page. A browser that was let in has a place of its own below the server's address, to
 * which its cookie is bound (`serve/login.py`): links for others and for later leave that out.
 */
import { remember } from "./storage";

const PLACE = /~[\w-]{22}\/$/;

/** The path without the place of this browser. */
export const publicPath = (path: string): string => path.replace(PLACE, "");

/** Remember the place, so that the server's address leads to it again: `REOPEN` in `serve/guard.py`. */
export function rememberPlace(path: string): void {
  const place = PLACE.exec(path)?.[0];
  if (place) remember(`place:${publicPath(path)}`, place.slice(0, -1));
}
