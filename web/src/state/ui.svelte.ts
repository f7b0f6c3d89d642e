/** What is open on the page and is not part of the view that a link carries. */
import { tick } from "svelte";
import { publicPath } from "./place";
import { app } from "./app.svelte";

export type Dialog = "palette" | "help" | "run" | "delete" | "trash" | "axis" | "own" | "step";

/** Up to this width the rail lies over the page, and is not there until it is asked for. */
const NARROW = 1024;

class Ui {
  open = $state<Dialog | null>(null);
  /** The run that the open dialog is about. */
  subject = $state<string | null>(null);
  /** Whether the rail is shown: as the address says, else only where runs are chosen. */
  rail = $derived(
    app.view.panels.rail ??
      (["scalars", "compare"].includes(app.view.page) &&
        app.catalog.families.length > 1 &&
        innerWidth > NARROW),
  );

  /** Whether a sheet on a small screen is as high as the page, not half of it. */
  fullSheet = $state(false);

  /** What the dialog for a chart of one's own begins with; `editing` is the chart that it changes. */
  draft = $state.raw<{ text: string; editing: string | null }>({ text: "", editing: null });

  /** The step that the dialog of a note is about; null: the one that is typed there. */
  step = $state.raw<number | null>(null);

  /** Opens the dialog of a note on a step. */
  note(run: string | null, step: number | null): void {
    this.subject = run;
    this.step = step;
    this.open = "step";
  }

  /** Opens the dialog for a chart of one's own. */
  make(text = "", editing: string | null = null): void {
    this.draft = { text, editing };
    this.open = "own";
  }

  /** What was typed since the palette was asked for, until it has the focus and takes it; else null. */
  typed: string | null = null;

  toggle(dialog: Dialog): void {
    this.open = this.open === dialog ? null : dialog;
    this.typed = this.open === "palette" ? "" : null;
  }

  /** Opens a dialog about a run. */
  about(dialog: Dialog, run: string | null): void {
    this.subject = run;
    this.open = dialog;
  }

  toggleRail(): void {
    app.set({ panels: { rail: !this.rail } });
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
      await navigator.clipboard.writeText(location.origin + publicPath(location.pathname) + location.hash);
      app.announcement = "Link copied";
    } catch {
      app.announcement = "The browser did not allow copying; the address bar holds the link";
    }
  }
}

export const ui = new Ui();
