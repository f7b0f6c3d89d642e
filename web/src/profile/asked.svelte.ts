/** The answer to a question that changes, as an analysis of a profile is asked again for other steps. */
import { failed, type Failed } from "../server/client";
import { receive } from "../server/receive";

/** The newest answer, or why there is none. Made while a component is made. */
export class Asked<Answer> {
  answer = $state.raw<Answer | null>(null);
  failure = $state.raw<Failed | null>(null);

  /**
   * @param question - Reads what the question is of, and returns what asks it.
   */
  constructor(question: () => () => Promise<Answer>) {
    $effect(() => {
      return receive(
        question(),
        (answer) => ([this.answer, this.failure] = [answer, null]),
        (error) => ([this.answer, this.failure] = [null, failed(error)]),
      );
    });
  }
}
