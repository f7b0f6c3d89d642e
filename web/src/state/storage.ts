/** What belongs to the person and not to the view: kept by the browser, where it lets us. */

export function recall(key: string): string | null {
  try {
    return localStorage.getItem(`stepscope-${key}`);
  } catch {
    return null;
  }
}

export function remember(key: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(`stepscope-${key}`);
    else localStorage.setItem(`stepscope-${key}`, value);
  } catch {
    // A browser that forbids storage still shows the page.
  }
}
