/** The one way in which a part of the page asks while it is shown. */

/** Returned by what takes an answer, or a refusal: it is not asked for again. */
export const ENOUGH = Symbol("enough");

interface When {
  /** Milliseconds of rest before the first question: what changes meanwhile asks once. */
  after?: number;
  /** Milliseconds from an answer to the next question, which a hidden page does not ask. */
  every?: number;
}

/** Asks, and hands on the answer or why there is none; neither once the part has left or asks for something else.
 *
 * To be called in an effect that returns what this returns: what ends it.
 */
export function receive<Answer>(
  ask: () => Promise<Answer>,
  take: (answer: Answer) => unknown,
  refuse: (error: unknown) => unknown = () => undefined,
  { after, every }: When = {},
): () => void {
  let left = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = async (): Promise<void> => {
    let outcome: unknown;
    try {
      const answer = await ask();
      if (!left) outcome = take(answer);
    } catch (error) {
      if (!left) outcome = refuse(error);
    }
    if (every !== undefined && outcome !== ENOUGH) rest(every);
  };
  const rest = (ms: number): void => {
    if (!left) timer = setTimeout(() => (document.hidden ? rest(ms) : void look()), ms);
  };
  if (after === undefined) void look();
  else timer = setTimeout(() => void look(), after);
  return () => {
    left = true;
    clearTimeout(timer);
  };
}
