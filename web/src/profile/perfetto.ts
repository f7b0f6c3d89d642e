/** Hands a profile to Perfetto's page in a frame, as its protocol wants it: PING until PONG, then the trace. */
import { READING_MS, Refused, ask } from "../server/client";

const PING_MS = 250;

/** Converts and hands over; calls back with what is going on. Returns what ends it.
 *
 * @param window Times in ns that it is to show; null: all.
 */
export function handOver(
  frame: HTMLIFrameElement,
  path: string,
  window: readonly [number, number] | null,
  tell: (state: string) => void,
): () => void {
  let gone = false;
  let stop = (): void => undefined;
  const answered = new Promise<void>((ready) => {
    const ping = setInterval(() => frame.contentWindow?.postMessage("PING", location.origin), PING_MS);
    const pong = (event: MessageEvent): void => {
      if (event.source !== frame.contentWindow || event.data !== "PONG") return;
      stop();
      ready();
    };
    stop = () => {
      clearInterval(ping);
      removeEventListener("message", pong);
    };
    addEventListener("message", pong);
  });
  async function run(): Promise<void> {
    try {
      const [buffer] = await Promise.all([fetchTrace(path), answered]);
      if (gone) return;
      const title = path;
      frame.contentWindow?.postMessage({ perfetto: { buffer, title, keepApiOpen: true } }, location.origin, [
        buffer,
      ]);
      tell("");
      if (window)
        frame.contentWindow?.postMessage(
          { perfetto: { timeStart: window[0] / 1e9, timeEnd: window[1] / 1e9, viewPercentage: 1 } },
          location.origin,
        );
    } catch (error) {
      if (!gone)
        tell(
          error instanceof Refused ? `${error.message}. ${error.hint}` : "The server did not send the trace",
        );
    }
  }
  void run();
  return () => {
    gone = true;
    stop();
  };
}

const fetchTrace = async (path: string): Promise<ArrayBuffer> =>
  (await ask(`chrome?path=${encodeURIComponent(path)}`, {}, READING_MS)).arrayBuffer();
