/** The cursor that all charts share. */

export interface CursorState {
  /** Chart under the pointer or with the focus; null: none, as when the rail is pointed at. */
  chart: string | null;
  x: number | null;
  /** Pixels of the pointer from the top of the chart; null: moved by keys. */
  pointer: number | null;
  /** Place of the pointer or of the cursor in the window. */
  left: number;
  top: number;
  /** The line that is meant, by its id. */
  line: string | null;
  /** The run that is brought forward on all charts. */
  family: string | null;
}

const NOWHERE: CursorState = {
  chart: null,
  x: null,
  pointer: null,
  left: 0,
  top: 0,
  line: null,
  family: null,
};

class SharedCursor {
  state = $state.raw<CursorState>(NOWHERE);

  move(state: Partial<CursorState>): void {
    this.state = { ...this.state, ...state };
  }

  leave(chart?: string): void {
    if (chart === undefined || this.state.chart === chart) this.state = NOWHERE;
  }

  /** Brings a run forward, as from the rail. */
  point(family: string | null): void {
    if (this.state.family !== family) this.state = { ...this.state, family };
  }
}

export const cursor = new SharedCursor();
