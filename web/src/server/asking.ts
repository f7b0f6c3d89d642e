/** One question for all who want its answer: not asked twice for the same, and now and then where it changes. */

interface Question {
  wanted: number;
  /** What the newest answer was asked for; null: none has come. */
  version: number | null;
  next: number;
  askedAt: number;
  busy: boolean;
  timer: ReturnType<typeof setTimeout> | undefined;
}

export class Asking {
  readonly #questions = new Map<string, Question>();

  /**
   * @param restMs: Between two questions about the same.
   * @param look: Asks; a failure is asked again when somebody wants it after the rest.
   * @param now: The time in ms.
   */
  constructor(
    readonly restMs: number,
    readonly look: (name: string) => Promise<void>,
    readonly now: () => number = Date.now,
  ) {}

  /** Wants an answer for a name in some version; returns what takes that back. */
  want(name: string, version: number): () => void {
    let question = this.#questions.get(name);
    if (!question) {
      question = {
        wanted: 0,
        version: null,
        next: version,
        askedAt: -Infinity,
        busy: false,
        timer: undefined,
      };
      this.#questions.set(name, question);
    }
    const asked = question;
    asked.wanted += 1;
    asked.next = version;
    this.#plan(name, asked);
    return () => {
      asked.wanted -= 1;
      if (asked.wanted) return;
      clearTimeout(asked.timer);
      asked.timer = undefined;
    };
  }

  #plan(name: string, question: Question): void {
    if (question.busy || question.timer !== undefined || question.version === question.next) return;
    const rest = Math.max(0, question.askedAt + this.restMs - this.now());
    question.timer = setTimeout(() => void this.#ask(name, question), rest);
  }

  async #ask(name: string, question: Question): Promise<void> {
    const version = question.next;
    question.timer = undefined;
    question.busy = true;
    question.askedAt = this.now();
    try {
      await this.look(name);
      question.version = version;
    } catch {
      // Who wants it is told by the one who asks.
    }
    question.busy = false;
    if (question.wanted && question.version !== null) this.#plan(name, question);
  }
}
