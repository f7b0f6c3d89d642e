/** What the ranks of a job say of each other, in a sentence. */
import type { Blame, Clocks, JobAnswer } from "../server/api";
import { counted, percent } from "../format/number";
import { nsText } from "../format/units";

export interface Verdict {
  title: string;
  evidence: string;
}

/** "1", "1 and 2", "1, 2 and 3". */
export function listed(ranks: readonly number[]): string {
  return ranks.length < 2 ? ranks.join("") : `${ranks.slice(0, -1).join(", ")} and ${ranks.at(-1)}`;
}

/** Ranks in the order of what the others waited for them. */
export function blamedRanks(blame: readonly Blame[]): { rank: number; ns: number; share: number }[] {
  const sums = new Map<number, { rank: number; ns: number; share: number }>();
  for (const row of blame) {
    const sum = sums.get(row.rank) ?? { rank: row.rank, ns: 0, share: 0 };
    sums.set(row.rank, { rank: row.rank, ns: sum.ns + row.wait_caused_ns, share: sum.share + row.share });
  }
  return [...sums.values()].sort((a, b) => b.ns - a.ns);
}

/** The finding: a suspect of a hang, a rank that comes last beyond chance, or that none can be named. */
export function verdictOf(job: JobAnswer): Verdict {
  if (job.source === "dumps") return ofDumps(job);
  const waited = job.wait
    ? `${percent(job.wait.share_of_communication, 1)} of communication is waiting, ${nsText(job.wait.total_ns)} in all`
    : "";
  if (job.stragglers.length) {
    const ranks = job.stragglers.map((one) => one.rank);
    const share = job.stragglers.reduce((sum, one) => sum + one.score, 0);
    return {
      title: `${ranks.length > 1 ? "Ranks" : "Rank"} ${listed(ranks)} ${ranks.length > 1 ? "make" : "makes"} the others wait`,
      evidence: `${percent(share, 0)} of all waiting; ${waited}`,
    };
  }
  if (job.tasks.length) return ofTasks(job);
  if (!job.wait) return { title: "Not known who waits for whom", evidence: job.notes[0] ?? "" };
  const [first] = blamedRanks(job.blame);
  if (job.wait.needed !== null)
    return {
      title: "Too few collectives to tell a slow rank from chance",
      evidence: `${waited}; ${counted(job.wait.collectives, "collective")} in what was captured, ${job.wait.needed} are needed to tell: capture more steps`,
    };
  const [slow] = job.slow_groups;
  if (slow)
    return {
      title: `Transfers are slower in group ${slow.group} (ranks ${listed(slow.ranks)})`,
      evidence: `${slow.operation} takes ${nsText(slow.transfer_ns)} there and ${nsText(slow.usual_ns)} in the ${counted(slow.others, "other")} of its kind; ${waited}`,
    };
  if (job.shared)
    return {
      title: `Changing ranks make the others wait: ${job.shared.cause}`,
      evidence: `${percent(job.shared.share, 0)} of all waiting, on ${job.shared.ranks} ranks in turn; ${waited}`,
    };
  return {
    title: "No rank comes last more often than by chance",
    evidence: `${waited}${first ? `; most of it for rank ${first.rank}, ${percent(first.share, 0)}` : ""}`,
  };
}

function ofTasks({ tasks }: JobAnswer): Verdict {
  const slow = tasks.find((task) => task.bottleneck);
  const computing = tasks.filter((task) => task.compute_ratio !== null);
  const worst = computing.reduce<(typeof tasks)[number] | null>(
    (least, task) => (least && least.compute_ratio! <= task.compute_ratio! ? least : task),
    null,
  );
  const evidence = worst
    ? `${worst.task} computes for ${percent(worst.compute_ratio, 0)} of its steps, ${percent(worst.waiting_ratio, 0)} is waiting and ${percent(worst.transfer_ratio, 0)} transfer`
    : counted(tasks.length, "task");
  if (slow)
    return {
      title: `${slow.task} makes the workers wait for ${percent(slow.holds_ratio, 0)} of their steps`,
      evidence,
    };
  const server = tasks.some((task) => task.server);
  return { title: server ? "No parameter server stands out" : "Workers of one job", evidence };
}

function ofDumps(job: JobAnswer): Verdict {
  const ranks = job.suspects.map((one) => one.rank);
  if (!ranks.length)
    return {
      title: "No rank can be named that the others wait for",
      evidence: job.notes[0] ?? "",
    };
  return {
    title: `${ranks.length > 1 ? "Ranks" : "Rank"} ${listed(ranks)} ${ranks.length > 1 ? "are" : "is"} what the job waits for`,
    evidence: job.suspects[0]!.reason,
  };
}

/** What the clocks' offsets are of. */
export function clocksText(clock: Clocks): string {
  return clock.one_host
    ? "as recorded: all ranks are on one host and share its clock"
    : `offset to rank ${clock.reference}, from joint collectives`;
}

export function suspectsText(job: JobAnswer): string {
  return `${counted(job.suspects.length, "rank")} of ${job.ranks.length + job.missing.length}`;
}
