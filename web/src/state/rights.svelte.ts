/** What the one who looks may do: with a link for sharing, or a server that only reads, nothing is offered that it refuses. */
import type { AccessFacts } from "../server/api";
import { told } from "../server/client";

const RETRY_MS = 5000;

class Rights {
  /** Whether runs may be named, deleted, restored and asked for profiles; so until the server has said. */
  changes = $state(true);

  async look(): Promise<void> {
    try {
      this.changes = (await told<AccessFacts>("access")).changes;
    } catch {
      setTimeout(() => void this.look(), RETRY_MS);
    }
  }
}

export const rights = new Rights();
