/** Acts where a link is clicked; with a modifier the browser does with it what it does with links. */
export function follow(event: MouseEvent, act: () => void): void {
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  act();
}
