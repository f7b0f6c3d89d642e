/** The keys of the timeline. */
import { app } from "../state/app.svelte";
import { isTyping } from "../state/commands";
import { ui } from "../state/ui.svelte";

export interface Acts {
  /** By key, as the browser names it. */
  always: Record<string, () => void>;
  /** With an event selected, before the others; arrows with Shift as "Shift ArrowLeft". */
  selected: Record<string, () => void>;
  isSelected: () => boolean;
}

/** Keys that the timeline has wherever the focus is, before those of the page: it is steered at once. */
const ANYWHERE = new Set("wasdfmnN/,.+-");

export class Keys {
  constructor(private readonly acts: Acts) {}

  /** A key that was pressed within the timeline. */
  readonly within = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const named = event.shiftKey && event.key.startsWith("Arrow") ? `Shift ${event.key}` : event.key;
    const { always, selected, isSelected } = this.acts;
    const act = (isSelected() ? selected[named] : undefined) ?? always[named];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };

  readonly anywhere = (event: KeyboardEvent): void => {
    const { target } = event;
    if (!ANYWHERE.has(event.key) || !app.keysOn || ui.open !== null || isTyping(target)) return;
    if (!(target instanceof Element && target.closest(".timeline, .rail, [role=dialog]"))) this.within(event);
  };
}
