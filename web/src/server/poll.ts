/** When the page asks the server what is new: a state machine without a clock of its own.
 *
 * Every second while someone looks or a run is going, every five when nothing has happened for a minute, never while
 * the tab is hidden; after a failure it waits longer each time, up to eight seconds.
 */

export const BUSY_MS = 1000;
export const IDLE_MS = 5000;
export const LOADING_MS = 80;
export const QUIET_MS = 60_000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 8000;

export interface PollState {
  /** When the last answer came; null before the first. */
  answeredAt: number | null;
  /** When something new came, or someone did something. */
  activeAt: number;
  failures: number;
  /** First failure since the last answer. */
  failedAt: number | null;
  loading: boolean;
  running: boolean;
  /** Whether nothing new can come: the answers lie in the page itself. */
  over: boolean;
  hidden: boolean;
}

export function initialPoll(now: number): PollState {
  return {
    answeredAt: null,
    activeAt: now,
    failures: 0,
    failedAt: null,
    loading: true,
    running: false,
    over: false,
    hidden: false,
  };
}

export interface Answered {
  news: boolean;
  loading: boolean;
  running: boolean;
  over?: boolean;
}

export function answered(
  state: PollState,
  now: number,
  { news, loading, running, over = false }: Answered,
): PollState {
  const activeAt = news ? now : state.activeAt;
  return { ...state, answeredAt: now, activeAt, failures: 0, failedAt: null, loading, running, over };
}

export function failed(state: PollState, now: number): PollState {
  return { ...state, failures: state.failures + 1, failedAt: state.failedAt ?? now };
}

export function acted(state: PollState, now: number): PollState {
  return { ...state, activeAt: now };
}

export function setHidden(state: PollState, hidden: boolean, now: number): PollState {
  return { ...state, hidden, activeAt: hidden ? state.activeAt : now };
}

/** Milliseconds until the next question; null: not until the tab is shown again. */
export function nextDelay(state: PollState, now: number): number | null {
  if (state.hidden || state.over) return null;
  if (state.failures > 0) return Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** (state.failures - 1));
  if (state.loading) return LOADING_MS;
  if (state.running || now - state.activeAt < QUIET_MS) return BUSY_MS;
  return IDLE_MS;
}

export type Link = "connecting" | "live" | "disconnected" | "paused" | "report";

/** What the badge says. One failed question is no news: the next one usually succeeds. */
export function linkOf(state: PollState, now: number): { link: Link; seconds: number } {
  const since = (at: number | null): number => (at === null ? 0 : Math.max(0, now - at) / 1000);
  if (state.over) return { link: "report", seconds: 0 };
  if (state.hidden) return { link: "paused", seconds: since(state.answeredAt) };
  if (state.failedAt !== null && (state.failures > 1 || state.answeredAt === null)) {
    return { link: "disconnected", seconds: since(state.answeredAt ?? state.failedAt) };
  }
  if (state.answeredAt === null) return { link: "connecting", seconds: 0 };
  return { link: "live", seconds: since(state.answeredAt) };
}

/** Runs the machine against a real clock and a real server. */
export class Poller {
  state: PollState;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #asking = false;
  #again = false;

  constructor(
    private readonly ask: () => Promise<Answered>,
    private readonly changed: (state: PollState) => void,
    private readonly now: () => number = Date.now,
  ) {
    this.state = initialPoll(now());
  }

  /** Asks at once; while a question is on its way, once more right after it. */
  async poke(): Promise<void> {
    clearTimeout(this.#timer);
    if (this.#asking) {
      this.#again = true;
      return;
    }
    this.#asking = true;
    try {
      const answer = await this.ask();
      this.#set(answered(this.state, this.now(), answer));
    } catch {
      this.#set(failed(this.state, this.now()));
    } finally {
      this.#asking = false;
    }
    this.#schedule();
  }

  hide(hidden: boolean): void {
    this.#set(setHidden(this.state, hidden, this.now()));
    clearTimeout(this.#timer);
    if (!hidden) void this.poke();
  }

  act(): void {
    const idle = nextDelay(this.state, this.now()) === IDLE_MS;
    this.state = acted(this.state, this.now());
    if (idle) void this.poke();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#set({ ...this.state, hidden: true });
  }

  #set(state: PollState): void {
    this.state = state;
    this.changed(state);
  }

  #schedule(): void {
    const again = this.#again && this.state.failures === 0;
    this.#again = false;
    const delay = again ? 0 : nextDelay(this.state, this.now());
    if (delay !== null) this.#timer = setTimeout(() => void this.poke(), delay);
  }
}
