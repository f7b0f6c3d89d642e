/** Hands a profile to Perfetto's page in a frame, as its protocol wants it: PING until PONG, then the trace. */
import { READING_MS, Refused, ask } from "../server/client";
import { receive } from "../server/receive";

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
  const end = receive(
    () => Promise.all([fetchTrace(path), answered]),
    ([buffer]) => {
      const post = (perfetto: object, moved: Transferable[] = []): void =>
        frame.contentWindow?.postMessage({ perfetto }, location.origin, moved);
      post({ buffer, title: path, keepApiOpen: true }, [buffer]);
      tell("");
      if (window) post({ timeStart: window[0] / 1e9, timeEnd: window[1] / 1e9, viewPercentage: 1 });
    },
    (error) =>
      tell(
        error instanceof Refused ? `${error.message}. ${error.hint}` : "The server did not send the trace",
      ),
  );
  return () => {
    end();
    stop();
  };
}

const fetchTrace = async (path: string): Promise<ArrayBuffer> =>
  (await ask(`chrome?path=${encodeURIComponent(path)}`, {}, READING_MS)).arrayBuffer();
