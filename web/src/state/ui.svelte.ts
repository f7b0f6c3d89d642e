/** What is open on the page and is not part of the view that a link carries. */
import { tick } from "svelte";
import { app } from "./app.svelte";

export type Dialog = "palette" | "help";

class Ui {
  open = $state<Dialog | null>(null);
  /** Whether the rail is shown: as the address says, else only where it is of use. */
  rail = $derived(app.view.rail ?? (app.view.page === "scalars" && app.catalog.families.length > 1));

  toggle(dialog: Dialog): void {
    this.open = this.open === dialog ? null : dialog;
  }

  toggleRail(): void {
    app.set({ rail: !this.rail });
  }

  focus(id: string): void {
    void tick().then(() => {
      const field = document.getElementById(id);
      field?.focus();
      if (field instanceof HTMLInputElement) field.select();
    });
  }

  async copyLink(): Promise<void> {
    try {
      await navigator.clipboard.writeText(location.href);
      app.announcement = "Link copied";
    } catch {
      app.announcement = "The browser did not allow copying; the address bar holds the link";
    }
  }
}

export const ui = new Ui();
